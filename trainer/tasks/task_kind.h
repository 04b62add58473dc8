// What a value of --task means. The training loop knows only a Task (task.h); everything before and around the loop
// asks the kind: which data, which model, what is kept beside the weights, and what the modes do. One object for each
// kind, in one table. Its row in trainer/config/choices.cc has what flags and their checks know of it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/text_options.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/config.h"
#include "trainer/config/problems.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {

// A number that says how large samples are: {"image_size", 224}.
struct SampleSize {
  const char* flag;
  int64_t value;
};

class TaskKind {
 public:
  virtual ~TaskKind() = default;

  virtual const char* name() const = 0;  // the value of --task (config::Tasks)
  virtual data::LabelKind labels() const { return data::LabelKind::kClass; }
  virtual std::optional<models::HeadKind> head() const { return {}; }  // of text
  // Whether a model in models::ModelNames() can learn it.
  virtual bool Takes(const std::string& model) const = 0;
  virtual SampleSize SizeOf(const config::Config& config) const = 0;

  // Opens the training split and, if there is one, the validation split; modes other than train get the validation
  // split alone. Throws DataError naming what is missing, empty or unreadable, or if the splits disagree about the
  // classes, and UsageError if flags do not fit the data. `known`: in an evaluation, the classes that the weights were
  // trained on; if only their number is known, the training split is asked for the rest, provided it is there.
  // `indexes`: indexes that another rank has made, or that are to be sent to other ranks (SourceOptions::indexes); may
  // be null.
  virtual DataSets OpenData(const config::Config& config, const data::Classes& known,
                            data::SharedIndexes* indexes) const = 0;
  // Returns the classes that the weights were trained on, with at least their number; unknown classes for a task
  // without classes. Throws UsageError if the weights have no classifier.
  virtual data::Classes ClassesOf(const config::Config& /*config*/, const weights::TrainedWeights& /*weights*/) const {
    return {};
  }

  // Makes a task for training: its model is on `device`, with weights drawn from --seed, and frozen as --freeze says.
  // `sizes` are those of the data.
  virtual std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                         at::Device device) const = 0;
  // Makes a task with a trained model. `sizes` are those of the data that it will see, as far as they are known; throws
  // UsageError if the model is too small for them.
  virtual std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                                  const DataSizes& sizes, at::Device device) const = 0;

  // Throws UsageError or DataError if this data with these batches teaches nothing.
  virtual void RequireLearnable(const config::Config& /*config*/, const config::BatchSizes& /*batch*/,
                                const DataSets& /*data*/) const {}
  // The default of --loss_scale_window, in steps.
  virtual int64_t LossScaleWindow(const config::Config& config) const;

  // Returns what must be the same when a run is resumed, as keys and values, beyond what all kinds have in common
  // (RunIdentity).
  virtual nlohmann::json Identity(const config::Config& /*config*/, const DataSets& /*data*/) const {
    return nlohmann::json::object();
  }
  // Adds what the metadata of files of weights, and the state of checkpoints, have beyond classes and settings.
  virtual void AddMetadata(checkpoint::Metadata& /*metadata*/, const config::Config& /*config*/,
                           const DataSets& /*data*/) const {}
  // Copies files that belong to the weights, such as a tokenizer, into the run directory. Throws StorageError.
  virtual void KeepFiles(const config::Config& /*config*/, const std::filesystem::path& /*run_directory*/) const {}

  // --mode=predict, on `device`.
  virtual void Predict(const config::Config& config, at::Device device) const = 0;
  // --mode=export: writes the weights to the file or folder --output.
  virtual void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const = 0;
  // The sizes of a model that dtrain_bench measures, for MakeTask.
  virtual DataSizes BenchSizes(const config::Config& config) const = 0;
};

// Returns all kinds, in the order of --help.
const std::vector<const TaskKind*>& TaskKinds();

// Returns the kind of --task; if that is still `auto`, the first one that takes --model. Throws UsageError if there is
// none.
const TaskKind& KindOf(const config::Config& config);

// Returns the model of text that weights of any origin are of: `said` if it is one. Empty if they are not of text.
std::string TextModelOf(const checkpoint::NamedTensors& weights, const std::string& model_config,
                        const std::string& said);

// What a config.json calls a task of such labels, its problem_type.
const char* ProblemType(data::LabelKind labels);

// Returns the kind of task of images that a config.json names, as its problem_type; one that names none means classes.
const TaskKind& ImageKindIn(const std::string& model_config);

// Returns the kind of weights of any origin, which their names and the config.json of their model tell. Throws
// UsageError if --task is of another kind.
const TaskKind& KindOfWeights(const weights::TrainedWeights& weights, const config::Config& config);

// Returns what the checks of the flags (RequireValid) have to know of the models.
config::ModelFacts ModelFactsOf(const config::ModelConfig& config);

// Sets --task, unless it was given or comes from the run whose weights are used, to what the model and the data mean;
// and --model to a model of text, if it was not given, but a task of text or such weights were. Leaves --task at
// `auto` for a model that does not exist, and if weights that no run has made are to be exported. Throws UsageError if
// the model cannot do the task.
void ResolveTask(config::Config& config);

}  // namespace dtrain::tasks
