// Feeds arbitrary bytes to the safetensors header parser. A header that is accepted must keep the
// parser's promise: views inside the file, in order, without overlap, covering the data to its end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "io/safetensors.hpp"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

void check(const kvbench::SafetensorsHeader& header, std::span<const std::byte> file) {
  const std::byte* end = file.data() + file.size();
  const std::byte* covered = header.tensors.empty() ? end : header.tensors.front().view.data;
  unsigned sum = 0;
  for (const auto& [name, view] : header.tensors) {
    require(view.data == covered && view.data >= file.data() + 8);
    require(view.element_count() >= 0);
    require(view.byte_count() <= static_cast<std::size_t>(end - view.data));
    covered += view.byte_count();
    for (std::size_t i = 0; i < view.byte_count(); ++i) {
      sum += std::to_integer<unsigned>(view.data[i]);
    }
    const bool is_float = view.dtype == kvbench::DType::f32 || view.dtype == kvbench::DType::f16 ||
                          view.dtype == kvbench::DType::bf16;
    if (!is_float) continue;
    std::vector<float> values(static_cast<std::size_t>(view.element_count()));
    to_floats(view, 0, view.element_count(), values.data());
  }
  require(covered == end && sum != 1u << 31);  // the sum keeps the reads from being optimised away
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  try {
    check(kvbench::parse_safetensors_header(file, "fuzz"), file);
  } catch (const kvbench::DataError&) {
    // The one way to refuse.
  }
  return 0;
}
