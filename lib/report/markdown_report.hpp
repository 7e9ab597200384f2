// Results as Markdown tables, for a comment on a pull request.
#pragma once

#include <string>

#include "report/report_groups.hpp"

namespace kvbench {

std::string markdown_report(const ResultSet& results, const std::string& title,
                            const ColumnsOfTask& columns);

}  // namespace kvbench
