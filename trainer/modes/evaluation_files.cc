#include "trainer/modes/evaluation_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "data/outputs.h"
#include "trainer/errors.h"
#include "trainer/report/confusions.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;

void Write(const report::RunDirectory& files, const report::RunResult& result, const data::Classes& classes) {
  std::error_code said_by_writing;
  fs::create_directories(files.root, said_by_writing);
  report::WriteTextFile(files.result_json, report::ResultJson(result));
  const std::vector<int64_t>& counts = result.validation->confusions;
  std::vector<report::ClassScores> scores = result.validation->scores;
  std::string written = "result.json";
  if (!counts.empty()) {
    const report::Confusions confusions(counts, classes.names);
    report::WriteTextFile(files.confusion_matrix, confusions.MatrixCsv());
    written += ", confusion_matrix.csv";
    if (scores.empty()) scores = confusions.Scores();
  }
  if (!scores.empty()) {
    report::WriteTextFile(files.class_accuracy, report::ScoresCsv(scores));
    written += ", class_accuracy.csv";
  }
  report::LogInfo("the evaluation's files (" + written + "): " + files.root.string());
}

}  // namespace

std::string EvaluationFolder(std::string set) {
  std::replace(set.begin(), set.end(), '/', '-');
  return "eval-" + set;
}

void KeepEvaluation(const report::RunResult& result, const tasks::DataSets& data, const config::Config& config,
                    const std::string& run_directory) {
  const std::string& output = config.run.output;
  const fs::path root = output.empty() ? run_directory : output;
  if (root.empty()) return;
  const std::vector<const tasks::DataSplit*> sets = tasks::ValidationSets(data);
  try {
    for (size_t i = 0; i < sets.size(); ++i) {
      report::RunResult of_set = result;
      if (i > 0) of_set.validation = result.validation->further[i - 1];
      of_set.validation->further.clear();
      of_set.validation->split.clear();  // the folder tells
      const bool is_root = i == 0 && (!output.empty() || !data::IsRun(root));
      Write(report::RunDirectory(
                is_root ? root : root / EvaluationFolder(sets[i]->whole.empty() ? sets[i]->name : "held_out")),
            of_set, data.classes);
    }
  } catch (const StorageError& error) {
    if (!output.empty()) throw;
    report::LogWarning(std::string(error.what()) + "; to keep the evaluation's files, name a folder with --output");
  }
}

}  // namespace dtrain::modes
