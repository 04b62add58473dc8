// What the tasks of sentences have in common around their training (task_kind.h). They differ in their labels
// (data::SentenceTarget), which also tell the head, and in their Task (sentence_task.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/sentences/sentence_split.h"
#include "models/text_model.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {

// Returns the head for such labels, without their names.
models::ClassifierOptions HeadFor(data::SentenceTarget target);

class SentenceKind : public TaskKind {
 public:
  const char* name() const override { return name_; }
  bool Takes(const std::string& model) const override;
  bool predicts_number() const override { return target_ == data::SentenceTarget::kNumber; }
  bool predicts_several() const override { return target_ == data::SentenceTarget::kSeveral; }
  bool OwnsHead(const models::ClassifierOptions* head) const override;
  std::string HeadName(const std::string& model) const override;
  SampleSize SizeOf(const config::Config& config) const override;
  DataSets OpenData(const config::Config& config, const data::Classes& known,
                    data::SharedIndexes* indexes) const override;
  data::Classes ClassesOf(const config::Config& config, const weights::TrainedWeights& weights) const override;
  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override;
  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const weights::TrainedWeights& weights,
                                          const DataSizes& sizes, at::Device device) const override;
  void RequireLearnable(const config::Config& config, const config::BatchSizes& batch,
                        const DataSets& data) const override;
  nlohmann::json Identity(const config::Config& config, const DataSets& data) const override;
  void AddMetadata(checkpoint::Metadata& metadata, const config::Config& config, const DataSets& data) const override;
  void KeepFiles(const config::Config& config, const std::filesystem::path& run_directory) const override;
  void Predict(const config::Config& config, at::Device device) const override;
  void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const override;
  DataSizes BenchSizes(const config::Config& config) const override;

 protected:
  SentenceKind(const char* name, data::SentenceTarget target) : name_(name), target_(target) {}
  virtual std::unique_ptr<Task> TaskWith(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                         at::Device device) const = 0;

 private:
  // Returns the head of weights, with the names of the classes that they were trained on. Throws UsageError if they
  // have none for this task.
  models::ClassifierOptions HeadIn(const config::Config& config, const weights::TrainedWeights& weights) const;
  // Returns the head of a model that is made, as weights::ClassifierOf.
  models::ClassifierOptions NewHead(const config::Config& config, const weights::WeightsOutline& weights,
                                    std::vector<std::string> labels) const;
  std::shared_ptr<models::TextModel> Made(const config::Config& config, const DataSizes& sizes,
                                          const weights::WeightsOutline& weights, std::vector<std::string> labels,
                                          at::Device device) const;
  nlohmann::ordered_json ConfigJson(const config::Config& config, const DataSets& data) const;

  // The encoder alone makes vectors of texts.
  bool has_head() const { return target_ != data::SentenceTarget::kTexts; }

  const char* const name_;
  const data::SentenceTarget target_;
};

template <typename TaskType>
class SentenceKindOf : public SentenceKind {
 public:
  SentenceKindOf(const char* name, data::SentenceTarget target) : SentenceKind(name, target) {}

 protected:
  std::unique_ptr<Task> TaskWith(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                 at::Device device) const override {
    return std::make_unique<TaskType>(std::move(model), config, device);
  }
};

}  // namespace dtrain::tasks
