// Results as one HTML file that needs nothing else: style, scripts, the chart library and all data
// are in it, and its content security policy allows no connection.
#pragma once

#include <string>

#include "report/report_groups.hpp"

namespace kvbench {

// `title` and all text of the records may hold anything.
std::string html_report(const ResultSet& results, const std::string& title,
                        const ColumnsOfTask& columns);

}  // namespace kvbench
