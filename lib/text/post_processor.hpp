// The post-processor of tokenizer.json, of which only the token it puts first matters here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvbench {

// Spelling of the token that the post-processor puts before a text, if any. What it would put
// behind goes into `warnings`, because kvbench never adds that. Throws DataError for a type that is
// not supported.
std::optional<std::string> bos_of_post_processor(const nlohmann::json& spec,
                                                 const std::string& file,
                                                 std::vector<std::string>& warnings);

}  // namespace kvbench
