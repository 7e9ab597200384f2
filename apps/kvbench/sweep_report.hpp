// What `kvbench sweep` prints: the plan before a run, and the tables of a folder of records after
// it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <ostream>
#include <vector>

#include "report/record_store.hpp"
#include "task/sweep_plan.hpp"

namespace kvbench {

// One line per cell: what it is, tokens, memory of keys and values, and the time it takes by the
// runs that are finished in `out` (see CellTimes).
void print_plan(std::ostream& stream, const SweepPlan& plan, const std::filesystem::path& out);

// All rows of the folder's index, in the order of the plan where it names them.
std::vector<nlohmann::ordered_json> rows_in_order(const IndexContents& index,
                                                  const SweepPlan& plan);

// A table for each task: the settings in which its rows differ, then the task's own columns.
void print_tables(std::ostream& stream, const std::vector<nlohmann::ordered_json>& rows);

}  // namespace kvbench
