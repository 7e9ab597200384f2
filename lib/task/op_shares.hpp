// Where the time of a run went, operation by operation: as part of its record, and as a table.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "backend/profiling_backend.hpp"
#include "report/record.hpp"

namespace kvbench {

// Puts a profile into the details of a record: for each operation that was called, its calls,
// seconds, share of all seconds, GFLOP/s and GB/s. Keys end in "profile".
void add_profile(const std::string& key, std::span<const OpProfile> profile, RunRecord& record);

// Whether the record has some: of a task that measures its own.
bool has_profile(const RunRecord& record);

// The profiles that a record holds, one table each.
void write_profiles(std::ostream& out, const RunRecord& record);

}  // namespace kvbench
