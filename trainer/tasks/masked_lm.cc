// --task=masked_lm.
#include <algorithm>

#include "models/registry.h"
#include "trainer/tasks/export_text.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/tasks/masked_lm_task.h"
#include "trainer/tasks/predict_text.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/tasks/text_data.h"
#include "trainer/weights/freeze.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {

class MaskedLmKind : public TaskKind {
 public:
  const char* name() const override { return "masked_lm"; }
  bool Takes(const std::string& model) const override { return models::ReadsText(model); }
  std::string HeadName(const std::string& /*model*/) const override { return "lm_head"; }
  SampleSize SizeOf(const config::Config& config) const override {
    return {"tokens_per_sample", config.text.tokens_per_sample};
  }

  DataSets OpenData(const config::Config& config, const data::Classes& /*known*/,
                    data::IndexParcel* /*parcel*/) const override {
    return OpenTextSets(config);
  }

  std::unique_ptr<Task> MakeTask(const config::Config& config, const DataSizes& sizes,
                                 at::Device device) const override {
    const auto options = RobertaOptionsOf(config, sizes.vocabulary, ReadOutline(config.model.init_weights));
    auto model = MakeRoberta(options, config.batch.seed, device);
    if (config.precision.memory_efficient_fp16) model->to(at::kHalf);
    Freeze(config.model, HeadName(config.model.name), *model);
    return std::make_unique<MaskedLmTask>(std::move(model), config, device);
  }

  std::unique_ptr<Task> MakeInferenceTask(const config::Config& config, const TrainedWeights& weights,
                                          const DataSizes& sizes, at::Device device) const override {
    const auto options = RobertaOptionsOf(config, sizes.vocabulary, OutlineOf(weights.tensors, weights.model_config));
    auto task = std::make_unique<MaskedLmTask>(MakeRoberta(options, config.batch.seed, device), config, device);
    ApplyInitialWeights(weights.tensors, config.model, task->module());
    return task;
  }

  // fairseq's default: the number of steps that take 2^14 micro-batches.
  int64_t LossScaleWindow(const config::Config& config) const override {
    constexpr int64_t kMicroBatches = 1 << 14;
    const int64_t batch = config.batch.batch_size.value_or(1);
    return std::max<int64_t>(1, kMicroBatches * batch / config.batch.global_batch_size.value_or(batch));
  }

  nlohmann::json Identity(const config::Config& config, const DataSets& data) const override {
    nlohmann::json shape =
        models::ToJson(RobertaOptionsOf(config, data.vocabulary, ReadOutline(config.model.init_weights)));
    for (const char* may_change : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) shape.erase(may_change);
    return {{kModelShapeKey, shape},
            {"tokens_per_sample", config.text.tokens_per_sample},
            {"max_tokens", config.text.max_tokens},
            {"sample_break", config.text.sample_break}};
  }

  void AddMetadata(checkpoint::Metadata& metadata, const config::Config& config, const DataSets& data) const override {
    metadata[kModelConfigKey] = ModelConfigOf(config, data.vocabulary);
  }

  void KeepFiles(const config::Config& config, const std::filesystem::path& run_directory) const override {
    KeepTokenizer(TextFolders(config.data.dir).front(), run_directory);
  }

  void Predict(const config::Config& config, at::Device device) const override { PredictText(config, device); }

  void Export(TrainedWeights weights, const config::Config& config, bool to_file) const override {
    ExportText(std::move(weights), config, to_file);
  }

  DataSizes BenchSizes(const config::Config& config) const override {
    const int64_t vocabulary = BenchVocabulary(config);
    return {.num_classes = vocabulary, .vocabulary = vocabulary};
  }
};

}  // namespace

const TaskKind& MaskedLm() {
  static const MaskedLmKind kind;
  return kind;
}

}  // namespace dtrain::loop
