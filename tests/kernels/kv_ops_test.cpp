// Cache rows, CPU against CUDA: appending with and without rotation, and moves that overlap.
#include "tests/kernels/parity.hpp"

namespace kvbench::test {
namespace {

struct AppendCase {
  std::int64_t n_tokens;
  std::int64_t n_kv_heads;
  std::int64_t head_dim;
  std::int64_t rotary_dim;  // 0: stored as they are
  bool interleaved;
};

void check_append(const AppendCase& append, DType kv_dtype) {
  const std::int64_t stride = 2 * append.n_kv_heads * append.head_dim + 3;
  const std::vector<float> kv = random_values(append.n_tokens * stride, 20);
  const std::vector<float> cosine = random_values(append.n_tokens * append.rotary_dim / 2, 21);
  const std::vector<float> sine = random_values(append.n_tokens * append.rotary_dim / 2, 22);
  constexpr std::int64_t kUsedRows = 2;
  const std::int64_t rows = kUsedRows + append.n_tokens + 1;
  const std::vector<float> before(
      static_cast<std::size_t>(2 * append.n_kv_heads * rows * append.head_dim), 0.25f);
  check_parity(tolerance_of(kv_dtype), [&](Backend& backend) {
    const Buffer source = upload(backend, kv);
    const Buffer cosines = upload(backend, cosine);
    const Buffer sines = upload(backend, sine);
    Buffer cache = upload_as(backend, before, kv_dtype);
    std::vector<void*> k_rows, v_rows;
    for (std::int64_t head = 0; head < append.n_kv_heads; ++head) {
      const auto row = [&](std::int64_t side) {
        const std::int64_t first = (2 * head + side) * rows + kUsedRows;
        return cache.as<std::byte>() +
               static_cast<std::size_t>(first * append.head_dim) * dtype_size(kv_dtype);
      };
      k_rows.push_back(row(0));
      v_rows.push_back(row(1));
    }
    const bool rotate = append.rotary_dim > 0;
    backend.kv_append(
        {.k = source.as<float>(),
         .v = source.as<float>() + append.n_kv_heads * append.head_dim,
         .stride = stride,
         .n_tokens = append.n_tokens,
         .head_dim = append.head_dim,
         .k_rows = k_rows,
         .v_rows = v_rows,
         .kv_dtype = kv_dtype,
         .rope = rotate ? RopeRows{cosines.as<float>(), sines.as<float>()} : RopeRows{},
         .rope_shape = {append.rotary_dim, append.interleaved}});
    return download(backend, cache.as<void>(), before.size(), kv_dtype);
  });
}

TEST_CASE("kv_append: rotated by halves or pairs, partly or not at all; nothing else is touched") {
  for (const DType kv_dtype : {DType::f32, DType::bf16}) {
    check_append({1, 1, 4, 4, false}, kv_dtype);
    check_append({5, 3, 80, 80, false}, kv_dtype);
    check_append({3, 2, 64, 32, false}, kv_dtype);
    check_append({3, 2, 96, 96, true}, kv_dtype);
    check_append({4, 2, 128, 64, true}, kv_dtype);
    check_append({2, 5, 256, 0, false}, kv_dtype);
  }
}

struct SlabMove {
  int slab;
  std::int64_t dst_row, src_row, n_rows;
};

void check_moves(const std::vector<SlabMove>& moves, std::int64_t row_bytes) {
  constexpr int kSlabs = 2;
  constexpr std::int64_t kRows = 40;
  std::vector<std::vector<std::uint8_t>> slabs(kSlabs);
  for (int slab = 0; slab < kSlabs; ++slab) {
    for (std::int64_t i = 0; i < kRows * row_bytes; ++i) {
      slabs[static_cast<std::size_t>(slab)].push_back(
          static_cast<std::uint8_t>(i * 13 + i / 256 + slab * 7 + 1));
    }
  }
  check_parity(0.0, [&](Backend& backend) {
    std::vector<Buffer> buffers;
    for (const auto& slab : slabs) buffers.push_back(upload(backend, slab));
    std::vector<RowMove> rows;
    for (const SlabMove& move : moves) {
      rows.push_back({buffers[static_cast<std::size_t>(move.slab)].as<void>(), move.dst_row,
                      move.src_row, move.n_rows});
    }
    backend.move_rows(rows, static_cast<std::size_t>(row_bytes));
    std::vector<float> all;
    for (const Buffer& buffer : buffers) {
      std::vector<std::uint8_t> bytes(buffer.bytes());
      backend.copy_out(bytes.data(), buffer.as<void>(), buffer.bytes());
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  });
}

TEST_CASE("move_rows: runs that overlap themselves, in both directions") {
  for (const std::int64_t row_bytes : {1, 4, 5, 6, 16, 80}) {
    check_moves({{0, 0, 1, 39}}, row_bytes);
    check_moves({{0, 1, 0, 39}}, row_bytes);
    check_moves({{0, 5, 12, 20}, {1, 12, 5, 20}}, row_bytes);
    check_moves({{0, 3, 3, 10}, {1, 0, 20, 0}}, row_bytes);
  }
}

TEST_CASE("move_rows: runs that read what earlier runs wrote") {
  check_moves({{0, 0, 10, 5}, {0, 20, 2, 5}, {0, 22, 20, 6}, {1, 0, 1, 3}}, 16);
  // The compaction of a cache: ascending runs, both sides.
  std::vector<SlabMove> runs;
  std::int64_t to = 1;
  for (std::int64_t from = 2; from < 38; from += 3) {
    runs.push_back({0, to, from, 2});
    runs.push_back({1, to, from, 2});
    to += 2;
  }
  check_moves(runs, 6);
}

}  // namespace
}  // namespace kvbench::test
