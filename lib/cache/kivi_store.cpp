// KiviStore: what is quantised when, and eviction across the border of codes and residual.
#include "cache/kivi_store.hpp"

#include <algorithm>

namespace kvbench {
namespace {

QuantFormat format(const KiviOptions& options, bool along_rows) {
  return {.bits = options.bits, .group = options.group, .along_rows = along_rows};
}

}  // namespace

double kivi_entry_bytes(const KiviOptions& options, std::int64_t head_dim) {
  const QuantFormat keys = format(options, true);
  const QuantFormat values = format(options, false);
  const std::size_t whole = packed_row_bytes(head_dim, keys) + packed_row_bytes(head_dim, values) +
                            parameter_bytes(head_dim, values);
  return static_cast<double>(whole) +
         static_cast<double>(parameter_bytes(head_dim, keys)) / static_cast<double>(options.group);
}

KiviStore::KiviStore(Backend& backend, MemoryMeter& meter, const KiviOptions& options,
                     std::int64_t head_dim, DType dtype)
    : options_(options),
      head_dim_(head_dim),
      dtype_(dtype),
      key_format_(format(options, true)),
      value_format_(format(options, false)),
      key_codes_(backend, meter, {packed_row_bytes(head_dim, key_format_)}),
      key_groups_(backend, meter, {parameter_bytes(head_dim, key_format_)}),
      key_residual_(backend, meter, {static_cast<std::size_t>(head_dim) * dtype_size(dtype)}),
      value_codes_(
          backend, meter,
          {packed_row_bytes(head_dim, value_format_), parameter_bytes(head_dim, value_format_)}),
      value_residual_(backend, meter, {static_cast<std::size_t>(head_dim) * dtype_size(dtype)}) {}

// The values' residual slides by one row a step: a quarter more rows make that cheap.
std::int64_t KiviStore::residual_capacity() const {
  return options_.residual + options_.residual / 4 + 1;
}

void KiviStore::reserve(std::int64_t rows) {
  const auto grow = [](RowSlab& slab, std::int64_t wanted) {
    if (slab.capacity() < wanted) slab.resize(wanted);
  };
  grow(key_codes_, rows);
  grow(key_groups_, rows / options_.group);
  grow(key_residual_, std::min(rows, options_.residual));
  grow(value_codes_, rows);
  grow(value_residual_, std::min(rows, residual_capacity()));
}

void KiviStore::reserve_waiting(std::int64_t rows) {
  for (RowSlab* residual : {&key_residual_, &value_residual_}) {
    const std::int64_t wanted = residual->length() + rows;
    if (residual->capacity() < wanted) residual->resize(wanted);
  }
}

HeadStore::NewRows KiviStore::append(std::int64_t n) {
  key_residual_.append(n);
  value_residual_.append(n);
  return {key_residual_.new_row(0, n), value_residual_.new_row(0, n)};
}

KvHeadView KiviStore::view() const {
  KvHeadView view{key_residual_.rows(0), value_residual_.rows(0), nullptr, 0};
  view.quantised_keys = {.format = key_format_,
                         .codes = static_cast<const std::uint8_t*>(key_codes_.rows(0)),
                         .parameters = static_cast<const std::uint16_t*>(key_groups_.rows(0)),
                         .n_rows = key_codes_.length(),
                         .group_ends = group_ends_.data(),
                         .n_groups = key_groups_.length()};
  view.quantised_values = {.format = value_format_,
                           .codes = static_cast<const std::uint8_t*>(value_codes_.rows(0)),
                           .parameters = static_cast<const std::uint16_t*>(value_codes_.rows(1)),
                           .n_rows = value_codes_.length()};
  return view;
}

void KiviStore::quantise(std::vector<DueEntries>& due) {
  const std::int64_t n_keys = key_residual_.length() / options_.residual * options_.residual;
  if (n_keys > 0) {
    const std::int64_t n_groups = n_keys / options_.group;
    const std::int64_t first = key_codes_.length();
    key_codes_.append(n_keys);
    key_groups_.append(n_groups);
    for (std::int64_t g = 1; g <= n_groups; ++g) {
      group_ends_.push_back(static_cast<std::int32_t>(first + g * options_.group));
    }
    due.push_back({take_oldest(key_format_, n_keys, key_residual_, key_codes_,
                               key_groups_.new_row(0, n_groups)),
                   true, first});
  }
  const std::int64_t n_values = value_residual_.length() - options_.residual;
  if (n_values > 0) {
    const std::int64_t first = value_codes_.length();
    value_codes_.append(n_values);
    due.push_back({take_oldest(value_format_, n_values, value_residual_, value_codes_,
                               value_codes_.new_row(1, n_values)),
                   false, first});
  }
}

// The oldest `n` rows of `residual` become the newest `n` of `codes`, which have room for them.
QuantiseArgs KiviStore::take_oldest(const QuantFormat& format, std::int64_t n, RowSlab& residual,
                                    RowSlab& codes, void* parameters) {
  const void* rows = residual.rows(0);
  residual.drop_front(n);  // they stay where they are until more rows are appended
  quantised_ += n;
  return {.rows = rows,
          .dtype = dtype_,
          .n_rows = n,
          .width = head_dim_,
          .format = format,
          .codes = codes.new_row(0, n),
          .parameters = parameters};
}

// A prompt waits in the residual as a whole.
void KiviStore::release_waiting() {
  for (RowSlab* residual : {&key_residual_, &value_residual_}) {
    if (residual->capacity() > 2 * residual_capacity() + 16) residual->resize(residual_capacity());
  }
}

void KiviStore::keep(std::span<const SlotRun> runs) {
  keep_groups(runs);
  keep_side(runs, key_codes_, key_residual_);
  keep_side(runs, value_codes_, value_residual_);
}

void KiviStore::keep_side(std::span<const SlotRun> runs, RowSlab& codes, RowSlab& residual) {
  const std::int64_t border = codes.length();
  front_.clear();
  back_.clear();
  for (const SlotRun& run : runs) {
    const std::int64_t end = run.first + run.count;
    if (run.first < border) front_.push_back({run.first, std::min(end, border) - run.first});
    if (end > border) {
      const std::int64_t first = std::max(run.first, border);
      back_.push_back({first - border, end - first});
    }
  }
  codes.keep(front_);
  residual.keep(back_);
}

// Counts what `runs` leave of each group; groups without entries go, with their parameters.
void KiviStore::keep_groups(std::span<const SlotRun> runs) {
  groups_.clear();
  std::size_t left = 0;     // groups that stay, so far
  std::int32_t kept = 0;    // entries that stay, so far
  std::int64_t begin = 0;   // of the group looked at
  auto run = runs.begin();  // the first that reaches beyond `begin`
  for (std::size_t g = 0; g < group_ends_.size(); ++g) {
    const std::int64_t end = group_ends_[g];
    const std::int32_t before = kept;
    for (; run != runs.end() && run->first < end; ++run) {
      const std::int64_t run_end = run->first + run->count;
      kept += static_cast<std::int32_t>(std::min(run_end, end) - std::max(run->first, begin));
      if (run_end > end) break;
    }
    begin = end;
    if (kept == before) continue;
    group_ends_[left++] = kept;
    const auto index = static_cast<std::int64_t>(g);
    if (!groups_.empty() && groups_.back().first + groups_.back().count == index) {
      ++groups_.back().count;
    } else {
      groups_.push_back({index, 1});
    }
  }
  group_ends_.resize(left);
  key_groups_.keep(groups_);
}

std::int64_t KiviStore::live_bytes() const {
  return key_codes_.live_bytes() + key_groups_.live_bytes() + key_residual_.live_bytes() +
         value_codes_.live_bytes() + value_residual_.live_bytes();
}

void KiviStore::shrink(std::int64_t spare_rows) {
  const auto cut = [](RowSlab& slab, std::int64_t rows) {
    if (rows < slab.capacity()) slab.resize(rows);
  };
  cut(key_codes_, key_codes_.length() + key_residual_.length() + spare_rows);
  cut(key_groups_, key_groups_.length() + (key_residual_.length() + spare_rows) / options_.group);
  cut(value_codes_, value_codes_.length() + value_residual_.length() + spare_rows);
  cut(key_residual_, residual_capacity());
  cut(value_residual_, residual_capacity());
}

void KiviStore::clear() {
  for (RowSlab* slab :
       {&key_codes_, &key_groups_, &key_residual_, &value_codes_, &value_residual_}) {
    slab->clear();
  }
  group_ends_.clear();
}

}  // namespace kvbench
