// SinkRows: finding the tensor, and checking that it can stand among embeddings.
#include "model/sink_rows.hpp"

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "core/error.hpp"
#include "core/nearest_name.hpp"
#include "core/printable.hpp"
#include "io/checkpoint.hpp"
#include "io/safetensors.hpp"
#include "io/sha256.hpp"

namespace kvbench {
namespace {

[[noreturn]] void refuse_missing(const std::string& where, const std::string& tensor,
                                 std::span<const std::string> names) {
  const std::string nearest = nearest_name(tensor, names);
  data_error("{}: no tensor {} for the learned sinks{}", where, printable(tensor),
             nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

// The tensor of that name, or the only one there is.
NamedTensor find_in_file(const SafetensorsFile& file, const SinkSource& source) {
  const auto& tensors = file.tensors();
  if (source.tensor.empty()) {
    if (tensors.size() == 1) return tensors.front();
    data_error("{}: expected one tensor with the learned sinks, found {}: name it",
               source.file.string(), tensors.size());
  }
  if (const TensorView* view = file.find(source.tensor)) return {source.tensor, *view};
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  refuse_missing(source.file.string(), source.tensor, names);
}

NamedTensor find_in_checkpoint(const Checkpoint& checkpoint, const std::string& tensor) {
  if (const TensorView* view = checkpoint.find(tensor)) return {tensor, *view};
  refuse_missing(checkpoint.directory().string(), tensor, checkpoint.names());
}

}  // namespace

SinkRows::SinkRows(const SinkSource& source, const Checkpoint& checkpoint, std::int64_t hidden) {
  if (!source.given()) return;
  std::optional<SafetensorsFile> file;
  if (!source.file.empty()) file = SafetensorsFile::open(source.file);
  const std::string where = file ? source.file.string() : checkpoint.directory().string();
  const auto [name, view] =
      file ? find_in_file(*file, source) : find_in_checkpoint(checkpoint, source.tensor);
  require_float_dtype(view, name);
  const Shape& shape = view.shape;
  if (shape.empty() || shape.size() > 2 || shape.back() != hidden || shape.front() < 1) {
    data_error("{}: tensor {} with the learned sinks is {}, expected [{}] or [n, {}]", where,
               printable(name), to_string(shape), hidden, hidden);
  }
  count_ = view.element_count() / hidden;
  values_.resize(static_cast<std::size_t>(view.element_count()));
  to_floats(view, 0, view.element_count(), values_.data());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (std::isfinite(values_[i])) continue;
    data_error("{}: tensor {} with the learned sinks: element {} is not finite", where,
               printable(name), i);
  }
}

TensorView SinkRows::view() const {
  const std::int64_t hidden = static_cast<std::int64_t>(values_.size()) / count_;
  return {reinterpret_cast<const std::byte*>(values_.data()), DType::f32, {count_, hidden}};
}

std::string SinkRows::content_hash() const {
  return count_ == 0 ? "" : sha256_hex(std::as_bytes(std::span(values_)));
}

}  // namespace kvbench
