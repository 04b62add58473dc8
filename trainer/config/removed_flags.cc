#include "trainer/config/removed_flags.h"

#include <algorithm>
#include <array>

namespace dtrain::config {
namespace {

constexpr std::array kRemoved = {
    RemovedFlag{"decode", true,
                "images are decoded on the CPU, which was faster in training than nvJPEG on the GPU; leave it out"},
    RemovedFlag{"pad_stem", false, "a stem padded to four channels was no faster on an H100; leave it out"},
};

}  // namespace

const RemovedFlag* FindRemoved(std::string_view name) {
  const auto row = std::find_if(kRemoved.begin(), kRemoved.end(), [name](const RemovedFlag& flag) {
    return flag.name == name || (!flag.takes_value && name.starts_with("no") && name.substr(2) == flag.name);
  });
  return row == kRemoved.end() ? nullptr : row;
}

}  // namespace dtrain::config
