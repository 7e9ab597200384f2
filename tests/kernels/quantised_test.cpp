// Quantised storage, CPU against CUDA: codes and parameters byte by byte, groups that cannot be
// stored, and attention over heads that are partly quantised, evicted from or not.
#include <limits>
#include <numeric>

#include "tests/kernels/parity.hpp"

namespace kvbench::test {
namespace {

constexpr auto kNoFailure = std::numeric_limits<std::uint32_t>::max();

struct Stored {
  std::vector<std::uint8_t> bytes;  // codes, then parameters
  std::uint32_t failure;
};

Stored quantise_on(Backend& backend, const std::vector<float>& values, DType dtype,
                   std::int64_t width, const QuantFormat& format) {
  const auto n_rows = static_cast<std::int64_t>(values.size()) / width;
  const auto sets = static_cast<std::size_t>(format.along_rows ? n_rows / format.group : n_rows);
  const std::size_t code_bytes = static_cast<std::size_t>(n_rows) * packed_row_bytes(width, format);
  const Buffer rows = upload_as(backend, values, dtype);
  Buffer codes = backend.allocate(code_bytes, nullptr);
  Buffer parameters = backend.allocate(sets * parameter_bytes(width, format), nullptr);
  Buffer failure = upload(backend, std::vector<std::uint32_t>{kNoFailure});
  // Two calls: all rows, and again those from the second set on.
  const auto skipped = static_cast<std::size_t>(format.along_rows ? format.group : 1);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * dtype_size(dtype);
  const QuantiseCall all = {.args = {.rows = rows.as<void>(),
                                     .dtype = dtype,
                                     .n_rows = n_rows,
                                     .width = width,
                                     .format = format,
                                     .codes = codes.as<void>(),
                                     .parameters = parameters.as<void>()},
                            .failure = failure.as<std::uint32_t>(),
                            .first_id = 1000};
  QuantiseCall rest = all;
  rest.args.rows = rows.as<std::byte>() + skipped * row_bytes;
  rest.args.n_rows -= static_cast<std::int64_t>(skipped);
  rest.args.codes = codes.as<std::byte>() + skipped * packed_row_bytes(width, format);
  rest.args.parameters = parameters.as<std::byte>() + parameter_bytes(width, format);
  rest.first_id = 2000;
  const QuantiseCall calls[] = {all, rest};
  backend.quantise(calls);
  Stored stored;
  backend.copy_out(&stored.failure, failure.as<void>(), sizeof(stored.failure));
  stored.bytes.resize(codes.bytes() + parameters.bytes());
  backend.copy_out(stored.bytes.data(), codes.as<void>(), codes.bytes());
  backend.copy_out(stored.bytes.data() + codes.bytes(), parameters.as<void>(), parameters.bytes());
  return stored;
}

void check_codes(const std::vector<float>& values, std::int64_t width, const QuantFormat& format) {
  CAPTURE(width);
  CAPTURE(format.bits);
  CAPTURE(format.along_rows);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CpuBackend cpu(1);
    const Stored expected = quantise_on(cpu, values, dtype, width, format);
    REQUIRE(expected.failure == kNoFailure);
    for_each_thread_order([&] {
      CudaBackend cuda(1);
      const Stored found = quantise_on(cuda, values, dtype, width, format);
      CHECK(found.failure == kNoFailure);
      CHECK(found.bytes == expected.bytes);
    });
  }
}

TEST_CASE("quantise: codes, scales and zeros equal the CPU's byte by byte") {
  for (const std::int64_t bits : {1, 2, 4, 8}) {
    check_codes(random_values(64 * 80, 1), 80, {.bits = bits, .group = 32, .along_rows = true});
    check_codes(random_values(6 * 7, 2), 7, {.bits = bits, .group = 3, .along_rows = true});
    check_codes(random_values(5 * 96, 3), 96, {.bits = bits, .group = 32});
    check_codes(random_values(3 * 9, 4), 9, {.bits = bits, .group = 3});
    check_codes(random_values(2 * 256, 5), 256, {.bits = bits, .group = 256});
  }
  // Groups without range, halves that round to even, and a scale below f16's normal numbers.
  const std::vector<float> special = {5, 5, 5, 5, 0, 0.5f, 1.5f, 3, 0, 1e-6f, 3e-6f, 2e-6f};
  check_codes(special, 12, {.bits = 2, .group = 4});
  check_codes(special, 3, {.bits = 2, .group = 4, .along_rows = true});
}

TEST_CASE("quantise: the first row of the first group that cannot be stored") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), -1e5f, 3e38f}) {
    CAPTURE(bad);
    std::vector<float> rows(12 * 4, 1.0f);
    rows[7 * 4 + 2] = bad;
    rows[9 * 4 + 1] = bad;
    const auto check = [&](Backend& backend) {
      const auto failure = [&](const QuantFormat& format) {
        return quantise_on(backend, rows, DType::f32, 4, format).failure;
      };
      CHECK(failure({.bits = 2, .group = 4, .along_rows = true}) == 1004);
      CHECK(failure({.bits = 2, .group = 4}) == 1007);
    };
    CpuBackend cpu(1);
    check(cpu);
    for_each_thread_order([&] {
      CudaBackend cuda(1);
      check(cuda);
    });
  }
}

// Codes of one side as a cache has them after it was evicted from.
struct CodedSide {
  QuantFormat format;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> parameters;
  std::vector<std::int32_t> ends;
  std::int64_t n_rows = 0;
};

// Of n rows; with `cut`, without every fifth of them.
CodedSide coded_side(const QuantFormat& format, std::int64_t n, std::int64_t width, bool cut,
                     unsigned seed) {
  CodedSide side;
  side.format = format;
  const std::int64_t set_rows = format.along_rows ? format.group : 1;
  const auto set_words = parameter_bytes(width, format) / sizeof(std::uint16_t);
  const std::size_t row_bytes = packed_row_bytes(width, format);
  for (std::int64_t first = 0; first < n; first += set_rows) {
    const auto values = random_values(set_rows * width, seed + static_cast<unsigned>(first));
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(set_rows) * row_bytes);
    std::vector<std::uint16_t> parameters(set_words);
    quantise_rows({.rows = values.data(),
                   .dtype = DType::f32,
                   .n_rows = set_rows,
                   .width = width,
                   .format = format,
                   .codes = codes.data(),
                   .parameters = parameters.data()});
    const std::int64_t before = side.n_rows;
    for (std::int64_t row = 0; row < set_rows; ++row) {
      if (cut && (first + row) % 5 == 2) continue;
      const auto begin = codes.begin() + row * static_cast<std::int64_t>(row_bytes);
      side.codes.insert(side.codes.end(), begin, begin + static_cast<std::int64_t>(row_bytes));
      ++side.n_rows;
    }
    if (side.n_rows == before) continue;
    side.parameters.insert(side.parameters.end(), parameters.begin(), parameters.end());
    if (format.along_rows) side.ends.push_back(static_cast<std::int32_t>(side.n_rows));
  }
  return side;
}

// A side in a backend's memory, with the plain rows behind it.
struct UploadedSide {
  UploadedSide(Backend& backend, const CodedSide& of, std::int64_t n_plain, std::int64_t width,
               DType dtype, unsigned seed)
      : side(of),
        codes(upload(backend, side.codes)),
        parameters(upload(backend, side.parameters)),
        rows(upload_as(backend, random_values(n_plain * width, seed), dtype)) {}
  QuantisedRows view() const {
    return {.format = side.format,
            .codes = codes.as<std::uint8_t>(),
            .parameters = parameters.as<std::uint16_t>(),
            .n_rows = side.n_rows,
            .group_ends = side.ends.data(),
            .n_groups = static_cast<std::int64_t>(side.ends.size())};
  }
  CodedSide side;
  Buffer codes, parameters, rows;
};

struct QuantisedCase {
  std::int64_t n_tokens;
  std::int64_t head_dim;
  std::int64_t bits;
  bool cut;  // rows were evicted
  DType dtype = DType::f32;
};

// Two KV heads under six query heads, of keys and values not equally many quantised; the outputs,
// and the weights summed over the tokens.
std::vector<float> attend(Backend& backend, const QuantisedCase& c) {
  constexpr std::int64_t kGroup = 8;
  constexpr std::int64_t kHeads = 6;
  constexpr std::int64_t kLength[] = {150, 61};
  const std::int64_t d = c.head_dim;
  std::vector<UploadedSide> sides;
  for (const std::int64_t length : kLength) {
    const CodedSide keys = coded_side({.bits = c.bits, .group = kGroup, .along_rows = true},
                                      length / 2 / kGroup * kGroup, d, c.cut, 10);
    const CodedSide values =
        coded_side({.bits = c.bits, .group = kGroup}, length - 30, d, c.cut, 20);
    sides.emplace_back(backend, keys, length - keys.n_rows, d, c.dtype, 30);
    sides.emplace_back(backend, values, length - values.n_rows, d, c.dtype, 40);
  }
  std::vector<std::int32_t> positions(kLength[0]);
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<KvHeadView> views;
  for (std::size_t head = 0; head < 2; ++head) {
    const std::int64_t length = kLength[head];
    // The shorter head lacks the oldest.
    views.push_back({sides[2 * head].rows.as<void>(), sides[2 * head + 1].rows.as<void>(),
                     positions.data() + kLength[0] - length, length, sides[2 * head].view(),
                     sides[2 * head + 1].view()});
  }
  const Buffer q = upload(backend, random_values(c.n_tokens * kHeads * d, 50));
  const auto n_out = static_cast<std::size_t>(c.n_tokens * kHeads * d);
  Buffer out = backend.allocate(n_out * sizeof(float), nullptr);
  const auto n_sums = static_cast<std::size_t>(c.n_tokens * kHeads);
  Buffer log_sum_exp = backend.allocate(n_sums * sizeof(float), nullptr);
  const AttentionArgs args = {.q = q.as<float>(),
                              .q_stride = kHeads * d,
                              .out = out.as<void>(),
                              .out_dtype = DType::f32,
                              .n_tokens = c.n_tokens,
                              .n_heads = kHeads,
                              .head_dim = d,
                              .scale = 0.3f,
                              .kv = views,
                              .kv_dtype = c.dtype,
                              .q_positions = positions.data() + kLength[0] - c.n_tokens,
                              .log_sum_exp = log_sum_exp.as<float>()};
  backend.attention(args);
  std::vector<float> results = download(backend, out.as<void>(), n_out);
  const auto n_weights = static_cast<std::size_t>(kHeads * kLength[0]);
  Buffer weights = upload(backend, std::vector<float>(n_weights, -7.0f));
  backend.attention_weights({.attention = args,
                             .log_sum_exp = log_sum_exp.as<float>(),
                             .weights = weights.as<float>(),
                             .row_stride = kLength[0],
                             .sum_tokens = true});
  const std::vector<float> sums = download(backend, weights.as<void>(), n_weights);
  results.insert(results.end(), sums.begin(), sums.end());
  return results;
}

TEST_CASE("attention over quantised keys and values, whole groups and cut ones") {
  for (const std::int64_t n_tokens : {1, 19}) {
    for (const std::int64_t head_dim : {8, 64, 80}) {
      for (const bool cut : {false, true}) {
        const QuantisedCase c{n_tokens, head_dim, head_dim == 80 ? 4 : 2, cut};
        CAPTURE(n_tokens);
        CAPTURE(head_dim);
        CAPTURE(cut);
        check_parity(kF32Tolerance, [&](Backend& backend) { return attend(backend, c); });
      }
    }
  }
  const QuantisedCase bf16{1, 64, 2, true, DType::bf16};
  check_parity(kF32Tolerance, [&](Backend& backend) { return attend(backend, bf16); });
}

}  // namespace
}  // namespace kvbench::test
