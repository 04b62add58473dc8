#include "data/prepare/commands.h"

#include <algorithm>
#include <cstdio>

#include "data/error.h"
#include "data/formats/open_source.h"
#include "data/machine/limits.h"
#include "data/shown.h"

namespace dtrain::data {
namespace {

Classes TrainingClasses(SourceOptions options) {
  options.rebuild_index = false;
  return OpenSource(options, "train")->classes();
}

}  // namespace

std::string FormatOf(const PrepareOptions& options) {
  if (options.data_format != "auto") return options.data_format;
  if (!options.split.empty()) return DetectFormat(options.data_dir, {options.split});
  return DetectFormat(options.data_dir, {"train", "val"});
}

std::vector<std::string> SplitsOf(const PrepareOptions& options, const std::string& format) {
  if (!options.split.empty()) return {options.split};
  const bool verifies = options.command == "verify";
  std::vector<std::string> names = {"train", "val"};
  if (verifies) names.push_back("test");
  std::erase_if(names, [&](const std::string& name) { return !HasSplit(format, options.data_dir, name); });
  if (!names.empty()) return names;
  return {verifies && format == "imagefolder" ? "." : "train"};
}

std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index, const Classes& classes) {
  SourceOptions source{.data_dir = options.data_dir,
                       .format = FormatOf(options),
                       .index_dir = options.index_dir,
                       .label_offset = options.label_offset,
                       .rebuild_index = rebuild_index,
                       .keep_index = options.command != "verify" || !options.index_dir.empty(),
                       .note = [](const std::string& problem) {
                         std::fprintf(stderr, "warning: %s; to keep the index elsewhere, use --index_dir=DIR\n",
                                      Shown(problem).c_str());
                       }};
  const bool has_train = HasSplit(source.format, options.data_dir, "train");
  if (!has_train) source.classes = classes;
  std::vector<OpenSplit> splits;
  for (const std::string& name : SplitsOf(options, source.format)) {
    if (splits.empty() && name != "train" && has_train) source.classes = TrainingClasses(source);
    splits.push_back({name, OpenSource(source, name)});
    const std::string ignored = ToText(splits.back().source->ignored());
    if (!ignored.empty()) std::fprintf(stderr, "%s: %s\n", Shown(name).c_str(), ignored.c_str());
    source.classes = splits.front().source->classes();
  }
  return splits;
}

size_t Threads(const PrepareOptions& options) {
  if (options.workers > 0) return static_cast<size_t>(options.workers);
  return static_cast<size_t>(AvailableCores());
}

}  // namespace dtrain::data
