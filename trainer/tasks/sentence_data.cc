#include "trainer/tasks/text_kinds.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/formats/labels.h"
#include "data/formats/table_writer.h"
#include "data/joined.h"
#include "data/storage.h"
#include "data/text/token_rows.h"
#include "data/whole_number.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/open_splits.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
namespace {

void RequireSentences(const config::Config& config) {
  const config::DataConfig& data = config.data;
  const std::string format = FormatOf(data);
  if (format == data::kSentenceFormat) return;
  const std::string val_split = config::ValSplits(data).front();
  const std::string found = data.format == "auto"
                                ? data.dir + " holds none of split " + data.train_split + " or " + val_split
                                : "--data_format=" + format + " has none";
  const bool evaluates = config.run.mode == "eval";
  throw UsageError(
      "--task=" + config.run.task + " takes sentences with labels, but " + found,
      (evaluates ? "name an existing split with --val_split, or a folder with " + val_split
                 : "name a folder with " + data.train_split) +
          ".tsv, .csv, .jsonl or .conll (a Parquet file is to be written as one of these), with folders of "
          "texts for each class, or with fairseq's binarised sentences");
}

// Opens the splits one after another; what the first one says of classes and pairs holds for the others.
class SentenceOpener {
 public:
  // `scored`: whether the rows of a training split that are several texts have scores; empty: if there are any.
  SentenceOpener(data::SentenceOptions options, const data::Classes& known, std::optional<bool> scored)
      : options_(std::move(options)), outputs_(known.count), scored_(scored) {
    options_.classes = known.names;
    options_.is_pair = known.pairs;
  }

  DataSplit Open(const std::string& name, SplitPart part) {
    if (part == SplitPart::kHeldOut)
      return {name, nullptr, data::DecoderOf(options_), nullptr, options_.tokens_per_sample};
    options_.scored = part == SplitPart::kTrain ? scored_ : std::nullopt;
    data::SentenceSplit split = data::OpenSentences(options_, name);
    if (const auto numbers = NumbersBehind(split); !numbers.empty()) {
      options_.classes = numbers;
      split = data::OpenSentences(options_, name);
    }
    WarnOfCutRows(split, name);
    if (split.only_target) SayThatNothingVaries(*split.only_target, name, part);
    const double scale = split.score_scale.value_or(1);
    report::LogInfo(name + ": " + split.columns + (scale == 1 ? "" : " divided by " + data::ShortestText(scale)));
    if (split.score_scale) options_.score_scale = scale;
    options_.texts_per_row = split.texts_per_row;
    options_.has_scores = split.score_scale.has_value();
    options_.is_pair = split.is_pair;
    options_.format = split.format;
    options_.classes = split.source->class_names();
    vocabulary_ = std::max(vocabulary_, split.vocabulary);
    RequireAsManyClasses(name);
    return {.name = name,
            .source = std::move(split.source),
            .decoder = std::move(split.decoder),
            .length = std::move(split.length),
            .tokens_per_sample = split.tokens_per_sample,
            .texts = std::move(split.texts),
            .groups = std::move(split.groups),
            .words = std::move(split.words)};
  }

  int64_t vocabulary() const { return vocabulary_; }
  const data::RowFormat& format() const { return options_.format; }
  std::optional<bool> is_pair() const { return options_.is_pair; }

 private:
  // If weights know their classes only by number, and this split writes its labels as such numbers, returns the labels
  // of all classes: some may not occur in the split. Otherwise returns nothing.
  std::vector<std::string> NumbersBehind(const data::SentenceSplit& split) const {
    if (outputs_ == 0 || !options_.classes.empty()) return {};
    const std::vector<std::string>& seen = split.source->class_names();
    const bool are_numbers = std::ranges::all_of(seen, [this](const std::string& name) {
      const auto number = data::WholeNumber(name);
      return number && *number >= 0 && *number < outputs_;
    });
    std::vector<std::string> names;
    for (int64_t label = 0; are_numbers && label < outputs_; ++label) names.push_back(std::to_string(label));
    return names == seen ? std::vector<std::string>() : names;
  }

  static void SayThatNothingVaries(float target, const std::string& name, SplitPart part) {
    const std::string what = "all targets of " + name + " are " + data::ShortestText(target);
    if (part == SplitPart::kTrain) {
      throw DataError(what + ", so that nothing is learned", "check the column of the targets (--label_column)");
    }
    report::LogWarning(what + ": its pearson and spearman are no numbers");
  }

  void RequireAsManyClasses(const std::string& name) const {
    const auto classes = static_cast<int64_t>(options_.classes.size());
    if (outputs_ == 0 || classes == 0 || classes == outputs_) return;
    throw DataError("the weights know " + CountOf(outputs_, "class") + " without names, but " + name + " has " +
                        std::to_string(classes),
                    "list the classes in the weights' order in classes.txt beside the data, one per line");
  }

  data::SentenceOptions options_;
  const int64_t outputs_;  // classes of the weights that are evaluated; 0: unknown
  const std::optional<bool> scored_;
  int64_t vocabulary_ = 0;
};

}  // namespace

data::SentenceOptions SentenceOptionsOf(const config::Config& config, data::SentenceTarget target) {
  return {.data_dir = config.data.dir,
          .text_column = config.text.text_column,
          .pair_column = config.text.pair_column,
          .label_column = config.data.label_column,
          .target = target,
          .label_separator = config.data.label_separator,
          .negative_column = config.text.negative_column,
          .score_scale = config.text.score_scale,
          .tokens_per_sample = config.text.tokens_per_sample,
          .tokenizer_paths = TokenizerPaths(config),
          .keep_texts = !config.run.predictions.empty(),
          .group_column = config.data.group_column,
          .csv_delimiter = data::DelimiterNamed(config.data.csv_delimiter)};
}

bool HasNumbers(const DataSplit& split) {
  const std::vector<data::Field> fields = split.decoder->fields(/*size=*/0);
  return std::ranges::find(fields, data::kSentenceTargets, &data::Field::name) != fields.end();
}

void WarnOfCutRows(const data::SentenceSplit& split, const std::string& name) {
  if (split.cut_sentences > 0) {
    report::LogWarning("longer than --tokens_per_sample=" + std::to_string(split.tokens_per_sample) + ": " +
                       CountOf(split.cut_sentences, "sentence") + " of " + name +
                       ", read in several rows, which overlap; no word is left out");
  }
  if (split.truncated > 0) {
    report::LogWarning("truncated: " + CountOf(split.truncated, "row") + " of " + name +
                       ", longer than --tokens_per_sample=" + std::to_string(split.tokens_per_sample));
  }
  if (split.words && split.words->left_out > 0) {
    report::LogWarning("left out: " + CountOf(split.words->left_out, "word") + " of " + name +
                       " for which the tokenizer has no token");
  }
  if (split.left_out > 0)
    report::LogWarning("left out: " + CountOf(split.left_out, "row") + " of " + name + " without a label");
}

DataSets OpenSentenceSets(const config::Config& config, data::SentenceTarget target, const data::Classes& known) {
  RequireSentences(config);
  data::SentenceOptions options = SentenceOptionsOf(config, target);
  if (config.run.mode == "train" && !config.model.init_weights.empty()) {
    options.class_order =
        weights::TextHeadIn(weights::ReadOutline(config.model.init_weights), config.model.name).labels;
  }
  const std::string& loss = config.text.embedding_loss;
  SentenceOpener opener(std::move(options), known, loss == "auto" ? std::nullopt : std::optional(loss == "cosine"));
  DataSets sets;
  const auto open = [&](const std::string& name, SplitPart part) { return opener.Open(name, part); };
  OpenSplits(config, data::kSentenceFormat, open, sets);
  sets.vocabulary = opener.vocabulary();
  sets.special = opener.format().special;
  sets.classes = (sets.train ? sets.train : sets.val)->source->classes();
  sets.classes.pairs = opener.is_pair();
  sets.num_classes = target.has(data::LabelKind::kNumbers) ? 1 : sets.classes.count;
  return sets;
}

std::vector<std::string> TokenizerPaths(const config::Config& config) {
  const std::string run = weights::RunOf(weights::NamedRun(config)).string();
  const std::string binarised = config.data.dir + "/input0";  // where fairseq's binarised data has its dictionary
  const std::string data = data::IsFolder(binarised) ? binarised : config.data.dir;
  if (config.run.mode != "train") return {config.model.init_weights, run, data};
  std::vector<std::string> paths = {config.model.init_weights, data, run};
  if (run != config.run.dir) paths.push_back(config.run.dir);
  paths.push_back(config.model.config_file);  // the file lies beside its tokenizer, perhaps
  return paths;
}

bool HoldsSentences(const config::DataConfig& config) {
  return !config.dir.empty() && FormatOf(config) == data::kSentenceFormat;
}

models::HeadKind HeadHeld(const config::Config& config) {
  const data::SentenceOptions options = SentenceOptionsOf(config, data::kNumberTarget);
  const std::string split =
      config.run.mode == "train" ? config.data.train_split : config::ValSplits(config.data).front();
  if (data::LooksLikeWords(options, split)) return models::HeadKind::kTokens;
  return data::LooksLikeRegression(options, split) ? models::HeadKind::kNumber : models::HeadKind::kClasses;
}

}  // namespace dtrain::tasks
