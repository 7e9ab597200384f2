// Oniguruma patterns in PCRE2's words.
#pragma once

#include <string>
#include <string_view>

namespace kvbench {

// The same pattern for PCRE2 (compiled with UTF, UCP and MULTILINE). Throws DataError, beginning
// with `where`, for syntax whose meaning differs and that has no rewriting here.
std::string pcre2_from_oniguruma(std::string_view pattern, const std::string& where);

}  // namespace kvbench
