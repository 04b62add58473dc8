// What the tasks of images have in common around their training (task_kind.h). They differ in their labels
// (data::LabelKind) and in their Task (image_task.h).
#pragma once

#include <memory>
#include <utility>

#include "data/record_source.h"
#include "models/image_model.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::tasks {

class ImageKind : public TaskKind {
 public:
  const char* name() const override { return name_; }
  bool predicts_number() const override { return labels_ == data::LabelKind::kNumbers; }
  bool predicts_several() const override { return labels_ == data::LabelKind::kSeveral; }
  bool Takes(const std::string& model) const override;
  std::string HeadName(const std::string& model) const override;
  SampleSize SizeOf(const config::Config& config) const override { return {"image_size", config.image.size}; }
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
  void Predict(const config::Config& config, at::Device device) const override;
  void Export(weights::TrainedWeights weights, const config::Config& config, bool to_file) const override;
  DataSizes BenchSizes(const config::Config& config) const override;

 protected:
  ImageKind(const char* name, data::LabelKind labels) : name_(name), labels_(labels) {}
  // `sizes` are those of the model, with names and scale of the outputs as far as they are known.
  virtual std::unique_ptr<ImageTask> TaskWith(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes,
                                              const config::Config& config, at::Device device) const = 0;

 private:
  const char* const name_;
  const data::LabelKind labels_;
};

// Of tasks that need only the number of outputs.
template <typename TaskType>
class ImageKindOf : public ImageKind {
 public:
  ImageKindOf(const char* name, data::LabelKind labels) : ImageKind(name, labels) {}

 protected:
  std::unique_ptr<ImageTask> TaskWith(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes,
                                      const config::Config& config, at::Device device) const override {
    return std::make_unique<TaskType>(std::move(model), sizes.num_classes, config, device);
  }
};

}  // namespace dtrain::tasks
