// Products of small tiles, the inner loop of attention: of floats, or of pairs of bf16 where the
// processor multiplies two at a time (twice as fast). Sums are f32 in either case.
#pragma once

#include <cstdint>

namespace kvbench::tile {

// Columns of every tile are padded to this many, whatever the vector width.
constexpr std::int64_t kPad = 16;

inline std::int64_t padded(std::int64_t n) {
  return (n + kPad - 1) / kPad * kPad;
}

// C (+)= A B, where A's element (row, inner) lies at a[row * a_row + inner * a_inner].
// Lane: float, or std::uint32_t for the bf16 of two neighbouring inner indices, the first in the
// lower half.
template <class Lane>
struct ProductOf {
  const Lane* a;  // [n_rows, n_inner] by the two strides
  std::int64_t a_row;
  std::int64_t a_inner;
  const Lane* b;  // [n_inner, n_columns], dense
  float* c;       // [n_rows, n_columns], dense
  std::int64_t n_rows;
  std::int64_t n_inner;    // lanes
  std::int64_t n_columns;  // multiple of kPad
  bool accumulate;
};
using ProductArgs = ProductOf<float>;
using PairProductArgs = ProductOf<std::uint32_t>;

void product(const ProductArgs& args);
void product(const PairProductArgs& args);

// Whether the processor has an instruction for the pairs; without one they are slower than floats.
bool multiplies_pairs();

// Rows 2 i and 2 i + 1 become row i of pairs, in place; a last row without a partner gets zeros.
// rows: in [n_rows, n_columns] f32, out [(n_rows + 1) / 2, n_columns] lanes.
void pack_row_pairs(float* rows, std::int64_t n_rows, std::int64_t n_columns);
// The same of stored bf16 rows, not in place.
void pack_row_pairs(const std::uint16_t* rows, std::int64_t n_rows, std::int64_t n_columns,
                    std::uint32_t* out);

}  // namespace kvbench::tile
