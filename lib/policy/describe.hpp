// The policies as a page for people, made from the registry so that it cannot disagree with it.
#pragma once

#include <string>

namespace kvbench {

// A Markdown table: name, keys with defaults, when it evicts, what it needs, source.
std::string policies_markdown();

}  // namespace kvbench
