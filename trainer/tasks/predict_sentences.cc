#include "trainer/tasks/predict_sentences.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/joined.h"
#include "data/pipeline/device_feed.h"
#include "data/progress.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "data/text/utf8.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/optim/precision.h"
#include "trainer/report/csv.h"
#include "trainer/report/log.h"
#include "trainer/tasks/feature_file.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/prediction_table.h"
#include "trainer/tasks/sentence_data.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/tasks/text_kinds.h"
#include "trainer/tasks/text_task.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
namespace {

// Runs a trained model on rows.
class SentencePredictor {
 public:
  SentencePredictor(const config::Config& config, const weights::TrainedWeights& weights, at::Device device)
      : task_(KindOf(config).MakeInferenceTask(config, weights, /*sizes=*/{}, device)) {
    task_->module().eval();
  }

  const models::TextShape& shape() const { return dynamic_cast<TextTask&>(*task_).shape(); }

  struct Prediction {
    at::Tensor logits;      // float32 on the host: a row for each row, or for each word with a label
    at::Tensor words = {};  // int64: the numbers of these words
  };
  Prediction Of(const data::Batch& rows) {
    const at::NoGradGuard no_grad;
    auto& task = dynamic_cast<TextTask&>(*task_);
    const data::Batch prepared = task.Prepared(rows);
    const auto places = prepared.tensors.find(kWordPlaces);
    Prediction prediction{.logits = task.Logits(data::CopyToDevice(prepared, task.device())).cpu()};
    if (places == prepared.tensors.end()) return prediction;
    const at::Tensor scored = prepared[data::kSentenceLabels].ne(data::kNoLoss).nonzero().squeeze(1);
    return {.logits = prediction.logits.index_select(0, scored), .words = places->second.index_select(0, scored)};
  }

 private:
  const std::unique_ptr<Task> task_;
};

// The names of the classes, or LABEL_0, LABEL_1, … if they are unknown; none for a regression.
std::vector<std::string> LabelsOf(const config::Config& config, const weights::TrainedWeights& weights) {
  const data::Classes classes = KindOf(config).ClassesOf(config, weights);
  return classes.names.empty() ? models::NumberedLabels(classes.count) : classes.names;
}

int64_t CountUnreadable(const data::SentenceSplit& split) {
  return std::ranges::count_if(split.texts, [](const auto& text) { return !text.error.empty(); });
}

// Opens the texts in --input for a model that was trained on `pairs` or on single texts, if that matters and is known.
// Throws UsageError, also if their tokens cannot be those of `weights`.
data::SentenceSplit OpenTexts(const config::Config& config, const weights::TrainedWeights& weights,
                              std::optional<bool> pairs, data::SentenceTarget target) {
  const auto outline = weights::OutlineOf(weights.tensors, weights.model_config);
  data::SentenceOptions options = SentenceOptionsOf(config, target);
  options.tokens_per_sample = std::min(options.tokens_per_sample,
                                       weights::TextOptionsOf(config, /*tokens=*/{}, outline).shape.longest_sequence);
  options.kept_columns = config.run.features.empty() ? config.text.keep_columns : "none";
  if (pairs == false) options.is_pair = false;
  data::SentenceSplit split = data::OpenUnlabelled(options, config.run.input);
  if (!split.texts.empty() && CountUnreadable(split) == split.source->size()) {
    throw DataError("no row of --input=" + config.run.input + " can be read; the first: " + split.texts.front().error,
                    "check the file and its columns (--text_column, --csv_delimiter)");
  }
  if (pairs == true && !split.is_pair) {
    report::LogWarning(config.run.input + " has single texts, but the model was trained on pairs");
  }
  weights::TextOptionsOf(config, {split.vocabulary, split.format.special}, outline);  // throws for another tokenizer
  WarnOfCutRows(split, config.run.input);
  return split;
}

// Calls `predict` for a batch of rows (RowsOf) until all have had their turn.
void ForBatches(const data::SentenceSplit& split, const config::Config& config,
                const std::function<void(const data::Batch& rows)>& predict) {
  const int64_t rows = split.source->size(), batch_size = config::ResolveBatch(config.batch, 1).batch_size;
  data::Progress progress("predicting " + config.run.input, "texts", rows);
  for (int64_t first = 0; first < rows; first += batch_size) {
    const int64_t end = std::min(rows, first + batch_size);
    predict(RowsOf(split, first, end));
    progress.Add(end - first, /*bytes=*/0);
  }
}

// Says how many rows were predicted and, as for images, how many could not be read.
void PrintCount(const config::Config& config, const data::SentenceSplit& split) {
  const bool has_lines = split.words && !split.words->lines.empty();
  const int64_t rows = has_lines     ? static_cast<int64_t>(split.words->lines.size())
                       : split.words ? split.words->words()
                                     : split.source->size();
  const int64_t bad = CountUnreadable(split);
  if (bad > 0) {
    const auto first = std::ranges::find_if(split.texts, [](const auto& text) { return !text.error.empty(); });
    report::LogWarning(CountOf(bad, "row") +
                       " could not be read; the reasons are in the rows' errors, the first: " + first->error);
  }
  const bool is_json = config.report.log_format == "json";
  std::string line = (is_json ? "{\"predicted\":" : "predicted=") + std::to_string(rows - bad);
  if (bad > 0) line += (is_json ? ",\"unreadable\":" : " unreadable=") + std::to_string(bad);
  std::printf("%s%s\n", line.c_str(), is_json ? "}" : "");
}

// ---- Words: they are gathered first, because the rows of a long sentence share its words ----

struct TaggedWord {
  std::string tag;
  double probability = 0;
};

// An entity in a line of text; its place is in characters.
struct FoundEntity {
  std::string type;
  double score = 0;  // the mean of its tokens
  int64_t begin = 0, end = 0;
};

std::vector<TaggedWord> TagWords(const config::Config& config, const data::SentenceSplit& split,
                                 const std::vector<std::string>& labels, SentencePredictor& predictor) {
  std::vector<TaggedWord> tagged(static_cast<size_t>(split.words->words()));
  ForBatches(split, config, [&](const data::Batch& rows) {
    const auto [logits, words] = predictor.Of(rows);
    const at::Tensor best = LikeliestClasses(logits, 1), probability = at::softmax(logits, 1).gather(1, best);
    for (int64_t i = 0; i < words.numel(); ++i) {
      tagged[static_cast<size_t>(words[i].item<int64_t>())] = {labels[static_cast<size_t>(best[i].item<int64_t>())],
                                                               probability[i].item<double>()};
    }
  });
  return tagged;
}

// Splits a tag as transformers does when it groups entities: what begins with neither B- nor I- goes on.
std::pair<bool, std::string> BeginAndType(const std::string& tag) {
  const bool begins = tag.starts_with("B-");
  return {begins, begins || tag.starts_with("I-") ? tag.substr(2) : tag};
}

// `first` and `end` are numbers of words.
std::vector<FoundEntity> EntitiesOf(const std::vector<TaggedWord>& words, const std::vector<data::WordPlace>& places,
                                    size_t first, size_t end) {
  std::vector<FoundEntity> entities;
  while (first < end) {
    const std::string type = BeginAndType(words[first].tag).second;
    size_t last = first;
    double sum = words[first].probability;
    while (last + 1 < end && BeginAndType(words[last + 1].tag) == std::pair(false, type))
      sum += words[++last].probability;
    const size_t dash = words[first].tag.find('-');
    const std::string name = dash == std::string::npos ? words[first].tag : words[first].tag.substr(dash + 1);
    if (type != "O")
      entities.push_back({name, sum / static_cast<double>(last + 1 - first), places[first].begin, places[last].end});
    first = last + 1;
  }
  return entities;
}

// Returns characters [begin, end) of UTF-8 text.
std::string Characters(const std::string& text, int64_t begin, int64_t end) {
  std::string part;
  int64_t character = -1;
  for (const char byte : text) {
    if (data::BeginsCharacter(byte)) ++character;
    if (character >= begin && character < end) part += byte;
  }
  return part;
}

std::string LinesOfWords(const std::vector<TaggedWord>& tagged, const data::SplitWords& words, bool is_csv) {
  std::string lines = is_csv ? "sentence,line,word,prediction,probability\n" : "";
  size_t sentence = 0;
  for (size_t word = 0; word < tagged.size(); ++word) {
    while (words.ends[sentence] <= static_cast<int64_t>(word)) ++sentence;
    const auto& [tag, probability] = tagged[word];
    lines += (is_csv ? report::CsvText : report::JsonText)({{"sentence", sentence + 1},
                                                            {"line", words.places[word].line},
                                                            {"word", words.texts[word]},
                                                            {"prediction", tag},
                                                            {"probability", report::JsonNumber(probability)}});
  }
  return lines;
}

std::string LinesOfEntities(const std::vector<TaggedWord>& tagged, const data::SplitWords& words, bool is_csv) {
  std::string lines = is_csv ? "line,entity_group,score,word,start,end\n" : "";
  size_t first = 0;
  for (size_t number = 0; number < words.lines.size(); ++number) {
    const std::string& text = words.lines[number];
    const auto end = static_cast<size_t>(words.ends[number]);
    nlohmann::ordered_json found = nlohmann::ordered_json::array();
    for (const FoundEntity& entity : EntitiesOf(tagged, words.places, first, end)) {
      found.push_back({{"entity_group", entity.type},
                       {"score", report::JsonNumber(entity.score)},
                       {"word", Characters(text, entity.begin, entity.end)},
                       {"start", entity.begin},
                       {"end", entity.end}});
      if (is_csv) lines += std::to_string(number + 1) + "," + report::CsvText(found.back());
    }
    if (!is_csv) lines += report::JsonText({{"text", text}, {"entities", found}});
    first = end;
  }
  return lines;
}

void PredictWords(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  SentencePredictor predictor(config, weights, device);
  const data::SentenceSplit split = OpenTexts(config, weights, /*pairs=*/std::nullopt, data::kWordTarget);
  const std::vector<TaggedWord> tagged = TagWords(config, split, LabelsOf(config, weights), predictor);
  const bool is_csv = config.run.output.ends_with(".csv");
  const auto lines = split.words->lines.empty() ? &LinesOfWords : &LinesOfEntities;
  checkpoint::WriteAtomically(config.run.output, [&](checkpoint::DurableFile& file) {
    if (is_csv && config.run.csv_bom) file.Append(report::kByteOrderMark);
    file.Append(lines(tagged, *split.words, is_csv));
  });
  PrintCount(config, split);
}

// ---- Sentences ----

void PredictTable(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  SentencePredictor predictor(config, weights, device);
  const data::SentenceSplit split =
      OpenTexts(config, weights, KindOf(config).ClassesOf(config, weights).pairs, data::kNoTarget);
  const bool is_csv = config.run.output.ends_with(".csv");
  std::vector<std::string> names = LabelsOf(config, weights), texts = {"text"};
  if (split.is_pair) texts.push_back("pair");
  if (KindOf(config).labels() == data::LabelKind::kNumbers) names = {"prediction"};
  const Outcome outcome = OutcomeOf(config, static_cast<int64_t>(names.size()));
  const PredictionTable table(is_csv, texts, outcome, std::move(names), split.kept_columns);
  checkpoint::WriteAtomically(config.run.output, [&](checkpoint::DurableFile& file) {
    if (is_csv && config.run.csv_bom) file.Append(report::kByteOrderMark);
    file.Append(table.Header());
    ForBatches(split, config, [&](const data::Batch& rows) {
      const at::Tensor logits = predictor.Of(rows).logits;
      const auto first = rows["index"][0].item<int64_t>();
      for (int64_t i = 0; i < rows.size(); ++i) {
        const data::SentenceText& text = split.texts[static_cast<size_t>(first + i)];
        std::vector<std::string> cells = {text.text};
        if (split.is_pair) cells.push_back(text.pair);
        file.Append(table.Line(cells, logits[i], text.error, text.kept));
      }
    });
  });
  PrintCount(config, split);
}

void PredictRows(config::Config config, at::Device device, bool of_tokens) {
  TokenRows input = ReadTokenRows(config);
  config.text.unpad = false;  // tokens that have labels keep their places
  const weights::TrainedWeights weights = WeightsToPredict(config);
  SentencePredictor predictor(config, weights, device);
  const data::Classes classes = KindOf(config).ClassesOf(config, weights);
  PredictTokens(config, std::move(input), predictor.shape(), &classes, [&](const TokenRows& some) {
    const int64_t count = some.ids.size(0);
    data::Batch rows;
    rows.tensors = {
        {data::kInputIds, some.ids}, {data::kAttentionMask, some.attended.to(at::kByte)}, {"index", at::arange(count)}};
    if (some.types.defined()) rows.tensors[data::kTokenTypes] = some.types;
    if (of_tokens) {
      rows.tensors[data::kSentenceLabels] = at::zeros_like(some.ids);
      rows.tensors[data::kFirstWords] = at::zeros({count}, at::kLong);
    }
    const at::Tensor logits = predictor.Of(rows).logits;
    return of_tokens ? logits.view({count, some.ids.size(1), -1}) : logits;
  });
}

}  // namespace

void PredictTextFeatures(const config::Config& config, at::Device device) {
  weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("computing features with " + weights.origin);
  const models::ClassifierOptions no_head = HeadFor(data::kTextsTarget);
  const bool are_vectors = KindOf(config).OwnsHead(&no_head);
  const auto outline = weights::OutlineOf(weights.tensors, weights.model_config);
  const auto model = weights::MakeTextModel(weights::TextOptionsOf(config, /*tokens=*/{}, outline), no_head,
                                            config.batch.seed, device);
  const models::TextShape& shape = model->shape();
  const std::string& backbone = models::FamilyOf(config.model.name).text.backbone;
  std::erase_if(weights.tensors, [&](const auto& item) { return !item.first.starts_with(backbone + "."); });
  weights::ApplyInitialWeights(weights.tensors, config.model, *model);
  model->eval();
  const optim::Precision& precision = optim::PrecisionNamed(config.precision.name);
  optim::AllowTf32(precision.tf32);
  const at::NoGradGuard no_grad;
  const data::SentenceSplit split = OpenTexts(config, weights, are_vectors ? std::optional(false) : std::nullopt,
                                              are_vectors ? data::kTextsTarget : data::kNoTarget);
  WriteFeatures(config.run.features, split.source->size(), shape.hidden_size, [&](const AppendFeatures& append) {
    ForBatches(split, config, [&](const data::Batch& rows) {
      const auto by_text = [](const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); };
      const at::Tensor ids_NT = by_text(rows[data::kInputIds]),
                       attended_NT = by_text(rows[data::kAttentionMask]).to(at::kBool);
      const auto first = rows["index"][0].item<int64_t>();
      const auto types = rows.tensors.find(data::kTokenTypes);
      const at::Tensor types_NT = types == rows.tensors.end() || shape.token_types < 2 ? at::Tensor() : types->second;
      const models::Sequences sequences = models::Padded(ids_NT, attended_NT, shape, types_NT).To(device);
      optim::AutocastScope autocast(device.type(), precision);
      const at::Tensor features_NH =
          (are_vectors ? VectorsOf(*model, sequences, config.text) : model->EncodeFirst(sequences).to(at::kFloat))
              .cpu();
      for (int64_t i = 0; i < rows.size(); ++i) {
        const data::SentenceText& text = split.texts[static_cast<size_t>(first + i)];
        nlohmann::ordered_json name = {{"text", text.text}};
        if (split.is_pair) name["pair"] = text.pair;
        if (!text.error.empty()) name["error"] = text.error;
        append(text.error.empty() ? features_NH[i] : at::Tensor(), name);
      }
    });
  });
  PrintCount(config, split);
}

void PredictSentences(const config::Config& config, at::Device device) {
  if (!config.run.features.empty()) return PredictTextFeatures(config, device);
  const models::ClassifierOptions token_head = HeadFor(data::kWordTarget), no_head = HeadFor(data::kTextsTarget);
  if (KindOf(config).OwnsHead(&no_head)) {
    throw UsageError("--task=" + config.run.task + " predicts no labels",
                     "--features=FILE.npy in place of --output gets the vectors");
  }
  const bool of_tokens = KindOf(config).OwnsHead(&token_head);
  if (WantsTensors(config)) return PredictRows(config, device, of_tokens);
  (of_tokens ? PredictWords : PredictTable)(config, WeightsToPredict(config), device);
}

}  // namespace dtrain::tasks
