#include "data/prepare/splits.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "data/error.h"
#include "data/formats/open_source.h"

namespace dtrain::data {

std::string FormatOf(const PrepareOptions& options) {
  if (options.data_format != "auto") return options.data_format;
  if (!options.split.empty()) return DetectFormat(options.data_dir, {options.split});
  return DetectFormat(options.data_dir, {"train", "val"});
}

std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index) {
  SourceOptions source{.data_dir = options.data_dir,
                       .format = FormatOf(options),
                       .index_dir = options.index_dir,
                       .label_offset = options.label_offset,
                       .rebuild_index = rebuild_index,
                       .note = [](const std::string& problem) {
                         std::fprintf(stderr, "warning: %s; --index_dir=DIR names another place\n", problem.c_str());
                       }};
  std::vector<std::string> names = {options.split};
  if (options.split.empty()) {
    names = {"train", "val"};
    std::erase_if(names, [&](const std::string& name) { return !HasSplit(source.format, options.data_dir, name); });
    if (names.empty()) names = {"train"};  // its message says what is missing
  }
  std::vector<OpenSplit> splits;
  for (const std::string& name : names) {
    splits.push_back({name, OpenSource(source, name)});
    if (!source.label_offset) source.label_offset = LabelOffsetOf(*splits.back().source);
  }
  return splits;
}

size_t Threads(const PrepareOptions& options) {
  if (options.workers > 0) return static_cast<size_t>(options.workers);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<size_t>(std::max(1, CPU_COUNT(&cores))) : 1;
}

}  // namespace dtrain::data
