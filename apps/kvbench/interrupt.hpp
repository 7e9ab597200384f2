// Ctrl-C and SIGTERM while records are written: the program ends at once, but never within a
// record, and says how to go on.
#pragma once

#include <string_view>

namespace kvbench {

// From now on SIGINT and SIGTERM print `farewell` (nothing when it is empty) and end the program
// with 128 + signal. May be called again to change the text.
void catch_interrupts(std::string_view farewell);

// Between true and false a signal waits.
void guard_from_interrupts(bool begins);

}  // namespace kvbench
