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
  std::int64_t square = 8192;  // of the product that measures the peak
  int repeats = 20;
};

Sizes small_sizes() {
  return {64, 4, 2, 32, 96, 100, 32, {64, 320}, 1 << 16, 32, 2};
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
  void peaks();
  void row_operations();
  void cache_operations();
  void product(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t n);
  void products();
  void attention(std::int64_t length, std::int64_t n_tokens);
  void quantised(std::int64_t length);
  AttentionArgs attention_args(std::int64_t n_tokens);
  void add_shares();

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

// What the others are held against.
void Bench::peaks() {
  Buffer copy = buffer(2 * s_.copy_bytes);
  add("copy", 2.0 * static_cast<double>(s_.copy_bytes), 0, [&] {
    backend_.copy_rows(copy.as<void>(), copy.as<std::byte>() + s_.copy_bytes,
                       static_cast<std::size_t>(s_.copy_bytes));
  });
  product("product", s_.square, s_.square, s_.square);
}

// Shares of the two peaks, which come first.
void Bench::add_shares() {
  for (auto& row : rows_) {
    row["share_of_copy"] = row["gb_per_s"].get<double>() / rows_[0]["gb_per_s"].get<double>();
    row["share_of_product"] =
        row["tflop_per_s"].get<double>() / rows_[1]["tflop_per_s"].get<double>();
  }
}

void Bench::row_operations() {
  const std::int64_t n = s_.chunk;
  Buffer x = buffer(n * s_.hidden * 4);
  Buffer y = buffer(n * s_.hidden * 2);
  Buffer gate_up = buffer(n * 2 * s_.ffn * 4);
  Buffer activated = buffer(n * s_.ffn * 2);
  const auto elements = static_cast<double>(n * s_.hidden);
  std::vector<std::uint16_t> table_bits(static_cast<std::size_t>(s_.vocabulary * s_.hidden));
  const auto table = backend_.make_table({reinterpret_cast<const std::byte*>(table_bits.data()),
                                          DType::bf16,
                                          {s_.vocabulary, s_.hidden}});
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 61 % s_.vocabulary));
  }
  add("embed", elements * 6, 0, [&] { backend_.embed(*table, ids, x.as<float>()); });
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
                   .out_dtype = DType::bf16});
  });
  add("gated_activation", static_cast<double>(n * s_.ffn) * 10, 0, [&] {
    backend_.gated_activation({.gate_up = gate_up.as<float>(),
                               .out = activated.as<void>(),
                               .n_rows = n,
                               .width = s_.ffn,
                               .activation = Activation::silu,
                               .out_dtype = DType::bf16});
  });
}

void Bench::cache_operations() {
  const std::int64_t n = s_.chunk;
  const std::int64_t kv_width = s_.kv_heads * s_.head_dim;
  Buffer kv = buffer(n * 2 * kv_width * 4);
  Buffer rows_of_heads = buffer(2 * n * kv_width * 2);
  std::vector<void*> k_rows, v_rows;
  for (std::int64_t head = 0; head < s_.kv_heads; ++head) {
    k_rows.push_back(rows_of_heads.as<std::byte>() + head * n * s_.head_dim * 2);
    v_rows.push_back(rows_of_heads.as<std::byte>() + (s_.kv_heads + head) * n * s_.head_dim * 2);
  }
  add("kv_append", static_cast<double>(2 * n * kv_width) * 6, 0, [&] {
    backend_.kv_append({.k = kv.as<float>(),
                        .v = kv.as<float>() + kv_width,
                        .stride = 2 * kv_width,
                        .n_tokens = n,
                        .head_dim = s_.head_dim,
                        .k_rows = k_rows,
                        .v_rows = v_rows,
                        .kv_dtype = DType::bf16,
                        .rope = {},
                        .rope_shape = {}});
  });
  Buffer copy = buffer(2 * s_.copy_bytes);
  const std::int64_t row_bytes = s_.head_dim * 2;
  const std::int64_t rows = s_.copy_bytes / row_bytes / 4;
  const std::vector<RowMove> moves = {{copy.as<void>(), 0, 1, rows}};
  add("move_rows", 2.0 * static_cast<double>(rows * row_bytes), 0,
      [&] { backend_.move_rows(moves, static_cast<std::size_t>(row_bytes)); });
}

void Bench::product(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t n) {
  const auto matrix = weight(out, in);
  Buffer x = buffer(n * in * 2);
  Buffer y = buffer(n * out * 4);
  const auto weights = static_cast<double>(out * in);
  add(name, weights * 2 + static_cast<double>(n * (in * 2 + out * 4)),
      2 * weights * static_cast<double>(n), [&] {
        backend_.linear(
            *matrix,
            {.x = x.as<void>(), .y = y.as<float>(), .n_rows = n, .accumulate = false, .clip = 0});
      });
}

void Bench::products() {
  for (const std::int64_t n : {std::int64_t{1}, s_.chunk}) {
    product(fmt::format("linear {} tokens", n), 2 * s_.ffn, s_.hidden, n);
  }
  Buffer x = buffer(s_.chunk * s_.hidden * 2);
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

AttentionArgs Bench::attention_args(std::int64_t n_tokens) {
  AttentionArgs args{};
  args.q_stride = s_.heads * s_.head_dim;
  args.out_dtype = DType::bf16;
  args.n_tokens = n_tokens;
  args.n_heads = s_.heads;
  args.head_dim = s_.head_dim;
  args.scale = 0.1f;
  args.kv_dtype = DType::bf16;
  args.recent = kUnlimited;
  args.window = kUnlimited;
  return args;
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
  AttentionArgs args = attention_args(n_tokens);
  args.q = q.as<float>();
  args.out = out.as<void>();
  args.kv = views;
  args.q_positions = positions.data() + length - n_tokens;
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

// Keys of one head quantised to 2 bits; and one token over a cache of such keys and values.
void Bench::quantised(std::int64_t length) {
  const std::int64_t d = s_.head_dim;
  const QuantFormat by_column{.bits = 2, .group = 32, .along_rows = true};
  const QuantFormat by_row{.bits = 2, .group = 32};
  const auto code_bytes = length * static_cast<std::int64_t>(packed_row_bytes(d, by_row));
  const auto key_bytes = length / 32 * static_cast<std::int64_t>(parameter_bytes(d, by_column));
  const auto value_bytes = length * static_cast<std::int64_t>(parameter_bytes(d, by_row));
  const std::int64_t head_bytes = 2 * code_bytes + key_bytes + value_bytes;
  Buffer rows = buffer(length * d * 2);
  Buffer stored = buffer(s_.kv_heads * head_bytes);  // per head: codes, codes, parameters of both
  Buffer failure = buffer(4);
  const QuantiseCall call = {.args = {.rows = rows.as<void>(),
                                      .dtype = DType::bf16,
                                      .n_rows = length,
                                      .width = d,
                                      .format = by_column,
                                      .codes = stored.as<void>(),
                                      .parameters = stored.as<std::byte>() + 2 * code_bytes},
                             .failure = failure.as<std::uint32_t>(),
                             .first_id = 0};
  add(fmt::format("quantise {} keys", length),
      static_cast<double>(length * d * 2 + code_bytes + key_bytes), 0, [&] {
        backend_.quantise({&call, 1});
      });
  std::vector<std::int32_t> ends, positions(static_cast<std::size_t>(length));
  for (std::int64_t end = 32; end <= length; end += 32) {
    ends.push_back(static_cast<std::int32_t>(end));
  }
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<KvHeadView> views;
  for (std::int64_t head = 0; head < s_.kv_heads; ++head) {
    const std::uint8_t* codes = stored.as<std::uint8_t>() + head * head_bytes;
    const auto parameters = [&](std::int64_t offset) {
      return reinterpret_cast<const std::uint16_t*>(codes + 2 * code_bytes + offset);
    };
    views.push_back({rows.as<void>(), rows.as<void>(), positions.data(), length});
    views.back().quantised_keys = {by_column, codes,       parameters(0),
                                   length,    ends.data(), length / 32};
    views.back().quantised_values = {by_row, codes + code_bytes, parameters(key_bytes), length};
  }
  Buffer q = buffer(s_.heads * d * 4);
  Buffer out = buffer(s_.heads * d * 2);
  AttentionArgs args = attention_args(1);
  args.q = q.as<float>();
  args.out = out.as<void>();
  args.kv = views;
  args.q_positions = positions.data() + length - 1;
  add(fmt::format("attention 1 token over {} quantised", length),
      static_cast<double>(s_.kv_heads * head_bytes),
      4.0 * static_cast<double>(s_.heads * length * d), [&] { backend_.attention(args); });
}

nlohmann::json Bench::run() {
  peaks();
  row_operations();
  cache_operations();
  products();
  for (const std::int64_t length : s_.lengths) {
    attention(length, 1);
    attention(length, s_.chunk);
    quantised(length);
  }
  add_shares();
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
