// Reading rows out of a backend's memory.
#include "engine/stored_rows.hpp"

#include <cmath>

namespace kvbench {

namespace {

void read_quantised(Backend& backend, QuantisedRows rows, std::int64_t head_dim, float* out) {
  if (rows.n_rows == 0) return;
  const std::int64_t n_parameters = rows.format.along_rows ? rows.n_groups : rows.n_rows;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows.n_rows) *
                                  packed_row_bytes(head_dim, rows.format));
  std::vector<std::uint16_t> parameters(static_cast<std::size_t>(n_parameters) *
                                        parameter_bytes(head_dim, rows.format) /
                                        sizeof(std::uint16_t));
  backend.copy_out(codes.data(), rows.codes, codes.size());
  backend.copy_out(parameters.data(), rows.parameters, parameters.size() * sizeof(std::uint16_t));
  rows.codes = codes.data();
  rows.parameters = parameters.data();
  dequantise_rows(rows, 0, rows.n_rows, head_dim, out);
}

}  // namespace

void read_rows(Backend& backend, const QuantisedRows& quantised, const void* rows,
               std::int64_t length, std::int64_t head_dim, DType dtype, std::vector<float>& out) {
  out.resize(static_cast<std::size_t>(length * head_dim));
  read_quantised(backend, quantised, head_dim, out.data());
  float* rest = out.data() + quantised.n_rows * head_dim;
  const auto n = static_cast<std::size_t>((length - quantised.n_rows) * head_dim);
  if (dtype == DType::f32) {
    backend.copy_out(rest, rows, n * sizeof(float));
    return;
  }
  std::vector<std::uint16_t> bits(n);
  backend.copy_out(bits.data(), rows, n * sizeof(std::uint16_t));
  for (std::size_t i = 0; i < n; ++i) rest[i] = bf16_to_float(bits[i]);
}

void rotate_by_slot(const Rotary& rotary, std::int64_t head_dim, std::vector<float>& rows) {
  const RopeFrequencies& frequencies = rotary.frequencies();
  const RopeShape shape = rotary.shape();
  const std::int64_t half = shape.rotary_dim / 2;
  const std::int64_t step = shape.interleaved ? 2 : 1;
  const std::int64_t partner = shape.interleaved ? 1 : half;
  const auto n_rows = static_cast<std::int64_t>(rows.size()) / head_dim;
  for (std::int64_t slot = 0; slot < n_rows; ++slot) {
    float* row = rows.data() + slot * head_dim;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(slot) * frequencies.inv_freq[static_cast<std::size_t>(i)];
      const auto c = static_cast<float>(std::cos(angle) * frequencies.attention_factor);
      const auto s = static_cast<float>(std::sin(angle) * frequencies.attention_factor);
      float& low = row[i * step];
      float& high = row[i * step + partner];
      const float rotated = low * c - high * s;
      high = high * c + low * s;
      low = rotated;
    }
  }
}

}  // namespace kvbench
