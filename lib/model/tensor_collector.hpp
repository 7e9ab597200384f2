// Takes tensors out of a checkpoint by name, checks each, and remembers which were wanted.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.hpp"
#include "io/checkpoint.hpp"
#include "model/family.hpp"

namespace kvbench {

class TensorCollector {
 public:
  // Both must outlive the collector.
  TensorCollector(const Checkpoint& checkpoint, std::span<const Renaming> renamings)
      : checkpoint_(checkpoint), renamings_(renamings) {}

  // nullptr when the checkpoint does not hold it, under this name or another one of it. A wrong
  // shape or dtype is a DataError.
  const TensorView* find(const std::string& our_name, const Shape& expected);
  // DataError when it is missing.
  TensorView require(const std::string& name, const Shape& expected);
  std::optional<TensorView> require_if(bool wanted, const std::string& name, const Shape& expected);
  // Something else reads this tensor.
  void mark_used(const std::string& name) { used_.insert(name); }
  // A checkpoint with tensors that nothing asked for was made for a model that computes more:
  // DataError, but for names that the family knows to be harmless.
  void refuse_unused(const FamilySpec& family) const;

  std::string where() const { return checkpoint_.directory().string(); }

 private:
  std::string stored_name(const std::string& name) const;

  const Checkpoint& checkpoint_;
  std::span<const Renaming> renamings_;
  std::set<std::string> used_;
};

}  // namespace kvbench
