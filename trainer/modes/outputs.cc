#include "trainer/modes/outputs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "data/outputs.h"
#include "trainer/config/resolve.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/feature_file.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;

void RequireFolderOfConfusions(const config::Config& config) {
  const std::string& output = config.run.output;
  if (output.empty()) return;
  if (!data::IsSameFile(output, config.run.dir) && !data::IsSameFile(output, weights::NamedRun(config))) {
    const report::RunDirectory files(output);
    for (const auto& file : {files.confusion_matrix, files.class_accuracy}) {
      data::RequireOtherFile(file.string(), {config.model.init_weights, config.data.dir});
    }
  }
  report::ProbeRunDirectory(report::RunDirectory(output));
}

void RequireOtherPredictions(const config::Config& config) {
  if (config.run.predictions.empty()) return;
  std::vector<std::string> read = {config.model.init_weights, config.data.dir};
  std::error_code unreadable;
  fs::directory_iterator file(config.data.dir, unreadable);
  for (; !unreadable && file != fs::directory_iterator(); file.increment(unreadable)) {
    read.push_back(file->path().string());
  }
  for (const std::string& written : PredictionsFiles(config)) data::RequireOtherFile(written, read);
  report::ProbeFile(config.run.predictions);
}

}  // namespace

std::vector<std::string> PredictionsFiles(const config::Config& config) {
  const fs::path file = config.run.predictions;
  std::vector<std::string> sets = config::ValSplits(config.data);
  if (sets.size() == 1) return {file.string()};
  for (std::string& set : sets) {
    std::replace(set.begin(), set.end(), '/', '-');
    set = (file.parent_path() / (file.stem().string() + "-" + set + file.extension().string())).string();
  }
  return sets;
}

void RequireOutputsOfEvaluation(const config::Config& config) {
  RequireFolderOfConfusions(config);
  RequireOtherPredictions(config);
}

void RequireOutputsOfPrediction(const config::Config& config) {
  const std::string& features = config.run.features;
  std::vector<std::string> written = {config.run.output};
  if (!features.empty()) written = {features, tasks::RowNamesFile(features)};
  for (const std::string& file : written) {
    data::RequireOtherFile(file, {config.run.input, config.model.init_weights});
    report::ProbeFile(file);
  }
}

}  // namespace dtrain::modes
