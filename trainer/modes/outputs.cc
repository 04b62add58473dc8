#include "trainer/modes/outputs.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "data/folder_names.h"
#include "data/formats/open_source.h"
#include "data/pipeline/quarantine.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/confusions.h"
#include "trainer/report/error_report.h"
#include "trainer/report/metrics_endpoint.h"
#include "trainer/report/points.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/export.h"
#include "trainer/tasks/open_splits.h"
#include "trainer/tasks/predictions.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;
using data::Mark;
using data::Output;

std::vector<Mark> EvaluationMarks() {
  std::vector<Mark> marks = report::kConfusionMarks;
  marks.insert(marks.end(), {report::kResultMark, data::kQuarantineMark});
  return marks;
}

// Returns the files of an evaluation, of its first set in `folder`, of others in folders of their own.
std::vector<std::string> EvaluationFiles(const fs::path& folder, const config::DataConfig& data) {
  std::vector<fs::path> folders = {folder};
  for (const std::string& set : config::ValSplits(data)) folders.push_back(folder / EvaluationFolder(set));
  std::vector<std::string> files;
  for (const fs::path& place : folders) {
    const report::RunDirectory of_set(place);
    for (const fs::path& file :
         {of_set.result_json, of_set.confusion_matrix, of_set.class_accuracy, of_set.quarantine(0)}) {
      files.push_back(file.string());
    }
  }
  return files;
}

// Whether the data are files of records. Where it cannot be told, whoever opens the data says why.
bool AreRecords(const config::DataConfig& data) {
  try {
    const data::DataFormat* format = data::FindFormat(tasks::FormatOf(data));
    return format != nullptr && format->files != nullptr;
  } catch (const DataError&) {
    return false;
  }
}

// Returns the folders of the data's splits, unless none of their folders is a class.
std::vector<std::string> SplitFolders(const config::DataConfig& data) {
  if (data.dir.empty() || AreRecords(data)) return {};
  std::vector<std::string> splits = config::ValSplits(data);
  splits.push_back(data.train_split);
  return data::SplitFolders(data.dir, splits);
}

// Whether replacing the file loses its content: a link is replaced itself, not what it leads to, and another name of a
// file keeps it.
bool HoldsContent(const std::string& file) {
  std::error_code none;
  return fs::is_regular_file(fs::symlink_status(file, none)) && fs::hard_link_count(file, none) == 1;
}

// A run has its own files in its folder. Elsewhere, only what an earlier evaluation or a configuration left is
// replaced.
std::vector<Output> RunOutputs(const config::Config& config) {
  const std::string& dir = config.run.dir;
  const bool trains = config.run.mode == "train";
  const fs::path folder = dir.empty() ? config::kRuns : dir;
  if (data::IsRun(folder)) return {};
  if (trains) data::RequireOutsideOfSplits("--run_dir", folder / "checkpoints", SplitFolders(config.data));
  std::error_code none;
  if (dir.empty() || (!trains && config.run.mode != "eval")) return {};
  if (fs::exists(fs::status(dir, none)) && !fs::is_directory(dir, none)) {
    // A file in the folder's place is an error of storage, as every folder is that cannot be made.
    if (trains) report::ProbeRunDirectory(report::RunDirectory(dir));
    return {};
  }
  Output output{.flag = "--run_dir", .path = dir, .marks = EvaluationMarks(), .in_folder = true};
  if (!trains) {
    output.files = EvaluationFiles(dir, config.data);
    return {output};
  }
  const report::RunDirectory run(dir);
  std::vector<fs::path> files = {run.config_json,  run.classes,       run.metrics_jsonl,   run.times_jsonl,
                                 run.spikes_jsonl, run.quarantine(0), run.error_json,      run.model,
                                 run.model_best,   run.model_ema,     run.root / "latest", run.root / "tokenizer"};
  for (const std::string& name : checkpoint::NamesIn(dir)) {
    if (config.report.tensorboard && name.starts_with("events.out.tfevents.")) files.push_back(run.root / name);
  }
  for (const fs::path& file : files) {
    if (HoldsContent(file.string())) output.files.push_back(file.string());
  }
  output.marks.insert(output.marks.end(), {config::kConfigMark, report::kErrorMark});
  return {output};
}

std::vector<Output> MainOutputs(const config::Config& config) {
  const std::string &mode = config.run.mode, &path = config.run.output;
  Output output{.flag = "--output", .path = path};
  if (mode == "eval") {
    if (data::IsSameFile(path, config.run.dir) || data::IsSameFile(path, weights::NamedRun(config))) return {};
    output.files = EvaluationFiles(path, config.data);
    output.marks = EvaluationMarks();
    output.in_folder = true;
  } else if (mode == "export") {
    output.marks = {{"", tasks::kExportedBy}};
    output.in_folder = !ExportsFile(path);
    if (output.in_folder) {
      output.marks = {{}};  // any file of a folder that an export has filled
      output.files = {(fs::path(path) / "model.safetensors").string()};
      output.is_own_folder = tasks::HoldsExport;
    }
  } else {
    output.marks = tasks::kPredictionMarks;
  }
  return {output};
}

// FILE.npy has no room for a mark, so it is known by the file beside it that names its rows.
std::vector<Output> FeatureOutputs(const std::string& path) {
  const std::vector<Mark> of_names = {{tasks::kFirstRow}};
  std::vector<Mark> of_numbers = {{"", tasks::kPredictedBy}};
  const std::string names = tasks::RowNamesFile(path);
  if (data::HasMark(names, of_names)) of_numbers.push_back({tasks::kNumpy});
  return {{.flag = "--features", .path = path, .marks = of_numbers},
          {.flag = "--features", .path = names, .marks = of_names}};
}

// What is written for a flag whose row says that its value is written. For a flag that is not named here, that is a
// file, which must be new or empty.
std::vector<Output> OutputsOf(const config::Flag& flag, const std::string& path, const config::Config& config) {
  if (flag.name == "run_dir") return RunOutputs(config);
  if (path.empty()) return {};
  Output output{.flag = "--" + flag.name, .path = path};
  if (flag.name == "output") return config.run.mode == "train" ? std::vector<Output>() : MainOutputs(config);
  if (flag.name == "features") return FeatureOutputs(path);
  if (flag.name == "index_dir") output.in_folder = true;
  if (flag.name == "metrics_file") output.marks = {report::kMetricsMark};
  if (flag.name == "predictions") {
    output.files = PredictionsFiles(config);
    output.marks = tasks::kSampleMarks;
  }
  return {output};
}

void Probe(const Output& output) {
  if (output.flag == "--index_dir") return;  // an index that cannot be kept is made anew each time
  try {
    output.in_folder ? report::ProbeRunDirectory(report::RunDirectory(output.path)) : report::ProbeFile(output.path);
  } catch (const StorageError& error) {
    throw Error(error.code(), output.flag + "=" + output.path + ": " + error.what(),
                error.hint().empty() ? "make its folder, or name another place" : error.hint());
  }
}

}  // namespace

std::string EvaluationFolder(std::string set) {
  std::ranges::replace(set, '/', '-');
  return "eval-" + set;
}

std::vector<std::string> PredictionsFiles(const config::Config& config) {
  const fs::path file = config.run.predictions;
  std::vector<std::string> sets = config::ValSplits(config.data);
  if (sets.size() == 1) return {file.string()};
  for (std::string& set : sets) {
    std::ranges::replace(set, '/', '-');
    set = (file.parent_path() / (file.stem().string() + "-" + set + file.extension().string())).string();
  }
  return sets;
}

bool ExportsFile(const std::string& output) {
  const std::string ending = fs::path(output).extension().string();
  if (ending == ".safetensors" || ending == ".pt" || ending == ".pth") return true;
  std::error_code unreadable;
  const bool begins_with_letter = ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1])) != 0;
  if (!begins_with_letter || fs::is_directory(output, unreadable)) return false;
  throw UsageError("--output=" + output + " ends like a file, but " + ending + " files cannot be written",
                   ending == ".onnx"
                       ? "scripts/export_onnx.py writes it (docs/weights.md)"
                       : "end the name in .safetensors, .pt or .pth; for a folder of this name, end it in /");
}

std::vector<std::string> InputsOf(const config::Config& config, const std::vector<Output>& outputs) {
  std::vector<std::string> inputs;
  for (const config::Flag& flag : config::Flags()) {
    if (flag.traits.path != data::PathUse::kRead) continue;
    const std::string value = config::ToText(flag.get(config));
    inputs.push_back(value);
    std::istringstream parts(value);  // --input=a,b
    for (std::string part; std::getline(parts, part, ',');) inputs.push_back(part);
    // Elsewhere, what has a mark of an output is none of the files that are read.
    const bool may_be_read = (flag.name == "data_dir" && config.run.mode == "eval") ||
                             (flag.name == "input" && config.run.mode == "export" && !data::IsRun(value));
    if (!may_be_read) continue;
    for (const Output& output : outputs) {
      for (const std::string& file : output.Files()) {
        if (data::IsSameFile(fs::absolute(file).parent_path(), value)) inputs.push_back(file);
      }
    }
  }
  return inputs;
}

void RequireOutputs(const config::Config& config) {
  std::vector<Output> outputs;
  for (const config::Flag& flag : config::Flags()) {
    if (flag.traits.path != data::PathUse::kWritten) continue;
    std::ranges::move(OutputsOf(flag, config::ToText(flag.get(config)), config), std::back_inserter(outputs));
  }
  data::RequireOutputs(outputs, InputsOf(config, outputs), SplitFolders(config.data));
  for (const Output& output : outputs) Probe(output);
}

}  // namespace dtrain::modes
