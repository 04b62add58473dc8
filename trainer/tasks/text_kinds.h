// What the tasks of texts have in common around their training (task_kind.h), and what those of sentences have. The
// latter differ in their labels (data::SentenceTarget), which also tell the head, and in their Task (text_task.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "data/sentences/sentence_split.h"
#include "models/text_model.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {

// Makes the Task of a model.
using TextTaskMaker = std::unique_ptr<Task> (*)(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                                at::Device device);
template <typename TaskType>
std::unique_ptr<Task> MakeTextTask(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                   at::Device device) {
  return std::make_unique<TaskType>(std::move(model), config, device);
}

class TextKind : public TaskKind {
 public:
  const char* name() const override { return name_; }
  bool Takes(const std::string& model) const override;
  SampleSize SizeOf(const config::Config& config) const override;
  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override;
  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                          const DataSizes& sizes, at::Device device) const override;
  nlohmann::json Identity(const config::Config& config, const DataSets& data) const override;
  void AddMetadata(checkpoint::Metadata& metadata, const config::Config& config, const DataSets& data) const override;
  void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const override;

 protected:
  using Head = std::optional<models::ClassifierOptions>;  // empty: the one that guesses words

  TextKind(const char* name, TextTaskMaker make) : name_(name), make_(make) {}
  // Returns the head of weights, with the names of the classes that they were trained on. Throws UsageError if they
  // have none for this task.
  virtual Head HeadIn(const config::Config& /*config*/, const weights::TrainedWeights& /*weights*/) const { return {}; }
  // Returns the head of a model that is made for data, as weights::ClassifierOf.
  virtual Head NewHead(const config::Config& /*config*/, const weights::WeightsOutline& /*weights*/,
                       const DataSizes& /*data*/) const {
    return {};
  }

 private:
  nlohmann::ordered_json ConfigJson(const config::Config& config, const DataSets& data) const;

  const char* const name_;
  const TextTaskMaker make_;
};

// Returns the head for such labels, without their names.
models::ClassifierOptions HeadFor(data::SentenceTarget target);

// Makes the kind of a task of sentences with such labels. `require_learnable`, if it is not null, is
// TaskKind::RequireLearnable in place of asking for two classes.
using LearnableCheck = void (*)(const config::Config& config, const config::BatchSizes& batch, const DataSets& data);
std::unique_ptr<const TaskKind> MakeSentenceKind(const char* name, data::SentenceTarget target, TextTaskMaker make,
                                                 LearnableCheck require_learnable);

template <typename TaskType>
std::unique_ptr<const TaskKind> SentenceKindOf(const char* name, data::SentenceTarget target,
                                               LearnableCheck require_learnable = nullptr) {
  return MakeSentenceKind(name, target, &MakeTextTask<TaskType>, require_learnable);
}

}  // namespace dtrain::tasks
