// random: a seeded control. Each KV head evicts entries drawn uniformly from all but the newest.
// What it keeps depends on seed, layer, KV head and step alone, never on threads.
#include "core/rng.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(), keep_option(),  timing_option("decode"),
    interval_option(), evict_option(), positions_option("original"),
};

class RandomPolicy final : public EvictionPolicy {
 public:
  explicit RandomPolicy(const PolicyOptions& options) : traits_(scored_traits(options, {})) {}
  const PolicyTraits& traits() const override { return traits_; }
  void reset(std::uint64_t seed) override { seed_ = seed; }

  void select(LayerView& view, KeepList& keep) override {
    for (std::size_t kv_head = 0; kv_head < keep.size(); ++kv_head) {
      const auto stream = (static_cast<std::uint64_t>(view.tokens_seen) << 24) ^
                          (static_cast<std::uint64_t>(view.layer) << 12) ^ kv_head;
      draw(Rng(seed_, stream), view.length(static_cast<std::int64_t>(kv_head)), view.capacity,
           keep[kv_head]);
    }
  }

 private:
  // Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S): ascending, uniform.
  static void draw(Rng rng, std::int64_t length, std::int64_t capacity,
                   std::vector<std::int32_t>& kept) {
    std::int64_t wanted = capacity - 1;
    for (std::int64_t slot = 0; slot < length - 1 && wanted > 0; ++slot) {
      const auto left = static_cast<std::uint64_t>(length - 1 - slot);
      if (rng.below(left) >= static_cast<std::uint64_t>(wanted)) continue;
      kept.push_back(static_cast<std::int32_t>(slot));
      --wanted;
    }
    kept.push_back(static_cast<std::int32_t>(length - 1));
  }

  PolicyTraits traits_;
  std::uint64_t seed_ = 0;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<RandomPolicy>(options);
}

}  // namespace

PolicyInfo random_policy() {
  return {"random",
          "random:capacity=1024",
          "evicts entries at random; the newest stays",
          "control",
          kOptions,
          make};
}

}  // namespace kvbench
