#include "data/prepare/commands.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "data/error.h"
#include "data/formats/open_source.h"
#include "data/machine/limits.h"
#include "data/outputs.h"
#include "data/shown.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

bool HasSplit(const PrepareOptions& options, const std::string& format, const std::string& split) {
  return options.table.path.empty() ? data::HasSplit(format, options.data_dir, split)
                                    : data::HasSplit(options.table, split);
}

Classes TrainingClasses(SourceOptions options) {
  options.rebuild_index = false;
  return OpenSource(options, "train")->classes();
}

// The token files PREFIX.bin have no mark, so they are known by their index. What a dictionary holds is compared later.
std::vector<Output> TokenOutputs(const PrepareOptions& options) {
  const std::string &prefix = options.output, dictionary = DictionaryBeside(prefix);
  const std::vector<Mark> of_index = {{"MMIDIDX"}};
  const auto of_tokens = HasMark(prefix + ".idx", of_index) ? std::vector<Mark>{{}} : std::vector<Mark>();
  std::vector<Output> outputs = {
      {.flag = "--output", .path = prefix, .marks = of_index, .files = {prefix + ".idx"}},
      {.flag = "--output", .path = prefix, .marks = of_tokens, .files = {prefix + ".bin", prefix + ".ids"}}};
  if (!IsSameFile(options.dict, dictionary)) {
    outputs.push_back({.flag = "--output", .path = prefix, .marks = {{}}, .files = {dictionary}});
  }
  return outputs;
}

std::vector<Output> MainOutputs(const PrepareOptions& options) {
  if (options.command == "tokenize") return TokenOutputs(options);
  Output output{.flag = "--output", .path = options.output, .in_folder = true};
  if (options.command == "pack") output.is_own_folder = HoldsPack;
  if (options.command == "verify") {
    if (QuarantineList(options).empty()) return {};
    output.files = {QuarantineList(options)};
    output.path = FolderOf(output.files[0]);
    output.marks = {{"{\"split\":"}};
  }
  return {output};
}

}  // namespace

void RequireOutputs(const PrepareOptions& options) {
  std::vector<Output> outputs;
  for (const auto& [flag, path] : options.written) {
    // A file for a flag that is not named here must be new or empty. --move_bad_to never replaces a file.
    const bool in_folder = flag == "index_dir" || flag == "move_bad_to";
    if (flag != "output") outputs.push_back({.flag = "--" + flag, .path = path, .in_folder = in_folder});
  }
  if (options.command == "verify" || !options.output.empty()) {
    std::ranges::move(MainOutputs(options), std::back_inserter(outputs));
  }
  RequireOutputs(outputs, options.read);
}

std::string QuarantineList(const PrepareOptions& options) {
  const std::string& named = options.output.empty() ? options.index_dir : options.output;
  if (named.empty() && (!options.table.path.empty() || HoldsFiles(FormatOf(options)))) return "";
  const std::string& folder = named.empty() ? options.data_dir : named;
  return folder + "/quarantine.jsonl";
}

std::string DictionaryBeside(const std::string& prefix) { return FolderOf(prefix) + "/dict.txt"; }

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
  if (verifies) names.push_back("test");
  std::erase_if(names, [&](const std::string& name) { return !HasSplit(options, format, name); });
  if (!names.empty()) return names;
  return {verifies && HoldsFiles(format) ? "." : "train"};
}

std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index, const Classes& classes) {
  SourceOptions source{.data_dir = options.data_dir,
                       .format = FormatOf(options),
                       .labels = options.labels,
                       .table = options.table,
                       .index_dir = options.index_dir,
                       .label_offset = options.label_offset,
                       .rebuild_index = rebuild_index,
                       .keep_index = options.command != "verify" || !options.index_dir.empty(),
                       .note = [](const std::string& problem) {
                         std::fprintf(stderr, "warning: %s; to keep the index elsewhere, use --index_dir=DIR\n",
                                      Shown(problem).c_str());
                       }};
  const bool has_train = HasSplit(options, source.format, "train");
  if (!has_train) source.classes = classes;
  std::vector<OpenSplit> splits;
  for (const std::string& name : SplitsOf(options, source.format)) {
    if (splits.empty() && name != "train" && has_train) source.classes = TrainingClasses(source);
    const std::string called = name != "." ? name : options.command == "pack" ? "train" : options.data_dir;
    splits.push_back({called, OpenSource(source, name)});
    const std::string ignored = ToText(splits.back().source->ignored());
    if (!ignored.empty()) std::fprintf(stderr, "%s: %s\n", Shown(called).c_str(), ignored.c_str());
    source.classes = splits.front().source->classes();
  }
  return splits;
}

size_t Threads(const PrepareOptions& options) {
  if (options.workers > 0) return static_cast<size_t>(options.workers);
  return static_cast<size_t>(AvailableCores());
}

}  // namespace dtrain::data
