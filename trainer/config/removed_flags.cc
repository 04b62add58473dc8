#include "trainer/config/removed_flags.h"

#include <algorithm>
#include <array>

namespace dtrain::config {
namespace {

constexpr std::array kRemoved = {
    RemovedFlag{"decode", true,
                "images are decoded on the CPU, which was faster in training than nvJPEG on the GPU; leave it out"},
    RemovedFlag{"fused_norm", false, "GPUs always normalise this way now; leave it out"},
    RemovedFlag{"pad_stem", false, "a stem padded to four channels was no faster on an H100; leave it out"},
    RemovedFlag{"static_graph", false, "every parameter takes part in every step now; leave it out"},
};

}  // namespace

const RemovedFlag* FindRemoved(std::string_view name) {
  const auto row = std::find_if(kRemoved.begin(), kRemoved.end(), [name](const RemovedFlag& flag) {
    if (flag.name == name) return true;
    const bool is_negated = !flag.takes_value && name.starts_with("no") && name.ends_with(flag.name);
    return is_negated && (name.size() == flag.name.size() + 2 || name.substr(2).starts_with('_'));
  });
  return row == kRemoved.end() ? nullptr : row;
}

}  // namespace dtrain::config
