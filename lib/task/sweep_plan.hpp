// A sweep made ready: its cells checked before anything is loaded, gathered into groups that one
// run of a task serves, and divided among processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/sweep_config.hpp"
#include "task/task.hpp"

namespace kvbench {

// Cells that differ in the policy alone: one run of the task with a list of policies.
struct SweepGroup {
  std::vector<SweepCell> cells;
  std::int64_t cost = 0;  // tokens times bytes of weights; see add_costs
};

struct SweepPlan {
  std::filesystem::path out;  // empty: not given
  std::vector<SweepGroup> groups;

  std::size_t cell_count() const;
};

// A task with its settings given. `dry_run`: every length as short as the settings say.
struct PreparedTask {
  const TaskInfo* info = nullptr;
  std::unique_ptr<Task> task;
  SettingSet settings;
};
PreparedTask prepare_task(const SweepCell& settings, const std::vector<std::string>& policies,
                          bool dry_run);
PreparedTask prepare_task(const SweepGroup& group, bool dry_run);

// "ppl, policy sink4+252, seed 3": a cell as messages name it.
std::string cell_label(const SweepCell& cell);

// Reads the configuration, applies `overrides` ("a.b=c"), expands and checks every cell: settings,
// policies, equal cells. Models and texts stay unread. ConfigError names file, cell and key.
SweepPlan read_sweep(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// Of the safetensors files in the folder, 1 where there is none: it scales costs, no more.
std::int64_t weight_file_bytes(const std::filesystem::path& model);

// The estimated work of every group, from its text and the size of the checkpoint.
void add_costs(SweepPlan& plan, TaskContext& context);

// Part `index` (from 0) of `parts`: longest group first, each to the part with least work so far.
// Every process that divides the same plan finds the same parts. Needs add_costs.
std::vector<SweepGroup> part_of(const std::vector<SweepGroup>& groups, std::size_t index,
                                std::size_t parts);

}  // namespace kvbench
