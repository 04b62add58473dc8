#include "trainer/weights/inference_weights.h"

#include <filesystem>
#include <utility>

#include "data/outputs.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/whole_number.h"
#include "models/registry.h"
#include "trainer/checkpoint/store.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/text_model.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {
namespace fs = std::filesystem;

TrainedWeights FromFile(const std::string& path, checkpoint::SafetensorsContent content) {
  const auto known = [&content](const char* key) {
    const auto found = content.metadata.find(key);
    return found == content.metadata.end() ? std::string() : found->second;
  };
  const std::string step = known("step");
  return {std::move(content.tensors),
          ClassesFrom(content.metadata, path),
          step.empty() ? path : path + " of step " + step,
          known(kModelConfigKey),
          known(kHeldOutKey),
          known(kTrainedOnKey),
          ScaleFrom(content.metadata, path),
          data::WholeNumber(step).value_or(0)};
}

TrainedWeights FromCheckpoint(const fs::path& path) {
  const auto opened = checkpoint::OpenCheckpoint(path, [](const auto& directory, const std::string& reason) {
    report::LogWarning("checkpoint " + directory.string() + " cannot be used: " + reason);
  });
  checkpoint::Snapshot snapshot = checkpoint::Load(opened);
  const std::string where = opened.directory.string();
  return FromFile(where, {std::move(snapshot.model), FactsOf(snapshot.state, where)});
}

}  // namespace

TrainedWeights ReadInferenceWeights(const config::Config& config) {
  const std::string& weights = config.model.init_weights;
  if (!weights.empty() && data::IsRun(weights)) return ReadRunWeights(weights, config.run.weights);
  if (!weights.empty()) return FromFile(weights, ReadInitialWeights(config));
  const fs::path run = NamedRun(config);
  if (run.empty()) {
    throw UsageError("--mode=" + config.run.mode + " has no weights",
                     "name a file with --init_weights, or a run with --run_dir");
  }
  return ReadRunWeights(run, config.run.weights);
}

TrainedWeights ReadRunWeights(const fs::path& run, const std::string& which) {
  const report::RunDirectory files(run);
  if (!data::Exists(run)) {
    throw UsageError("there is no folder " + run.string(), "name that of a run, or a file with --init_weights");
  }
  if (!data::IsFolder(run)) {
    const bool is_file = data::IsFile(run);
    throw UsageError(run.string() + " is no folder of a run or a checkpoint" +
                         (is_file ? "" : ", and no regular file of weights either"),
                     is_file ? "a file of weights is named with --init_weights=" + run.string()
                             : "a pipe cannot be read: name the file or the folder itself");
  }
  if (which == "auto" && data::Exists(files.model_best)) {
    TrainedWeights weights = FromFile(files.model_best.string(), checkpoint::ReadWeights(files.model_best));
    weights.origin += " (its best validation; --weights=last takes the last state)";
    return weights;
  }
  // A run that was copied without its checkpoints still has its last weights in model.safetensors.
  const bool is_copy = data::Exists(files.model) && !data::Exists(run / "checkpoints") && !data::IsCheckpoint(run);
  const bool last = which == "last" || which == "auto";
  if (last && !is_copy) return FromCheckpoint(run);
  const fs::path file = last ? files.model : which == "best" ? files.model_best : files.model_ema;
  if (data::Exists(file)) return FromFile(file.string(), checkpoint::ReadWeights(file));
  const std::string why = which == "best" ? "no validation has made one, or it was not kept"
                                          : "this run keeps no moving average of its weights";
  throw UsageError("--weights=" + which + ": there is no " + file.string() + ": " + why,
                   "--weights=last takes the newest checkpoint");
}

int64_t NumClassesFor(const config::Config& config, const TrainedWeights& weights) {
  const std::string& name = config.model.name;
  if (config.model.num_classes > 0) return config.model.num_classes;
  if (const int64_t rows = NumClassesOf(weights.tensors, name)) return rows;
  const std::string classifier = models::ClassifierWeightName(name);
  const std::string what = weights.origin + " has no classifier " + classifier + " of --model=" + name;
  for (const auto& [other, tensor] : weights.tensors) {
    if (!other.ends_with("." + classifier)) continue;
    const std::string prefix = other.substr(0, other.size() - classifier.size());
    throw UsageError(what + "; it has " + Shown(other, 200),
                     "save the weights of the network alone, whose names do not begin with " + Shown(prefix, 200));
  }
  throw UsageError(what, "check --model; or give --num_classes, or weights of a whole model");
}

}  // namespace dtrain::weights
