// One KV head stored as in KIVI. Slots are in the order of the text; on each side the first ones
// are quantised and the rest, the residual, are rows of the cache's dtype:
//   keys    per channel, in groups of `group` entries: a buffer that is quantised in blocks of
//           `residual` entries whenever that many wait;
//   values  per entry, in groups of `group` channels: all but the newest `residual` entries.
//
// Entries are counted as stored, so that the rules hold under eviction too. An evicted entry is
// removed wherever it stands. The codes of those that stay are never made anew: a key keeps the
// parameters of the group in which it was quantised, which live as long as one entry of the group
// does (scattered eviction can thus leave many parameters for few entries; they are counted).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/head_store.hpp"
#include "cache/kivi_options.hpp"

namespace kvbench {

// Bytes of one quantised entry of one head: codes and its share of the parameters.
double kivi_entry_bytes(const KiviOptions& options, std::int64_t head_dim);

class KiviStore final : public HeadStore {
 public:
  KiviStore(Backend& backend, MemoryMeter& meter, const KiviOptions& options, std::int64_t head_dim,
            DType dtype);

  void reserve(std::int64_t rows) override;
  void reserve_waiting(std::int64_t rows) override;
  NewRows append(std::int64_t n) override;
  void keep(std::span<const SlotRun> runs) override;
  KvHeadView view() const override;
  void quantise(std::vector<DueEntries>& due) override;
  void release_waiting() override;
  std::int64_t quantised_rows() const override { return quantised_; }
  std::int64_t live_bytes() const override;
  void shrink(std::int64_t spare_rows) override;
  void clear() override;

 private:
  void keep_side(std::span<const SlotRun> runs, RowSlab& codes, RowSlab& residual);
  void keep_groups(std::span<const SlotRun> runs);
  QuantiseArgs take_oldest(const QuantFormat& format, std::int64_t n, RowSlab& residual,
                           RowSlab& codes, void* parameters);
  std::int64_t residual_capacity() const;

  KiviOptions options_;
  std::int64_t head_dim_;
  DType dtype_;
  QuantFormat key_format_, value_format_;
  RowSlab key_codes_;                     // one column
  RowSlab key_groups_;                    // parameters, a row per group that has entries left
  std::vector<std::int32_t> group_ends_;  // [groups] slot behind each group's last entry
  RowSlab key_residual_;                  // one column
  RowSlab value_codes_;                   // columns: codes, parameters
  RowSlab value_residual_;                // one column
  std::int64_t quantised_ = 0;
  std::vector<SlotRun> front_, back_, groups_;  // of the last `keep`
};

}  // namespace kvbench
