// Feeds arbitrary chat templates to the parser and the renderer. What is refused is a DataError
// that names the place; what is rendered is rendered the same again.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "text/chat_template.hpp"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    kvbench::ChatTemplate chat(text, "fuzz");
    chat.bos_token = "<s>";
    const std::array messages{kvbench::ChatMessage{"system", "Be brief."},
                              kvbench::ChatMessage{"user", " Caf\u00e9? "},
                              kvbench::ChatMessage{"assistant", "<think>a</think>b"}};
    const std::string first = chat.render(messages, true);
    require(first == chat.render(messages, true));
  } catch (const kvbench::DataError& error) {
    require(std::string_view(error.what()).starts_with("fuzz: line "));
  }
  return 0;
}
