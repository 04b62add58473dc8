// Identifies the build of this program. Ranks compare it, because two builds may compute different numbers.
#pragma once

#include <string>

namespace dtrain::control {

// Returns the build id that the linker wrote into the program (a hash of its contents) in hexadecimal, or "unknown" if
// the program has none.
std::string BuildId();

}  // namespace dtrain::control
