#include "trainer/tasks/predict_text.h"

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "data/outputs.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/masked_lm_task.h"
#include "trainer/tasks/predict_output.h"
#include "trainer/tasks/predict_sentences.h"
#include "trainer/tasks/token_input.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::tasks {
void PredictText(const config::Config& config, at::Device device) {
  if (!config.run.features.empty()) return PredictTextFeatures(config, device);
  if (!WantsTensors(config)) {
    throw UsageError(
        "--output=" + config.run.output + " is a table, but --task=masked_lm predicts words for each token",
        "name a safetensors file for the logits");
  }
  data::RequireOtherFile(config.run.output, {config.run.input, config.model.init_weights});
  const TokenInput input = ReadTokenInput(config.run.input);
  const weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("predicting with " + weights.origin);
  const models::RobertaOptions options =
      weights::RobertaOptionsOf(config, /*vocabulary=*/0, weights::OutlineOf(weights.tensors, weights.model_config));
  RequireKnown(input, options, config.run.input);
  const auto model = weights::MakeRoberta(options, config.batch.seed, device);
  weights::ApplyInitialWeights(weights.tensors, config.model, *model);
  model->eval();
  MaskedLmTask task(model, config, device);

  at::NoGradGuard no_grad;
  const int64_t batch_size = config::ResolveBatch(config.batch, 1).batch_size;
  std::vector<at::Tensor> logits;
  for (int64_t row = 0; row < input.ids.size(0); row += batch_size) {
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.slice(0, row, row + batch_size) : all; };
    logits.push_back(task.Logits(part(input.ids), part(input.attended)).cpu());
  }
  checkpoint::WriteSafetensors(config.run.output, {{"logits", at::cat(logits)}}, {{"format", "pt"}});
}

}  // namespace dtrain::tasks
