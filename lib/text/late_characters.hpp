// Characters that the reference library's normal forms do not know: its tables are those of
// Unicode 9, ours those of Unicode 14.
#pragma once

namespace kvbench {

// Whether Unicode 10 to 14 gave the character a decomposition, a combining class or a part in a
// composition. The reference leaves it where and as it is, and composes nothing across it.
bool is_late_character(char32_t code_point);

}  // namespace kvbench
