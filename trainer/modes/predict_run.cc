// --mode=predict: writes a table with the likeliest classes of image files, or the logits of tensors. The latter
// bypasses all decoding, so that the model can be compared with other frameworks.
#include <ATen/ATen.h>

#include <filesystem>

#include "data/outputs.h"
#include "models/registry.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/device/device.h"
#include "trainer/errors.h"
#include "trainer/modes/predict_images.h"
#include "trainer/modes/predict_text.h"
#include "trainer/modes/run.h"
#include "trainer/report/log.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/make_task.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::loop {
namespace {

// Returns the tensor `images` of the file, float32 N×3×H×W. Throws UsageError if there is no file, else DataError.
at::Tensor ReadImages(const std::string& path) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) {
    throw UsageError("--input=" + path + " is not a file",
                     "name a safetensors file with the tensor images; for images, --output=FILE.csv or FILE.jsonl");
  }
  for (const auto& [name, tensor] : checkpoint::ReadSafetensors(path).tensors) {
    if (name != "images") continue;
    if (tensor.scalar_type() == at::kFloat && tensor.dim() == 4 && tensor.size(1) == 3 && tensor.size(0) > 0)
      return tensor;
    throw DataError("images in " + path + " is not float32 N×3×H×W", "normalise the images and store them as float32");
  }
  throw DataError("no tensor images in " + path, "store the images under that name: float32 N×3×H×W, normalised");
}

}  // namespace

void Predict(const RunContext& context) {
  const config::Config& config = context.config;
  if (context.launch.world_size > 1) {
    throw UsageError("--mode=predict runs on one rank", "leave out --nproc_per_node and the launcher");
  }
  distributed::UseShareOfCores(context.launch);
  const at::Device device = distributed::DeviceOf(context.launch, config.ranks.backend);
  report::InitializeLogging(context.launch.rank, context.launch.world_size, /*log_directory=*/"");
  for (const std::string& note : context.notes) report::LogInfo(note);
  const bool is_text = models::IsRoberta(config.model.name);
  if (is_text && WantsTable(config)) {
    throw UsageError(
        "--output=" + config.run.output + " is a table for images, but --model=" + config.model.name + " reads text",
        "name a safetensors file for the logits");
  }
  if (!is_text && WantsTable(config)) return PredictImages(config, device);
  data::RequireOtherFile(config.run.output, {config.run.input, config.model.init_weights});
  if (is_text) return PredictText(config, device);
  const at::Tensor images = ReadImages(config.run.input);
  const TrainedWeights weights = ReadInferenceWeights(config);
  report::LogInfo("predicting with " + weights.origin);
  const auto model = MakeInferenceModel(config, weights, device);
  model->eval();
  ImageTask task(model, config, device);

  at::NoGradGuard no_grad;
  std::vector<at::Tensor> logits;
  for (const at::Tensor& chunk : images.split(config::ResolveBatch(config.batch, 1).batch_size)) {
    logits.push_back(task.Logits(chunk).cpu());
  }
  checkpoint::Metadata metadata = {{"format", "pt"}};
  AddTo(metadata, weights.classes);
  checkpoint::WriteSafetensors(config.run.output, {{"logits", at::cat(logits)}}, metadata);
}

}  // namespace dtrain::loop
