// Parsing of --kv; the kivi form has the syntax of a policy string.
#include "cache/kv_format.hpp"

#include <string>
#include <vector>

#include "config/parse_number.hpp"
#include "config/policy_spec.hpp"
#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxGroup = 1024;
constexpr std::int64_t kMaxResidual = 1 << 20;

DType parse_dtype(std::string_view text, std::string_view what) {
  if (text == "f32") return DType::f32;
  if (text == "bf16") return DType::bf16;
  config_error("{}: expected f32 or bf16, found '{}'", what, text);
}

// bf16 by default: the published code keeps the rows that wait in the model's 16-bit floats.
KvFormat parse_kivi(std::string_view text) {
  const std::vector<std::string> keys{"bits", "group", "residual", "dtype"};
  KvFormat format{.dtype = DType::bf16, .kivi = KiviOptions{}};
  KiviOptions& kivi = *format.kivi;
  for (const auto& [key, value] : parse_policy(text).options) {
    const std::string what = "--kv kivi: " + key;
    if (key == "bits") {
      kivi.bits = parse_int(value, 2, 4, what);
      if (kivi.bits == 3) config_error("{}: expected 2 or 4, found 3", what);
    } else if (key == "group") {
      kivi.group = parse_int(value, 1, kMaxGroup, what);
    } else if (key == "residual") {
      kivi.residual = parse_int(value, 1, kMaxResidual, what);
    } else if (key == "dtype") {
      format.dtype = parse_dtype(value, what);
    } else {
      const std::string nearest = nearest_name(key, keys);
      config_error("--kv kivi: unknown key '{}'; {}", key,
                   nearest.empty() ? std::string("its keys are bits, group, residual, dtype")
                                   : fmt::format("did you mean '{}'?", nearest));
    }
  }
  if (kivi.residual % kivi.group != 0) {
    config_error("--kv kivi: residual={} is not a multiple of group={}", kivi.residual, kivi.group);
  }
  return format;
}

}  // namespace

KvFormat parse_kv_format(std::string_view text, DType compute) {
  if (text == "same") return {.dtype = compute, .kivi = {}};
  if (text == "f32" || text == "bf16") return {.dtype = parse_dtype(text, "--kv"), .kivi = {}};
  if (text.substr(0, text.find(':')) == "kivi") return parse_kivi(text);
  config_error("--kv: expected same, f32, bf16 or kivi:bits=2,group=32,residual=128, found '{}'",
               text);
}

}  // namespace kvbench
