#include "data/prepare/commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/open_source.h"
#include "data/machine/limits.h"
#include "data/shown.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

bool HasSplit(const PrepareOptions& options, const std::string& format, const std::string& split) {
  return options.table.path.empty() ? data::HasSplit(format, options.data_dir, split)
                                    : data::HasSplit(options.table, split);
}

// Returns the classes of the training split, which give labels their meaning; empty if there is none, or if it lacks
// shards and some of them are chosen (record_format.h).
std::optional<Classes> TrainingClasses(const PrepareOptions& options, SourceOptions source) {
  source.rebuild_index = false;
  try {
    if (HasSplit(options, source.format, "train")) return OpenSource(source, "train")->classes();
  } catch (const DataError&) {
    constexpr std::string_view kShards = "train-";
    const size_t numbers_end = options.split.find_first_not_of("0123456789", kShards.size());
    const bool chooses_shards =
        options.split.starts_with(kShards) && options.split.size() > kShards.size() &&
        (numbers_end == std::string::npos || options.split.substr(numbers_end).starts_with("-of"));
    if (!chooses_shards) throw;
  }
  return std::nullopt;
}

}  // namespace

void RunCommand(const PrepareOptions& options) {
  const auto command = std::ranges::find(PrepareCommands(), options.command, &PrepareCommand::name);
  std::vector<Output> outputs = options.written;
  if (command->outputs != nullptr) std::ranges::move(command->outputs(options), std::back_inserter(outputs));
  std::vector<std::string> splits;
  const bool reads_folders = !options.data_dir.empty() && options.table.path.empty();
  if (reads_folders && !outputs.empty()) {
    const std::string format = FormatOf(options);
    if (HoldsFiles(format)) splits = SplitsOf(options, format);
  }
  RequireOutputs(outputs, options.read, SplitFolders(options.data_dir, splits));
  command->run(options);
}

std::string FormatOf(const PrepareOptions& options) {
  if (!options.table.path.empty()) return "table";
  if (options.data_format != "auto") return options.data_format;
  if (!options.split.empty()) return DetectFormat(options.data_dir, {options.split});
  return DetectFormat(options.data_dir, {"train", "val"});
}

bool HoldsFiles(const std::string& format) {
  const DataFormat* found = FindFormat(format);
  return found != nullptr && found->records_are_files();
}

std::vector<std::string> SplitsOf(const PrepareOptions& options, const std::string& format) {
  if (!options.split.empty()) return {options.split};
  const bool verifies = options.command == "verify";
  std::vector<std::string> names = {"train", "val"};
  if (verifies && !IsFile(options.data_dir)) names.push_back("test");  // a file is all splits at once
  std::erase_if(names, [&](const std::string& name) { return !HasSplit(options, format, name); });
  if (!names.empty()) return names;
  return {verifies && HoldsFiles(format) ? "." : "train"};
}

std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index, const Classes& classes) {
  SourceOptions source{
      .data_dir = options.data_dir,
      .format = FormatOf(options),
      .labels = options.labels,
      .table = options.table,
      .index_dir = options.index_dir,
      .label_offset = options.label_offset,
      .rebuild_index = rebuild_index,
      .keep_index = options.command != "verify" || !options.index_dir.empty(),
      .note = [](const std::string& problem) { std::fprintf(stderr, "warning: %s\n", Shown(problem).c_str()); }};
  const std::vector<std::string> names = SplitsOf(options, source.format);
  if (names.front() != "train") source.classes = TrainingClasses(options, source).value_or(classes);
  std::vector<OpenSplit> splits;
  for (const std::string& name : names) {
    const std::string shortest = ShortestSplitName(name), last = std::filesystem::path(shortest).filename().string();
    std::string called = shortest == "." ? options.data_dir : shortest;
    if (options.command == "pack") called = last == "." || last == ".." ? "train" : last;
    splits.push_back({called, OpenSource(source, name)});
    const std::string ignored = ToText(splits.back().source->ignored());
    if (!ignored.empty()) std::fprintf(stderr, "%s: %s\n", Shown(called).c_str(), ignored.c_str());
    source.classes = splits.front().source->classes();
  }
  if (options.command == "pack" && options.split.empty() && !IsFile(options.data_dir) &&
      HasSplit(options, source.format, "test")) {
    std::fprintf(stderr, "test is left out: --split=test packs it\n");
  }
  return splits;
}

size_t Threads(const PrepareOptions& options) {
  if (options.workers > 0) return static_cast<size_t>(options.workers);
  return static_cast<size_t>(AvailableCores());
}

}  // namespace dtrain::data
