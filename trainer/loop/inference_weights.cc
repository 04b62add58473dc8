// Any of the three places may be named; the most explicit one wins.
#include "trainer/loop/inference_weights.h"

#include "models/registry.h"
#include "trainer/checkpoint/store.h"
#include "trainer/errors.h"
#include "trainer/loop/image_task.h"
#include "trainer/loop/initial_weights.h"
#include "trainer/loop/roberta_model.h"
#include "trainer/loop/training_state.h"
#include "trainer/report/log.h"

namespace dtrain::loop {

checkpoint::SafetensorsContent ReadInferenceWeights(const config::Config& config) {
  if (!config.model.init_weights.empty()) return ReadInitialWeights(config.model);
  const bool path_given = config.run.resume != "auto" && config.run.resume != "none";
  const std::string path = path_given ? config.run.resume : config.run.dir;
  if (path.empty()) {
    throw UsageError("--mode=" + config.run.mode + " has no weights",
                     "name a file with --init_weights, or a run with --run_dir");
  }
  return ReadCheckpointWeights(path);
}

checkpoint::SafetensorsContent ReadCheckpointWeights(const std::string& path) {
  const auto opened = checkpoint::OpenCheckpoint(path, [](const auto& directory, const std::string& reason) {
    report::LogWarning("checkpoint " + directory.string() + " cannot be used: " + reason);
  });
  checkpoint::Snapshot snapshot = checkpoint::Load(opened);
  checkpoint::SafetensorsContent content{.tensors = std::move(snapshot.model), .metadata = {}};
  const nlohmann::json run =
      snapshot.state.is_object() ? snapshot.state.value("run", nlohmann::json()) : nlohmann::json();
  if (run.is_object() && run.contains(kModelShapeKey)) content.metadata[kModelConfigKey] = run[kModelShapeKey].dump();
  return content;
}

std::shared_ptr<models::ImageModel> MakeInferenceModel(const config::Config& config,
                                                       const checkpoint::NamedTensors& weights, at::Device device) {
  const std::string& name = config.model.name;
  const int64_t num_classes = config.model.num_classes > 0 ? config.model.num_classes : NumClassesOf(weights, name);
  if (num_classes == 0) {
    throw UsageError("the weights have no classifier " + models::ClassifierWeightName(name),
                     "give --num_classes, or weights of a whole model");
  }
  auto model = MakeModel(config, num_classes, device);
  ApplyInitialWeights(weights, config.model, *model);
  return model;
}

}  // namespace dtrain::loop
