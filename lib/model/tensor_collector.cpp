// TensorCollector: names, shapes, dtypes.
#include "model/tensor_collector.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

bool is_harmless(const std::string& name, const FamilySpec& family) {
  return std::ranges::any_of(family.harmless_endings,
                             [&](std::string_view ending) { return name.ends_with(ending); }) ||
         std::ranges::any_of(family.harmless_beginnings, [&](std::string_view beginning) {
           return name.starts_with(beginning);
         });
}

}  // namespace

std::string TensorCollector::stored_name(const std::string& name) const {
  if (checkpoint_.find(name) != nullptr) return name;
  for (const Renaming& renaming : renamings_) {
    const std::size_t at = name.find(renaming.ours);
    if (at == std::string::npos) continue;
    std::string other = name;
    other.replace(at, renaming.ours.size(), renaming.theirs);
    if (checkpoint_.find(other) != nullptr) return other;
  }
  return name;
}

const TensorView* TensorCollector::find(const std::string& our_name, const Shape& expected) {
  const std::string name = stored_name(our_name);
  const TensorView* tensor = checkpoint_.find(name);
  if (tensor == nullptr) return nullptr;
  used_.insert(name);
  const DType dtype = tensor->dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
    data_error("{}: dtype {} of {} is not supported; expected F32, F16 or BF16", where(),
               dtype_name(dtype), name);
  }
  if (tensor->shape != expected) {
    data_error("{}: tensor {} is {}, expected {} from config.json", where(), name,
               to_string(tensor->shape), to_string(expected));
  }
  return tensor;
}

TensorView TensorCollector::require(const std::string& name, const Shape& expected) {
  const TensorView* tensor = find(name, expected);
  if (tensor == nullptr) {
    data_error("{}: tensor {} is missing, expected {} from config.json", where(), name,
               to_string(expected));
  }
  return *tensor;
}

std::optional<TensorView> TensorCollector::require_if(bool wanted, const std::string& name,
                                                      const Shape& expected) {
  if (!wanted) return std::nullopt;
  return require(name, expected);
}

void TensorCollector::refuse_unused(const FamilySpec& family) const {
  constexpr std::size_t kShown = 8;
  std::size_t n_unused = 0;
  std::string shown;
  for (const std::string& name : checkpoint_.names()) {
    if (used_.contains(name) || is_harmless(name, family)) continue;
    if (++n_unused <= kShown) {
      shown += fmt::format("{}{}", shown.empty() ? "" : ", ", printable(name));
    }
  }
  if (n_unused == 0) return;
  data_error("{}: {} tensor(s) that the model of config.json does not use: {}{}", where(), n_unused,
             shown, n_unused > kShown ? ", ..." : "");
}

}  // namespace kvbench
