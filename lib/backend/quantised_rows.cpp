// Plain loops over contiguous floats, left to the compiler to vectorise.
#include "backend/quantised_rows.hpp"

#include <algorithm>
#include <cmath>

namespace kvbench {
namespace {

float largest_code(const QuantFormat& format) {
  return static_cast<float>((1 << format.bits) - 1);
}

// Scale and zero of the numbers x[0], x[step], ..., as f16. False where they or x are not finite.
bool fit_group(const float* x, std::int64_t n, std::int64_t step, float largest,
               std::uint16_t& scale, std::uint16_t& zero) {
  float least = x[0];
  float most = x[0];
  bool finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const float value = x[i * step];
    finite = finite && std::isfinite(value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (!finite) return false;
  scale = float_to_f16((most - least) / largest);
  zero = float_to_f16(least);
  return std::isfinite(f16_to_float(scale)) && std::isfinite(f16_to_float(zero));
}

std::uint8_t code_of(float x, float scale, float zero, float largest) {
  if (scale == 0.0f) return 0;
  return static_cast<std::uint8_t>(std::clamp(std::nearbyint((x - zero) / scale), 0.0f, largest));
}

void pack_row(const std::uint8_t* codes, std::int64_t width, const QuantFormat& format,
              std::uint8_t* packed) {
  const auto bytes = static_cast<std::int64_t>(packed_row_bytes(width, format));
  std::fill_n(packed, bytes, std::uint8_t{0});
  for (std::int64_t c = 0; c < width; ++c) {
    const auto shift = static_cast<unsigned>(c / bytes * format.bits);
    packed[c % bytes] = static_cast<std::uint8_t>(packed[c % bytes] | (codes[c] << shift));
  }
}

void unpack_row(const std::uint8_t* packed, std::int64_t width, const QuantFormat& format,
                float* out) {
  const auto bytes = static_cast<std::int64_t>(packed_row_bytes(width, format));
  const unsigned mask = (1u << format.bits) - 1u;
  unsigned shift = 0;
  for (std::int64_t first = 0; first < width; first += bytes) {
    const std::int64_t n = std::min(bytes, width - first);
    for (std::int64_t i = 0; i < n; ++i) {
      out[first + i] = static_cast<float>(static_cast<std::int32_t>((packed[i] >> shift) & mask));
    }
    shift += static_cast<unsigned>(format.bits);
  }
}

// One block of rows with its own parameters: [block_rows, width], `group_width` columns a group.
bool quantise_block(const float* rows, std::int64_t block_rows, std::int64_t group_width,
                    const QuantiseArgs& args, std::uint8_t* codes, std::uint16_t* parameters) {
  const float largest = largest_code(args.format);
  const std::int64_t n_groups = args.width / group_width;
  std::vector<std::uint8_t> row_codes(static_cast<std::size_t>(block_rows * args.width));
  for (std::int64_t g = 0; g < n_groups; ++g) {
    std::uint16_t& scale16 = parameters[g];
    std::uint16_t& zero16 = parameters[n_groups + g];
    const float* x = rows + g * group_width;
    const bool along_rows = args.format.along_rows;
    if (!fit_group(x, args.format.group, along_rows ? args.width : 1, largest, scale16, zero16)) {
      return false;
    }
    const float scale = f16_to_float(scale16);
    const float zero = f16_to_float(zero16);
    for (std::int64_t r = 0; r < block_rows; ++r) {
      for (std::int64_t c = 0; c < group_width; ++c) {
        row_codes[static_cast<std::size_t>(r * args.width + g * group_width + c)] =
            code_of(x[r * args.width + c], scale, zero, largest);
      }
    }
  }
  const std::size_t row_bytes = packed_row_bytes(args.width, args.format);
  for (std::int64_t r = 0; r < block_rows; ++r) {
    pack_row(row_codes.data() + r * args.width, args.width, args.format,
             codes + static_cast<std::size_t>(r) * row_bytes);
  }
  return true;
}

void widen(const std::uint16_t* half, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = f16_to_float(half[i]);
}

}  // namespace

std::size_t packed_row_bytes(std::int64_t width, const QuantFormat& format) {
  return static_cast<std::size_t>((width * format.bits + 7) / 8);
}

std::size_t parameter_bytes(std::int64_t width, const QuantFormat& format) {
  const std::int64_t groups = format.along_rows ? width : width / format.group;
  return static_cast<std::size_t>(2 * groups) * sizeof(std::uint16_t);
}

std::int64_t quantise_rows(const QuantiseArgs& args) {
  const QuantFormat& format = args.format;
  const std::int64_t block_rows = format.along_rows ? format.group : 1;
  const std::int64_t group_width = format.along_rows ? 1 : format.group;
  const std::int64_t block_size = block_rows * args.width;
  const std::size_t row_bytes = packed_row_bytes(args.width, format);
  std::vector<float> wide(static_cast<std::size_t>(block_size));
  for (std::int64_t row = 0; row < args.n_rows; row += block_rows) {
    const std::int64_t first = row * args.width;
    for (std::int64_t i = 0; i < block_size; ++i) {
      wide[static_cast<std::size_t>(i)] =
          args.dtype == DType::f32
              ? static_cast<const float*>(args.rows)[first + i]
              : bf16_to_float(static_cast<const std::uint16_t*>(args.rows)[first + i]);
    }
    auto* codes =
        static_cast<std::uint8_t*>(args.codes) + static_cast<std::size_t>(row) * row_bytes;
    auto* parameters =
        static_cast<std::byte*>(args.parameters) +
        static_cast<std::size_t>(row / block_rows) * parameter_bytes(args.width, format);
    if (!quantise_block(wide.data(), block_rows, group_width, args, codes,
                        reinterpret_cast<std::uint16_t*>(parameters))) {
      return row;
    }
  }
  return -1;
}

void dequantise_rows(const QuantisedRows& rows, std::int64_t first, std::int64_t n,
                     std::int64_t width, float* out) {
  if (n == 0) return;
  const QuantFormat& format = rows.format;
  const std::size_t row_bytes = packed_row_bytes(width, format);
  const std::int64_t n_scales = format.along_rows ? width : width / format.group;
  std::vector<float> wide(static_cast<std::size_t>(2 * n_scales));  // scales, then zeros
  const float* scale = wide.data();
  const float* zero = wide.data() + n_scales;
  std::int64_t group = -1;
  if (format.along_rows) {
    group =
        std::upper_bound(rows.group_ends, rows.group_ends + rows.n_groups, first) - rows.group_ends;
    widen(rows.parameters + group * 2 * n_scales, 2 * n_scales, wide.data());
  }
  for (std::int64_t row = first; row < first + n; ++row, out += width) {
    unpack_row(rows.codes + static_cast<std::size_t>(row) * row_bytes, width, format, out);
    if (format.along_rows) {
      if (row == rows.group_ends[group]) {
        ++group;
        widen(rows.parameters + group * 2 * n_scales, 2 * n_scales, wide.data());
      }
      for (std::int64_t c = 0; c < width; ++c) out[c] = out[c] * scale[c] + zero[c];
      continue;
    }
    widen(rows.parameters + row * 2 * n_scales, 2 * n_scales, wide.data());
    for (std::int64_t g = 0; g < n_scales; ++g) {
      float* part = out + g * format.group;
      for (std::int64_t c = 0; c < format.group; ++c) part[c] = part[c] * scale[g] + zero[g];
    }
  }
}

}  // namespace kvbench
