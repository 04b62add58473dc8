// --task=masked_lm: what is learned, and the kind.
#include "trainer/tasks/masked_lm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "data/joined.h"
#include "data/outputs.h"
#include "data/sentences/sentence_tokenizer.h"
#include "data/storage.h"
#include "data/text/masking.h"
#include "data/text/text_split.h"
#include "data/text/token_rows.h"
#include "models/text_kernels.h"
#include "trainer/config/config.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/open_splits.h"
#include "trainer/tasks/predictions.h"
#include "trainer/tasks/text_kinds.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
namespace {

// Returns the smallest multiple that is at least `places`.
int64_t RoomFor(int64_t places) {
  constexpr int64_t kMultiple = 64;
  return (places + kMultiple - 1) / kMultiple * kMultiple;
}

// Fills up with places that all differ: gradients that are added to the same place would wait for each other.
void FillUp(at::Tensor& chosen, at::Tensor& answers, int64_t size, int64_t tokens) {
  const int64_t missing = size - chosen.numel();
  chosen = at::cat({chosen, at::arange(missing, at::kLong).remainder(tokens)});
  answers = at::cat({answers, at::full({missing}, data::kNoLoss, at::kLong)});
}

// Returns an upper bound.
double ExpectedTokensOfSample(const config::Config& config) {
  const auto longest = static_cast<double>(config.text.tokens_per_sample);
  if (config.text.max_tokens == 0) return longest;
  return std::min(
      longest, static_cast<double>(config.text.max_tokens) / static_cast<double>(config.batch.batch_size.value_or(1)));
}

}  // namespace

data::Batch PreparedText(data::Batch rows, const models::TextShape& shape, const TokenLayout& layout, double share) {
  at::Tensor labels = rows[data::kTokenLabels].flatten(), kept;
  const auto guessed = labels.ne(data::kNoLoss).sum().item<int64_t>();
  data::Batch prepared = PreparedSequences(rows, shape, layout, guessed, &kept);
  if (layout.unpad) labels = labels.index_select(0, kept);
  at::Tensor chosen = labels.ne(data::kNoLoss).nonzero().squeeze(1), answers = labels.index_select(0, chosen);
  if (share > 0) {
    const int64_t places = prepared[kPreparedIds].numel();
    const int64_t room = RoomFor(static_cast<int64_t>(std::ceil(share * static_cast<double>(places))) + rows.size());
    FillUp(chosen, answers, std::max(room, RoomFor(guessed)), places);
  }
  prepared.tensors[kChosen] = chosen;
  prepared.tensors[kAnswers] = answers;
  return prepared;
}

MaskedLmTask::MaskedLmTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
    : TextTask(std::move(model), config, device),
      mask_prob_(config.text.mask_prob),
      expected_share_(ExpectedTokensOfSample(config) * config.text.mask_prob),
      kernels_(device::KernelsOn(device).text) {}

double MaskedLmTask::NominalWeight(int64_t samples) const {
  return std::max(1.0, static_cast<double>(samples) * expected_share_);
}

data::Batch MaskedLmTask::PreparedTensors(data::Batch batch) const {
  // On a GPU batches of one shape share a step graph.
  return PreparedText(std::move(batch), shape(), layout(), device().is_cpu() ? 0 : mask_prob_);
}

at::Tensor MaskedLmTask::Logits(const data::Batch& batch) {
  optim::AutocastScope autocast(device().type(), precision());
  return model().Scores(model().Encode(SequencesOf(batch).sequences, batch[kChosen]),
                        device().is_cuda() ? models::TextModel::kColumnsMultiple : 1);
}

// Computes in float32, without a copy of the logits in it.
at::Tensor MaskedLmTask::LossSum(const at::Tensor& logits, const data::Batch& batch, bool training) const {
  const at::Tensor& answers = batch[kAnswers];
  if (training && kernels_ != nullptr && models::HasCrossEntropyKernels(logits)) {
    return models::CrossEntropySum(*kernels_, logits, answers, data::kNoLoss);
  }
  return at::nll_loss(at::log_softmax(logits, 1, at::kFloat), answers, {}, at::Reduction::Sum, data::kNoLoss);
}

const char* MaskedLmTask::target_name() const { return kAnswers; }

void MaskedLmTask::AddRandomLabels(data::Batch& batch, int64_t /*samples*/) const {
  const at::Tensor& ids = batch[data::kInputIds];
  const at::Tensor places = at::rand(ids.sizes()).argsort(1, /*descending=*/false).slice(1, 0, NumChosen());
  batch.tensors[data::kTokenLabels] =
      at::full(ids.sizes(), data::kNoLoss, at::kLong).scatter(1, places, ids.gather(1, places));
}

void MaskedLmTask::AddTo(at::Tensor own, const at::Tensor& logits, const data::Batch& batch) const {
  own += logits.argmax(1).eq(batch[kAnswers]).sum();
}

report::Metrics MaskedLmTask::MetricsOf(const at::Tensor& sums) const {
  report::Metrics metrics = TextTask::MetricsOf(sums);
  const double perplexity = std::exp(metrics.front().value);
  metrics.insert(metrics.begin() + 1, report::Metric{.name = "perplexity", .value = perplexity, .decimals = 2});
  return metrics;
}

report::Metrics MaskedLmTask::OwnMetrics(const double* own, double guessed) const {
  return {Percent("accuracy", 100 * *own / guessed)};
}

at::Tensor MaskedLmTask::LogitsOfRows(const at::Tensor& ids_NT, const at::Tensor& attended_NT,
                                      const at::Tensor& types_NT) {
  const at::Tensor attended = attended_NT.clone();
  attended.select(1, 0).logical_or_(attended_NT.any(1).logical_not());  // attention to nothing is undefined
  const models::Sequences sequences =
      models::Padded(ids_NT, attended.all().item<bool>() ? at::Tensor() : attended, shape(), types_NT).To(device());
  optim::AutocastScope autocast(device().type(), precision());
  const at::Tensor logits = model().Scores(model().Encode(sequences)).to(at::kFloat);
  return logits.view({ids_NT.size(0), ids_NT.size(1), -1});
}

namespace {

void RequireShards(const config::Config& config, const std::string& format) {
  const std::string what = "--data_dir=" + config.data.dir + " names several folders, ";
  if (format != data::kTokenFormat)
    throw UsageError(what + "and only token files may be spread over some", "name one folder");
  if (config.data.last_batch == "drop" || config.data.val_fraction > 0 || !config.data.val_fold.empty()) {
    throw UsageError(what + "which goes with neither --last_batch=drop nor --val_fraction", "leave them out");
  }
}

std::string RequireTokens(const config::Config& config) {
  const config::DataConfig& data = config.data;
  const std::string format = FormatOf(data);
  for (const char* const of_tokens : {data::kTokenFormat, data::kTensorFormat, data::kTextFormat}) {
    if (format == of_tokens) return format;
  }
  throw UsageError(
      "--task=masked_lm learns from tokens, but " +
          (data.format == "auto" ? data.dir + " holds none" : "--data_format=" + format + " has others"),
      "name a folder of token files (dtrain_data tokenize), of text (--data_format=text), a safetensors file with "
      "input_ids, or a table of "
      "sentences with labels that is called train.tsv, train.csv or train.jsonl");
}

data::TextOptions OptionsOf(const config::Config& config, const std::string& format) {
  data::TextOptions options{.data_dir = config.data.dir,
                            .format = format,
                            .tokens_per_sample = config.text.tokens_per_sample,
                            .sample_break = data::SampleBreakFromName(config.text.sample_break),
                            .mask_prob = config.text.mask_prob,
                            .mask_whole_words = config.text.mask_whole_words,
                            .mask_special_tokens = config.text.mask_special_tokens,
                            .vocab_size = config.text.vocab_size,
                            .seed = config.batch.seed};
  if (format == data::kTextFormat) {
    options.dictionary_dir = data::FindSentenceTokenizer(TokenizerPaths(config))->folder();
    return options;
  }
  if (options.vocab_size > 0 || data::HasDictionary(options.data_dir)) return options;
  // Rows of ids without a tokenizer: special tokens are those of the weights' one.
  const std::string& weights = config.model.init_weights;
  if (format == data::kTensorFormat && !weights.empty() && data::HasDictionary(weights))
    options.dictionary_dir = weights;
  if (config.model.config_file.empty() && weights.empty()) return options;  // OpenText will throw
  options.vocab_size = weights::TextOptionsOf(config, /*tokens=*/{}, weights::ReadOutline(weights)).shape.vocab_size;
  return options;
}

// Returns the folders of --data_dir=a:b:c, with which epochs take turns as in fairseq. A path that exists is one
// folder.
std::vector<std::string> TextFolders(const std::string& data_dir) {
  const bool is_one = data_dir.find(':') == std::string::npos || data::Exists(data_dir);
  std::vector<std::string> folders;
  std::istringstream parts(is_one ? "" : data_dir);
  for (std::string part; std::getline(parts, part, ':');) folders.push_back(part);
  return is_one ? std::vector{data_dir} : folders;
}

// TaskKind::OpenData for text. num_classes is the size of the vocabulary, <mask> included.
DataSets OpenTextSets(const config::Config& given) {
  const std::vector<std::string> folders = TextFolders(given.data.dir);
  config::Config config = given;
  config.data.dir = folders.front();  // has the dictionary and the validation sets
  const std::string format = RequireTokens(config);
  if (folders.size() > 1) RequireShards(given, format);
  const data::TextOptions options = OptionsOf(config, format);
  DataSets sets;
  const auto open = [&](const std::string& name, SplitPart part) -> DataSplit {
    const bool is_sharded = folders.size() > 1 && name == config.data.train_split;
    data::TextSplit text = is_sharded ? data::OpenShards(options, folders, name) : data::OpenText(options, name);
    if (text.too_long > 0 && part != SplitPart::kHeldOut) {
      report::LogWarning("left out: " + CountOf(text.too_long, "block") + " of " + name +
                         ", longer than --tokens_per_sample=" + std::to_string(options.tokens_per_sample));
    }
    sets.num_classes = sets.vocabulary = text.vocabulary;
    const std::string& dictionary = options.dictionary_dir.empty() ? options.data_dir : options.dictionary_dir;
    if (format == data::kTextFormat || data::HasDictionary(dictionary)) sets.special = text.special;
    return {name,
            std::move(text.source),
            std::move(text.decoder),
            std::move(text.length),
            text.tokens_per_sample,
            std::move(text.shards)};
  };
  OpenSplits(config, format, open, sets);
  return sets;
}

class MaskedLmKind : public TextKind {
 public:
  MaskedLmKind() : TextKind("masked_lm", models::HeadKind::kWords, &MakeTextTask<MaskedLmTask>) {}

  DataSets OpenData(const config::Config& config, const data::Classes& /*known*/,
                    data::SharedIndexes* /*indexes*/) const override {
    return OpenTextSets(config);
  }

  // fairseq's default: the number of steps that take 2^14 micro-batches.
  int64_t LossScaleWindow(const config::Config& config) const override {
    constexpr int64_t kMicroBatches = 1 << 14;
    const int64_t batch = config.batch.batch_size.value_or(1);
    return std::max<int64_t>(1, kMicroBatches * batch / config.batch.global_batch_size.value_or(batch));
  }

  void KeepFiles(const config::Config& config, const std::filesystem::path& run_directory) const override {
    if (config.data.format == data::kTextFormat) return KeepSentenceTokenizer(TokenizerPaths(config), run_directory);
    KeepTokenizer(TextFolders(config.data.dir).front(), run_directory);
  }

  void Predict(const config::Config& config, at::Device device) const override {
    if (!config.run.features.empty()) return PredictTextFeatures(config, data::kNoTarget, device);
    if (!WantsTensors(config)) {
      throw UsageError(
          "--output=" + config.run.output + " is a table, but --task=masked_lm predicts words for each token",
          "name a safetensors file for the logits");
    }
    TokenRows input = ReadTokenRows(config);
    const weights::TrainedWeights weights = WeightsToPredict(config);
    const auto task = MakeInferenceTask(config, weights, /*sizes=*/{}, device);
    task->module().eval();
    auto& words = dynamic_cast<MaskedLmTask&>(*task);
    PredictTokens(config, std::move(input), words.shape(), /*classes=*/nullptr,
                  [&](const TokenRows& rows) { return words.LogitsOfRows(rows.ids, rows.attended, rows.types); });
  }

  DataSizes BenchSizes(const config::Config& config) const override {
    const int64_t vocabulary = weights::BenchVocabulary(config);
    return {.num_classes = vocabulary, .vocabulary = vocabulary};
  }
};

}  // namespace

const TaskKind& MaskedLm() {
  static const MaskedLmKind kind;
  return kind;
}

}  // namespace dtrain::tasks
