// --task=masked_lm.
#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "data/joined.h"
#include "data/outputs.h"
#include "data/sentences/sentence_tokenizer.h"
#include "data/storage.h"
#include "data/text/text_split.h"
#include "models/registry.h"
#include "trainer/config/config.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/export_tokenizer.h"
#include "trainer/tasks/feature_file.h"
#include "trainer/tasks/masked_lm_task.h"
#include "trainer/tasks/open_splits.h"
#include "trainer/tasks/predict_sentences.h"
#include "trainer/tasks/sentence_data.h"
#include "trainer/tasks/text_kinds.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
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
  MaskedLmKind() : TextKind("masked_lm", &MakeTextTask<MaskedLmTask>) {}

  bool OwnsHead(const models::ClassifierOptions* head) const override { return head == nullptr; }
  std::string HeadName(const std::string& model) const override { return models::WordHeadName(model); }
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
    if (!config.run.features.empty()) return PredictTextFeatures(config, device);
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
