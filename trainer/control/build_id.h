// Which build this program is: two ranks with different ones may well compute different numbers.
#pragma once

#include <string>

namespace dtrain::distributed {

// The linker's build id (a hash of the program's contents) in hexadecimal; "unknown" where it was linked without.
std::string BuildId();

}  // namespace dtrain::distributed
