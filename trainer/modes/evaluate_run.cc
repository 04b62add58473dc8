// --mode=eval: evaluates the weights of --init_weights, or of a run, on the validation split.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "data/joined.h"
#include "data/outputs.h"
#include "data/pipeline/quarantine.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/loop/batch_feed.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/training_health.h"
#include "trainer/modes/open.h"
#include "trainer/modes/outputs.h"
#include "trainer/modes/run.h"
#include "trainer/modes/session.h"
#include "trainer/report/confusions.h"
#include "trainer/report/console.h"
#include "trainer/report/log.h"
#include "trainer/tasks/open_splits.h"
#include "trainer/tasks/predictions.h"
#include "trainer/tasks/split_batches.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::modes {
namespace {
namespace fs = std::filesystem;

// Warns if the held-out part is not the one of the training, which may have trained on some of its samples.
void CompareHeldOut(const config::Config& config, const weights::TrainedWeights& weights, const tasks::DataSplit& val) {
  const bool is_held_out = !val.whole.empty();
  if (!is_held_out || weights.held_out.empty() || weights.held_out == val.source->fingerprint()) return;
  report::LogWarning(tasks::DataName(config.data) + " or the choice of its held-out part has changed since " +
                     weights.origin +
                     " was trained, perhaps on some of these samples: this evaluation may be too good");
}

// Whether the weights say that they were trained on the samples of this set, or their run that it is its training
// split, of which files may have come or gone since.
bool WasTrainedOn(const config::Config& config, const weights::TrainedWeights& weights, const tasks::DataSets& data,
                  size_t set) {
  const tasks::DataSplit& split = *tasks::ValidationSets(data)[set];
  if (!weights.trained_on.empty() && weights.trained_on == split.source->fingerprint()) return true;
  const std::vector<std::string> names = config::ValSplits(config.data);
  return split.whole.empty() && set < names.size() && names[set] == weights::TrainSplitOfRun(config);
}

// "the 10000 samples", or "320 of the 10000 samples" with --limit_val_steps
std::string SamplesToEvaluate(const tasks::DataSplit& val, const config::Config& config, int world) {
  const int64_t taken = tasks::MakeEvaluationBatches(val, config, world)->EvaluatedSamples();
  const std::string all = "the " + std::to_string(val.source->size()) + " samples";
  return taken == val.source->size() ? all : std::to_string(taken) + " of " + all;
}

// The results of each sample of a set with --predictions; null without it.
std::unique_ptr<tasks::SampleResults> ObserveSamples(const config::Config& config, const tasks::DataSplit& set,
                                                     int64_t num_classes, tasks::Task& task) {
  if (config.run.predictions.empty()) return nullptr;
  auto results = std::make_unique<tasks::SampleResults>(set.words ? set.words->words() : set.source->size(),
                                                        tasks::OutcomeOf(config, std::max<int64_t>(1, num_classes)),
                                                        task.device());
  if (task.ObserveOutputs([to = results.get()](const tasks::SampleOutputs& outputs) { to->Add(outputs); }))
    return results;
  throw UsageError("--predictions: --task=" + config.run.task + " predicts nothing for a whole sample", "leave it out");
}

// Throws DataError if there was nothing to measure, and warns if there was little, or if the loss is no number.
void JudgeMeasured(const report::ValPoint& point, const std::string& split) {
  if (!loop::HasFiniteLoss(point)) {
    report::LogWarning("the loss of " + split +
                       " is not finite, and its metrics are no numbers: " + tasks::kWhyNotFinite);
  }
  if (!point.text) return;
  if (point.text->guessed == 0)
    throw DataError(loop::NothingToMeasure(split), "evaluate more text, or raise --mask_prob");
  loop::WarnOfUnmeasured(*point.text, split);
}

// The result of all sets from that of each.
report::RunResult Together(const std::vector<report::RunResult>& sets, const tasks::DataSets& data) {
  report::RunResult all = sets.front();
  JudgeMeasured(*all.validation, data.val->name);
  for (size_t i = 1; i < sets.size(); ++i) {
    report::ValPoint& further = all.validation->further.emplace_back(*sets[i].validation);
    further.split = tasks::ValidationSets(data)[i]->name;
    JudgeMeasured(further, further.split);
    const double units = all.speed * all.seconds + sets[i].speed * sets[i].seconds;
    all.seconds += sets[i].seconds;
    all.speed = units / all.seconds;
    all.samples_seen += sets[i].samples_seen;
    all.bad_records += sets[i].bad_records;
  }
  return all;
}

// On disks of the machines' own, others may be there.
void TakeWeightsOfFirst(distributed::Communicator& communicator, torch::nn::Module& module) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : weights::StateOf(module)) tensors.push_back(tensor.detach());
  communicator.BroadcastFromFirst(tensors);
}

void Announce(const config::Config& config, const weights::TrainedWeights& weights, const tasks::DataSets& data,
              int world) {
  for (size_t set = 0; const tasks::DataSplit* split : tasks::ValidationSets(data)) {
    report::LogInfo("evaluating " + weights.origin + " on " + SamplesToEvaluate(*split, config, world) + " of " +
                    split->name);
    if (!WasTrainedOn(config, weights, data, set++)) continue;
    report::LogWarning("the model was trained on the samples of '" + split->name +
                       "': its numbers, called train_…, say nothing of other samples");
  }
  CompareHeldOut(config, weights, *data.val);
}

// A folder that cannot be read is not written later, either, of which KeepEvaluation warns.
void RemoveLists(const report::RunDirectory& folder) {
  try {
    for (const std::string& name : checkpoint::NamesIn(folder.root)) {
      const fs::path file = folder.root / name;
      const bool is_list = file == folder.quarantine(0) || name.starts_with("quarantine.rank");
      std::error_code remains;
      if (is_list && data::HasMark(file, {data::kQuarantineMark})) fs::remove(file, remains);
    }
  } catch (const StorageError&) {
  }
}

// Returns the folder of each set's files, in the order of the sets: eval-SPLIT of the run directory, or of --output; of
// the first set the run directory or --output itself, if that is no run's. A folder of their own, since a run can be
// evaluated on several sets, its training split among them, and none of these is the run's own result. Empty if nothing
// is kept: without a run directory and --output. Rank 0 decides, since others may have no such run on their disks.
// Lists of bad records of an earlier evaluation are removed. A collective.
std::vector<report::RunDirectory> BeginFolders(Session& session, const tasks::DataSets& data) {
  const auto of_first = [&session](const char* key, const std::string& value) {
    return session.rendezvous ? session.rendezvous->ShareFromFirst(key, value) : value;
  };
  std::string root = session.context.config.run.output;
  if (root.empty() && !data::IsCheckpoint(session.run_directory)) root = session.run_directory;
  root = of_first("evaluation", root);
  const bool is_run = !of_first("evaluation_of_run", data::IsRun(root) ? root : "").empty();
  std::vector<report::RunDirectory> folders;
  if (root.empty()) return folders;
  for (const tasks::DataSplit* set : tasks::ValidationSets(data)) {
    const bool is_root = folders.empty() && !is_run;
    const std::string name = EvaluationFolder(set->whole.empty() ? set->name : "held_out");
    folders.emplace_back(is_root ? fs::path(root) : fs::path(root) / name);
    RemoveLists(folders.back());
  }
  return folders;
}

// Returns where a rank lists the bad records of a set. Empty if nothing is kept, or the folder cannot be written, of
// which KeepEvaluation warns.
fs::path BadRecordsFile(const std::vector<report::RunDirectory>& folders, size_t set, int rank) {
  if (folders.empty()) return "";
  const fs::path file = folders[set].quarantine(rank);
  try {
    report::ProbeFile(report::NearestFolder(file.parent_path()) / file.filename());
    return file;
  } catch (const StorageError&) {
    return "";
  }
}

// What was found of the validation sets, in their order. The time of the first one begins with that of the evaluation.
struct Evaluated {
  std::vector<report::RunResult> results;
  std::vector<std::unique_ptr<tasks::SampleResults>> samples;  // null without --predictions
};

// A collective. Throws Preempted if the ranks were asked to stop.
Evaluated EvaluateSets(Session& session, const Opened& run, const std::vector<report::RunDirectory>& folders,
                       std::chrono::steady_clock::time_point start, report::Console& console) {
  const config::Config& config = session.context.config;
  Evaluated evaluated;
  for (const tasks::DataSplit* split : tasks::ValidationSets(run.data)) {
    auto samples = ObserveSamples(config, *split, run.data.num_classes, *run.task);
    const auto quarantine = loop::MakeRunQuarantine(
        *split, config.data, BadRecordsFile(folders, evaluated.results.size(), session.communicator->rank()),
        "left out", *session.control);
    auto point =
        loop::Evaluate(*run.task, *split, config, *session.communicator, *session.control, /*steps_done=*/0,
                       *quarantine, [&console](int64_t done, int64_t total) { console.Evaluating(done, total); });
    if (!point) throw Preempted("stopped in the middle of the evaluation", "run the same command again");
    point->trained_on = WasTrainedOn(config, run.weights, run.data, evaluated.results.size());
    point->step = run.weights.step;
    if (samples) samples->Gather(*session.communicator);
    const double seconds = report::SecondsSince(std::exchange(start, std::chrono::steady_clock::now()));
    evaluated.results.push_back({.validation = point,
                                 .step = run.weights.step,
                                 .seconds = seconds,
                                 .samples_seen = point->samples,
                                 .bad_records = point->bad_records,
                                 .world_size = session.context.launch.world_size,
                                 .speed = static_cast<double>(point->units) / seconds,
                                 .speed_unit = run.task->speed_unit()});
    evaluated.samples.push_back(std::move(samples));
  }
  return evaluated;
}

void WritePredictions(const config::Config& config, const tasks::DataSets& data,
                      const std::vector<std::unique_ptr<tasks::SampleResults>>& samples) {
  if (config.run.predictions.empty()) return;
  const std::vector<const tasks::DataSplit*> sets = tasks::ValidationSets(data);
  const std::vector<std::string> files = PredictionsFiles(config);
  for (size_t i = 0; i < sets.size(); ++i) {
    samples[i]->Write(files[i], *sets[i], data.classes.names, config.run.csv_bom);
    report::LogInfo("the predictions for each sample: " + files[i]);
  }
}

void WriteEvaluation(const report::RunDirectory& files, const report::RunResult& result, const data::Classes& classes) {
  checkpoint::MakeFolder(files.root);
  checkpoint::WriteAtomically(files.result_json, report::ResultJson(result));
  const std::vector<int64_t>& counts = result.validation->confusions;
  std::vector<report::ClassScores> scores = result.validation->scores;
  std::string written = "result.json";
  if (!counts.empty()) {
    const report::Confusions confusions(counts, classes.names);
    checkpoint::WriteAtomically(files.confusion_matrix, confusions.MatrixCsv());
    written += ", confusion_matrix.csv";
    if (scores.empty()) scores = confusions.Scores();
  }
  if (!scores.empty()) {
    checkpoint::WriteAtomically(files.class_accuracy, report::ScoresCsv(scores));
    written += ", class_accuracy.csv";
  }
  const auto drop_earlier = [](const fs::path& file, bool is_written) {
    std::error_code remains;
    if (!is_written && data::HasMark(file, report::kConfusionMarks)) fs::remove(file, remains);
  };
  drop_earlier(files.confusion_matrix, !counts.empty());
  drop_earlier(files.class_accuracy, !scores.empty());
  report::LogInfo("the evaluation's files (" + written + "): " + files.root.string());
}

// Writes result.json, and confusion_matrix.csv and class_accuracy.csv where confusions were counted, of each set into
// its folder. Throws StorageError if --output cannot be written; if the run cannot, only warns, so that the evaluation
// does not fail.
void KeepEvaluation(const std::vector<report::RunResult>& results, const std::vector<report::RunDirectory>& folders,
                    const config::Config& config, const data::Classes& classes) {
  try {
    for (size_t i = 0; i < folders.size(); ++i) WriteEvaluation(folders[i], results[i], classes);
  } catch (const StorageError& error) {
    if (!config.run.output.empty()) throw;
    report::LogWarning(std::string(error.what()) + "; to keep the evaluation's files, name a folder with --output");
  }
}

// Shows what was found of the classes, if it was counted.
void ShowClasses(const report::ValPoint& point, const data::Classes& classes, report::Console& console) {
  const bool has_scores = !point.scores.empty() || point.confusions.empty();
  for (const std::string& line :
       has_scores ? report::ScoreLines(point.scores) : report::Confusions(point.confusions, classes.names).Lines()) {
    console.Note(line);
  }
}

void PrintAsJson(const report::ValPoint& point) {
  std::printf("%s\n", report::JsonLine(point).c_str());
  for (const report::ValPoint& further : point.further) std::printf("%s\n", report::JsonLine(further).c_str());
}

}  // namespace

void EvaluateOnly(const RunContext& context) {
  const config::Config& config = context.config;
  const auto start = std::chrono::steady_clock::now();
  const bool is_first = context.launch.rank == 0;
  Session session(context);
  Opened run = Open(config, context.launch, &session);
  const tasks::DataSets& data = run.data;
  if (is_first) Announce(config, run.weights, data, context.launch.world_size);
  const std::vector<report::RunDirectory> folders = BeginFolders(session, data);
  session.Connect(config, {{"data_fingerprint", tasks::ValFingerprint(data)}});
  MakeTask(config, session.device, run);
  TakeWeightsOfFirst(*session.communicator, run.task->module());
  run.task->CountConfusions();
  report::Console console(
      {.format = report::ParseLogFormat(config.report.log_format, report::StdoutTerminal().is_terminal),
       .rank = context.launch.rank});
  const Evaluated evaluated = EvaluateSets(session, run, folders, start, console);
  session.Leave();
  if (!is_first) return;

  const report::RunResult result = Together(evaluated.results, data);
  if (const int64_t bad = result.bad_records; bad > 0) {
    report::LogWarning(CountOf(bad, "record") + " could not be read and " + (bad == 1 ? "is" : "are") + " left out");
  }
  ShowClasses(*result.validation, data.classes, console);
  KeepEvaluation(evaluated.results, folders, config, data.classes);
  WritePredictions(config, data, evaluated.samples);
  if (config.report.log_format == "json") PrintAsJson(*result.validation);
  console.Finish(result);
}

}  // namespace dtrain::modes
