// SplitBackend's memory: what was written on one device is read on another, and only what is needed
// is copied; and where weights go.
#include "backend/split/split_backend.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "backend/cpu/cpu_backend.hpp"

namespace kvbench {
namespace {

// A CPU device that notes what it was asked for.
class NotingBackend final : public Backend {
 public:
  std::size_t allocated = 0;
  std::size_t copied = 0;  // bytes from other devices
  int matrices = 0;

  std::string_view name() const override { return "noting"; }
  int threads() const override { return 1; }
  Buffer allocate(std::size_t bytes, MemoryMeter* meter) override {
    allocated += bytes;
    return cpu_.allocate(bytes, meter);
  }
  void copy_in(void* to, const void* from, std::size_t n) override { cpu_.copy_in(to, from, n); }
  void copy_out(void* to, const void* from, std::size_t n) override { cpu_.copy_out(to, from, n); }
  void copy_rows(void* to, const void* from, std::size_t n) override {
    cpu_.copy_rows(to, from, n);
  }
  void synchronize() override {}
  void copy_from(Backend& other, void* to, const void* from, std::size_t n) override {
    copied += n;
    cpu_.copy_from(other, to, from, n);
  }
  std::unique_ptr<LinearWeight> make_linear(std::span<const TensorView> parts,
                                            std::span<const TensorView> biases,
                                            DType compute) override {
    ++matrices;
    return cpu_.make_linear(parts, biases, compute);
  }
  std::unique_ptr<EmbeddingTable> make_table(const TensorView& rows) override {
    return cpu_.make_table(rows);
  }
  void embed(const EmbeddingTable& table, std::span<const std::int32_t> ids, float* out) override {
    cpu_.embed(table, ids, out);
  }
  void norm(const NormArgs& args) override { cpu_.norm(args); }
  void linear(const LinearWeight& weight, const LinearArgs& args) override {
    cpu_.linear(weight, args);
  }
  void gated_activation(const GatedActivationArgs& args) override { cpu_.gated_activation(args); }
  void scale(float* x, std::int64_t n, float factor) override { cpu_.scale(x, n, factor); }
  void kv_append(const KvAppendArgs& args) override { cpu_.kv_append(args); }
  void move_rows(std::span<const RowMove> moves, std::size_t row_bytes) override {
    cpu_.move_rows(moves, row_bytes);
  }
  void attention(const AttentionArgs& args) override { cpu_.attention(args); }
  void attention_weights(const AttentionWeightsArgs& args) override {
    cpu_.attention_weights(args);
  }
  void nll(const NllArgs& args) override { cpu_.nll(args); }

 private:
  CpuBackend cpu_{1};
};

struct Pair {
  NotingBackend* first;
  NotingBackend* second;
  std::unique_ptr<SplitBackend> both;

  Pair() {
    auto a = std::make_unique<NotingBackend>();
    auto b = std::make_unique<NotingBackend>();
    first = a.get();
    second = b.get();
    std::vector<std::unique_ptr<Backend>> devices;
    devices.push_back(std::move(a));
    devices.push_back(std::move(b));
    both = std::make_unique<SplitBackend>(std::move(devices));
  }
};

constexpr std::int64_t kWidth = 8;

// y = factor * x, on the device of this share.
std::unique_ptr<LinearWeight> scaled_identity(SplitBackend& backend, double share, float factor) {
  std::vector<float> rows(kWidth * kWidth, 0.0f);
  for (std::int64_t i = 0; i < kWidth; ++i) rows[static_cast<std::size_t>(i * kWidth + i)] = factor;
  const TensorView view{reinterpret_cast<const std::byte*>(rows.data()), DType::f32,
                        Shape{kWidth, kWidth}};
  backend.place(share);
  return backend.make_linear({&view, 1}, {}, DType::f32);
}

TEST_CASE("weights go where their share says") {
  Pair pair;
  scaled_identity(*pair.both, 0.0, 1.0f);
  scaled_identity(*pair.both, 0.49, 1.0f);
  scaled_identity(*pair.both, 0.5, 1.0f);
  CHECK(pair.first->matrices == 2);
  CHECK(pair.second->matrices == 1);
  scaled_identity(*pair.both, 1.0, 1.0f);
  CHECK(pair.second->matrices == 2);
}

TEST_CASE("products on two devices meet in one buffer; only what is read crosses over") {
  Pair pair;
  SplitBackend& backend = *pair.both;
  const auto twice = scaled_identity(backend, 0.0, 2.0f);
  const auto thrice = scaled_identity(backend, 0.9, 3.0f);
  constexpr std::int64_t kRows = 100;
  constexpr std::size_t kBytes = kRows * kWidth * sizeof(float);
  Buffer x = backend.allocate(kBytes, nullptr);
  Buffer y = backend.allocate(kBytes, nullptr);
  std::vector<float> values(kRows * kWidth);
  std::iota(values.begin(), values.end(), 1.0f);
  backend.copy_in(x.as<void>(), values.data(), kBytes);
  const std::size_t moved_in = pair.first->copied + pair.second->copied;
  CHECK(moved_in == 0);

  // Five rows doubled on the first device; two of them get three times other rows on the second.
  backend.linear(*twice, {x.as<void>(), y.as<float>(), 5, false});
  backend.linear(*thrice, {x.as<void>(), y.as<float>() + 2 * kWidth, 2, true});
  std::vector<float> found(kRows * kWidth, -1.0f);
  backend.copy_out(found.data(), y.as<void>(), kBytes);
  for (std::int64_t i = 0; i < kRows * kWidth; ++i) {
    const std::int64_t row = i / kWidth;
    const auto at = static_cast<std::size_t>(i);
    float expected = row < 5 ? 2.0f * values[at] : 0.0f;
    if (row == 2 || row == 3) expected += 3.0f * values[at - 2 * kWidth];
    CHECK(found[at] == expected);
  }
  // Five rows of x and y at most in each direction, never the whole buffers.
  CHECK(pair.first->copied + pair.second->copied <= 14 * kWidth * sizeof(float));
  CHECK(pair.first->copied + pair.second->copied > 0);
}

TEST_CASE("memory that nobody wrote is zero everywhere; devices that need none get none") {
  Pair pair;
  Buffer memory = pair.both->allocate(1000, nullptr);
  CHECK(pair.first->allocated + pair.second->allocated == 0);
  std::vector<std::uint8_t> bytes(1000, 7);
  pair.both->copy_out(bytes.data(), memory.as<void>(), bytes.size());
  CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; }));
  CHECK(pair.first->allocated + pair.second->allocated == 1000);
  CHECK_THROWS_AS(pair.both->copy_out(bytes.data(), memory.as<std::byte>() + 1, 1000),
                  InternalError);
}

TEST_CASE("rows that move stay on their device") {
  Pair pair;
  SplitBackend& backend = *pair.both;
  backend.place(0.9);
  Buffer slab = backend.allocate(6 * sizeof(float), nullptr);
  const std::vector<float> rows = {0, 1, 2, 3, 4, 5};
  backend.copy_in(slab.as<void>(), rows.data(), 6 * sizeof(float));
  const RowMove move{slab.as<void>(), 0, 2, 4};
  backend.move_rows({&move, 1}, sizeof(float));
  std::vector<float> found(6);
  backend.copy_out(found.data(), slab.as<void>(), 6 * sizeof(float));
  CHECK(found == std::vector<float>{2, 3, 4, 5, 4, 5});
  CHECK(pair.first->allocated == 0);
}

}  // namespace
}  // namespace kvbench
