// Speed of CudaBackend's operations on shapes of a 7B model with grouped heads, against a measured
// copy and a measured large matrix product. Writes JSON. Times are those of the caller: queued many
// times, divided by the count, launches and staging included.
//   kernel_bench OUT.json           full size, for a GPU
//   kernel_bench OUT.json --small   tiny sizes: shows that it runs, on the emulated device too
#include <fmt/core.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"

namespace kvbench {
namespace {

struct Sizes {
  std::int64_t hidden = 4096, heads = 32, kv_heads = 8, head_dim = 128, ffn = 14336;
  std::int64_t vocabulary = 32000;
  std::int64_t chunk = 512;
  std::vector<std::int64_t> lengths = {4096, 32768, 131072};
  std::int64_t copy_bytes = std::int64_t{1} << 30;
  int repeats = 20;
};

Sizes small_sizes() {
  return {64, 4, 2, 16, 96, 100, 24, {40, 300}, 1 << 16, 2};
}

class Bench {
 public:
  explicit Bench(const Sizes& sizes) : s_(sizes), backend_(1) {}
  nlohmann::json run();

 private:
  Buffer buffer(std::int64_t bytes) {
    return backend_.allocate(static_cast<std::size_t>(bytes), nullptr);
  }
  std::unique_ptr<LinearWeight> weight(std::int64_t out, std::int64_t in);
  double seconds(const std::function<void()>& queue);
  void add(const std::string& name, double bytes, double flops, const std::function<void()>& queue);
  void row_operations();
  void products();
  void attention(std::int64_t length, std::int64_t n_tokens);

  Sizes s_;
  CudaBackend backend_;
  nlohmann::json rows_ = nlohmann::json::array();
};

// Random enough for a product; zeros would let the chip run cooler and faster.
std::unique_ptr<LinearWeight> Bench::weight(std::int64_t out, std::int64_t in) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(out * in));
  std::uint32_t state = 1;
  for (auto& b : bits) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::uint16_t>(0x3C00u | (state >> 31 << 15) | (state >> 20 & 0x7Fu));
  }
  const std::vector<TensorView> parts = {
      {reinterpret_cast<const std::byte*>(bits.data()), DType::bf16, {out, in}}};
  return backend_.make_linear(parts, {}, DType::bf16);
}

double Bench::seconds(const std::function<void()>& queue) {
  queue();  // workspaces grow, libraries load
  backend_.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < s_.repeats; ++i) queue();
  backend_.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
         s_.repeats;
}

void Bench::add(const std::string& name, double bytes, double flops,
                const std::function<void()>& queue) {
  const double time = seconds(queue);
  rows_.push_back({{"name", name},
                   {"microseconds", time * 1e6},
                   {"gb_per_s", bytes / time / 1e9},
                   {"tflop_per_s", flops / time / 1e12}});
  fmt::print("{:40} {:10.1f} us {:8.1f} GB/s {:8.2f} TFLOP/s\n", name, time * 1e6,
             bytes / time / 1e9, flops / time / 1e12);
}

void Bench::row_operations() {
  const std::int64_t n = s_.chunk;
  Buffer x = buffer(n * s_.hidden * 4);
  Buffer y = buffer(n * s_.hidden * 2);
  Buffer gate_up = buffer(n * 2 * s_.ffn * 4);
  Buffer activated = buffer(n * s_.ffn * 2);
  Buffer copy = buffer(2 * s_.copy_bytes);
  add("copy", 2.0 * static_cast<double>(s_.copy_bytes), 0, [&] {
    backend_.copy_rows(copy.as<void>(), copy.as<std::byte>() + s_.copy_bytes,
                       static_cast<std::size_t>(s_.copy_bytes));
  });
  const auto elements = static_cast<double>(n * s_.hidden);
  add("norm", elements * 6, 0, [&] {
    backend_.norm({.x = x.as<float>(),
                   .out = y.as<void>(),
                   .weight = x.as<float>(),
                   .n_rows = n,
                   .width = s_.hidden,
                   .x_stride = s_.hidden,
                   .out_stride = s_.hidden,
                   .epsilon = 1e-5,
                   .kind = NormKind::rms,
                   .out_dtype = DType::bf16,
                   .bias = nullptr,
                   .accumulate = false});
  });
  add("gated_activation", static_cast<double>(n * s_.ffn) * 10, 0, [&] {
    backend_.gated_activation({.gate_up = gate_up.as<float>(),
                               .out = activated.as<void>(),
                               .n_rows = n,
                               .width = s_.ffn,
                               .activation = Activation::silu,
                               .out_dtype = DType::bf16,
                               .gated = true});
  });
  const std::int64_t row_bytes = s_.head_dim * 2;
  const std::int64_t rows = s_.copy_bytes / row_bytes / 4;
  const std::vector<RowMove> moves = {{copy.as<void>(), 0, 1, rows}};
  add("move_rows", 2.0 * static_cast<double>(rows * row_bytes), 0,
      [&] { backend_.move_rows(moves, static_cast<std::size_t>(row_bytes)); });
}

void Bench::products() {
  const auto gate_up = weight(2 * s_.ffn, s_.hidden);
  Buffer x = buffer(s_.chunk * s_.hidden * 2);
  Buffer y = buffer(s_.chunk * 2 * s_.ffn * 4);
  const auto weights = static_cast<double>(2 * s_.ffn * s_.hidden);
  for (const std::int64_t n : {std::int64_t{1}, s_.chunk}) {
    add(fmt::format("linear {} tokens", n), weights * 2, 2 * weights * static_cast<double>(n), [&] {
      backend_.linear(
          *gate_up,
          {.x = x.as<void>(), .y = y.as<float>(), .n_rows = n, .accumulate = false, .clip = 0.0f});
    });
  }
  const auto head = weight(s_.vocabulary, s_.hidden);
  const LinearWeight* const vocabulary[] = {head.get()};
  std::vector<std::int32_t> targets(static_cast<std::size_t>(s_.chunk), 3);
  std::vector<double> nll(targets.size());
  add("nll", static_cast<double>(s_.vocabulary * s_.hidden) * 2,
      2.0 * static_cast<double>(s_.vocabulary * s_.hidden * s_.chunk), [&] {
        backend_.nll({.hidden = x.as<void>(),
                      .vocabulary = vocabulary,
                      .targets = targets.data(),
                      .nll = nll.data(),
                      .n_rows = s_.chunk});
      });
}

// n_tokens queries at the end of a cache of `length` entries per head, bf16.
void Bench::attention(std::int64_t length, std::int64_t n_tokens) {
  const std::int64_t head_bytes = length * s_.head_dim * 2;
  Buffer keys = buffer(s_.kv_heads * head_bytes);
  Buffer values = buffer(s_.kv_heads * head_bytes);
  Buffer q = buffer(n_tokens * s_.heads * s_.head_dim * 4);
  Buffer out = buffer(n_tokens * s_.heads * s_.head_dim * 2);
  Buffer log_sum_exp = buffer(n_tokens * s_.heads * 4);
  Buffer weights = buffer(s_.heads * length * 4);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<KvHeadView> views;
  for (std::int64_t head = 0; head < s_.kv_heads; ++head) {
    views.push_back({keys.as<std::byte>() + head * head_bytes,
                     values.as<std::byte>() + head * head_bytes, positions.data(), length});
  }
  AttentionArgs args{};
  args.q = q.as<float>();
  args.q_stride = s_.heads * s_.head_dim;
  args.out = out.as<void>();
  args.out_dtype = DType::bf16;
  args.n_tokens = n_tokens;
  args.n_heads = s_.heads;
  args.head_dim = s_.head_dim;
  args.scale = 0.1f;
  args.kv = views;
  args.kv_dtype = DType::bf16;
  args.q_positions = positions.data() + length - n_tokens;
  args.recent = kUnlimited;
  args.window = kUnlimited;
  args.log_sum_exp = log_sum_exp.as<float>();
  const auto kv_bytes = static_cast<double>(2 * s_.kv_heads * head_bytes);
  const auto pairs = static_cast<double>(n_tokens * s_.heads) * static_cast<double>(length);
  const double flops = 4 * pairs * static_cast<double>(s_.head_dim);
  const std::string shape = fmt::format("{} tokens over {}", n_tokens, length);
  add("attention " + shape, kv_bytes, flops, [&] { backend_.attention(args); });
  add("attention_weights " + shape, kv_bytes / 2, flops / 2, [&] {
    backend_.attention_weights({.attention = args,
                                .log_sum_exp = log_sum_exp.as<float>(),
                                .weights = weights.as<float>(),
                                .row_stride = length,
                                .sum_tokens = true});
  });
}

nlohmann::json Bench::run() {
  row_operations();
  products();
  for (const std::int64_t length : s_.lengths) {
    attention(length, 1);
    attention(length, s_.chunk);
  }
  return rows_;
}

}  // namespace
}  // namespace kvbench

int main(int argc, char** argv) {
  const bool small = argc == 3 && std::string(argv[2]) == "--small";
  if (argc != 2 && !small) {
    fmt::print(stderr, "usage: kernel_bench OUT.json [--small]\n");
    return 2;
  }
  try {
    kvbench::Bench bench(small ? kvbench::small_sizes() : kvbench::Sizes{});
    std::ofstream(argv[1]) << bench.run().dump(1) << "\n";
  } catch (const kvbench::Error& error) {
    fmt::print(stderr, "kernel_bench: {}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
