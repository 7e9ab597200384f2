// The parts of a report's page that do not depend on results: files of page/, and Chart.js as the
// system has it. The build writes the definitions (page/embed.cmake).
#pragma once

#include <string_view>

namespace kvbench {

std::string_view page_template();       // page/report.html
std::string_view page_style();          // page/report.css
std::string_view page_script();         // page/*.js
std::string_view page_chart_library();  // chart.min.js

}  // namespace kvbench
