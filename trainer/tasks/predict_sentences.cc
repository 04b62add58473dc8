#include "trainer/tasks/text_kinds.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/table_reader.h"
#include "data/joined.h"
#include "data/pipeline/device_feed.h"
#include "data/pipeline/row_reader.h"
#include "data/progress.h"
#include "data/storage.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "data/text/utf8.h"
#include "models/registry.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/optim/precision.h"
#include "trainer/report/log.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/predictions.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/tasks/text_task.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
namespace {

using Json = nlohmann::ordered_json;

// Runs a trained model on rows.
class SentencePredictor {
 public:
  SentencePredictor(const config::Config& config, const weights::TrainedWeights& weights, at::Device device)
      : task_(KindOf(config).MakeInferenceTask(config, weights, /*sizes=*/{}, device)) {
    task_->module().eval();
  }

  const models::TextShape& shape() const { return dynamic_cast<TextTask&>(*task_).shape(); }

  // Returns the logits, on the host, of each row, or of each word with a label, whose numbers are the index then.
  SampleOutputs Of(const data::Batch& rows) {
    const at::NoGradGuard no_grad;
    auto& task = dynamic_cast<TextTask&>(*task_);
    const data::Batch prepared = data::CopyToDevice(task.Prepared(rows), task.device());
    SampleOutputs found;
    found.outputs_NC = task.Logits(prepared);
    if (prepared.tensors.contains(kWordPlaces)) found = task.Observed(found.outputs_NC, prepared);
    found.outputs_NC = found.outputs_NC.cpu();
    return found;
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
  if (split.words) return static_cast<int64_t>(split.words->unread.size());
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

// Returns rows [first, end) as the loader makes them, padded to the longest one.
data::Batch RowsOf(const data::SentenceSplit& split, int64_t first, int64_t end) {
  const data::RowReader reader(*split.source, *split.decoder, /*quarantine=*/nullptr, data::BadRecordPolicy::kLeaveOut,
                               /*seed=*/0);
  int64_t size = 0;
  for (int64_t row = first; row < end; ++row) size = std::max(size, split.length(row));
  std::vector<data::SampleRef> samples;
  for (int64_t row = first; row < end; ++row) samples.push_back({.index = row, .size = size});
  data::OpenBatch batch(data::Batch(), std::move(samples), reader.fields(size), /*pinned=*/false);
  for (int64_t row = 0; row < batch.rows(); ++row) reader.Fill(batch, row, reader.Read(first + row));
  return batch.Take();
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

// The columns of the texts of a row.
std::vector<std::string> ColumnsOf(const data::SentenceSplit& split) {
  return split.is_pair ? std::vector<std::string>{"text", "pair"} : std::vector<std::string>{"text"};
}

// Appends each row of a split with what `predict` returns for it on the host.
void ForSamples(const data::SentenceSplit& split, const config::Config& config,
                const std::function<at::Tensor(const data::Batch& rows)>& predict, const AppendSample& append) {
  ForBatches(split, config, [&](const data::Batch& rows) {
    const at::Tensor values = predict(rows);
    const auto first = rows["index"][0].item<int64_t>();
    for (int64_t i = 0; i < rows.size(); ++i) {
      const data::SentenceText& text = split.texts[static_cast<size_t>(first + i)];
      std::vector<std::string> cells = {text.text};
      if (split.is_pair) cells.push_back(text.pair);
      append({cells, values[i], text.error, text.kept});
    }
  });
}

// Says how many rows were predicted and, as for images, how many could not be read or have no finite outputs.
void PrintCountsOfRows(const config::Config& config, const data::SentenceSplit& split, int64_t not_finite) {
  const int64_t bad = CountUnreadable(split);
  const bool has_lines = split.words && !split.words->lines.empty();
  const int64_t rows = has_lines     ? static_cast<int64_t>(split.words->lines.size())
                       : split.words ? split.words->words() + bad
                                     : split.source->size();
  if (bad > 0) {
    const auto has_error = [](const auto& text) { return !text.error.empty(); };
    report::LogWarning(
        CountOf(bad, "row") + " could not be read; the reasons are in the rows' errors, the first: " +
        (split.words ? split.words->unread.front().error : std::ranges::find_if(split.texts, has_error)->error));
  }
  PrintCounts(config, rows - bad - not_finite, bad > 0 ? std::optional(bad) : std::nullopt, not_finite);
}

// ---- Words: they are gathered first, because the rows of a long sentence share its words ----

struct TaggedWord {
  std::string tag;
  double probability = 0;
};

std::vector<TaggedWord> TagWords(const config::Config& config, const data::SentenceSplit& split,
                                 const std::vector<std::string>& labels, SentencePredictor& predictor) {
  std::vector<TaggedWord> tagged(static_cast<size_t>(split.words->words()));
  ForBatches(split, config, [&](const data::Batch& rows) {
    const SampleOutputs found = predictor.Of(rows);
    const at::Tensor &logits = found.outputs_NC, words = found.index.cpu();
    const at::Tensor best = LikeliestClasses(logits, 1), probability = at::softmax(logits, 1).gather(1, best);
    for (int64_t i = 0; i < words.numel(); ++i) {
      tagged[static_cast<size_t>(words[i].item<int64_t>())] = {labels[static_cast<size_t>(best[i].item<int64_t>())],
                                                               probability[i].item<double>()};
    }
  });
  return tagged;
}

bool HasFinite(const TaggedWord& word) { return std::isfinite(word.probability); }

// Splits a tag as transformers does when it groups entities: what begins with neither B- nor I- goes on.
std::pair<bool, std::string> BeginAndType(const std::string& tag) {
  const bool begins = tag.starts_with("B-");
  return {begins, begins || tag.starts_with("I-") ? tag.substr(2) : tag};
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

// Returns an object for each entity in a line of text, with its place in characters and the mean score of its tokens.
// `first` and `end` are numbers of words.
Json EntitiesOf(const std::vector<TaggedWord>& words, const std::vector<data::WordPlace>& places,
                const std::string& text, size_t first, size_t end) {
  auto entities = Json::array();
  while (first < end) {
    const std::string type = BeginAndType(words[first].tag).second;
    size_t last = first;
    double sum = words[first].probability;
    while (last + 1 < end && BeginAndType(words[last + 1].tag) == std::pair(false, type))
      sum += words[++last].probability;
    const size_t dash = words[first].tag.find('-');
    const int64_t start = places[first].begin, behind = places[last].end;
    if (type != "O")
      entities.push_back(
          {{"entity_group", dash == std::string::npos ? words[first].tag : words[first].tag.substr(dash + 1)},
           {"score", data::JsonNumber(sum / static_cast<double>(last + 1 - first))},
           {"word", Characters(text, start, behind)},
           {"start", start},
           {"end", behind}});
    first = last + 1;
  }
  return entities;
}

// What could not be read has an error in place of a prediction. Returns how many words have outputs that are not
// finite.
int64_t AppendWords(const std::vector<TaggedWord>& tagged, const data::SplitWords& words,
                    const data::AppendRow& append) {
  auto unread = words.unread.begin();
  const auto append_unread = [&](size_t before) {
    for (; unread != words.unread.end() && unread->before <= static_cast<int64_t>(before); ++unread) {
      append({{"sentence", unread->sentence + 1},
              {"line", unread->line},
              {"word", unread->word},
              {"prediction"},
              {"probability"},
              {"error", unread->error}});
    }
  };
  size_t sentence = 0;
  for (size_t word = 0; word < tagged.size(); ++word) {
    append_unread(word);
    while (words.ends[sentence] <= static_cast<int64_t>(word)) ++sentence;
    const bool is_finite = HasFinite(tagged[word]);
    append({{"sentence", sentence + 1},
            {"line", words.places[word].line},
            {"word", words.texts[word]},
            {"prediction", is_finite ? Json(tagged[word].tag) : Json()},
            {"probability", is_finite ? Json(data::JsonNumber(tagged[word].probability)) : Json()},
            {"error", is_finite ? Json() : Json(kNotFinite)}});
  }
  append_unread(tagged.size());
  return static_cast<int64_t>(tagged.size()) - std::ranges::count_if(tagged, HasFinite);
}

// The row of a line in the table of entities.
data::WrittenRow UnreadLine(size_t number, const Json& error) {
  return {{"line", number + 1}, {"entity_group"}, {"score"}, {"word"}, {"start"}, {"end"}, {"error", error}};
}

// Each entity has a row, or in JSON each line of the text. Returns how many lines have outputs that are not finite.
int64_t AppendEntities(const std::vector<TaggedWord>& tagged, const data::SplitWords& words, bool is_nested,
                       const data::AppendRow& append) {
  int64_t not_finite = 0;
  size_t first = 0;
  auto unread = words.unread.begin();
  for (size_t number = 0; number < words.lines.size(); ++number) {
    const std::string& text = words.lines[number];
    const auto end = static_cast<size_t>(words.ends[number]);
    const bool is_finite = std::all_of(tagged.data() + first, tagged.data() + end, HasFinite);
    const Json found = is_finite ? EntitiesOf(tagged, words.places, text, first, end) : Json::array();
    for (size_t i = 0; !is_nested && i < found.size(); ++i) {
      data::WrittenRow row = {{"line", number + 1}};
      for (const auto& [column, value] : found[i].items()) row.push_back({column, value});
      row.push_back({"error"});
      append(row);
    }
    Json error = is_finite ? Json() : Json(kNotFinite);
    if (unread != words.unread.end() && unread->sentence == static_cast<int64_t>(number)) {
      error = unread->error;
      ++unread;
    } else if (!is_finite) {
      ++not_finite;
    }
    if (!is_nested && !error.is_null()) append(UnreadLine(number, error));
    if (is_nested) append({{"text", text}, {"entities", found}, {"error", error}});
    first = end;
  }
  return not_finite;
}

void PredictWords(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  SentencePredictor predictor(config, weights, device);
  const data::SentenceSplit split = OpenTexts(config, weights, /*pairs=*/std::nullopt, data::kWordTarget);
  const std::vector<TaggedWord> tagged = TagWords(config, split, LabelsOf(config, weights), predictor);
  int64_t not_finite = 0;
  const auto write = [&](const data::AppendRow& append) {
    const bool is_nested = data::TableWriterOf(config.run.output)->is_nested;
    not_finite = split.words->lines.empty() ? AppendWords(tagged, *split.words, append)
                                            : AppendEntities(tagged, *split.words, is_nested, append);
  };
  WriteTable(config.run.output, config.run.csv_bom, write, UnreadLine(0, nullptr));
  PrintCountsOfRows(config, split, not_finite);
}

// ---- Sentences ----

void PredictTable(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  SentencePredictor predictor(config, weights, device);
  const data::SentenceSplit split =
      OpenTexts(config, weights, KindOf(config).ClassesOf(config, weights).pairs, data::kNoTarget);
  std::vector<std::string> names = LabelsOf(config, weights);
  const Outcome outcome = OutcomeOf(config, std::max<int64_t>(1, static_cast<int64_t>(names.size())));
  const PredictionTable table(config, ColumnsOf(split), outcome, std::move(names), split.kept_columns);
  const int64_t not_finite = table.Write([&](const AppendSample& append) {
    ForSamples(
        split, config, [&](const data::Batch& rows) { return predictor.Of(rows).outputs_NC; }, append);
  });
  PrintCountsOfRows(config, split, not_finite);
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
    const at::Tensor logits = predictor.Of(rows).outputs_NC;
    return of_tokens ? logits.view({count, some.ids.size(1), -1}) : logits;
  });
}

// ---- Token ids, for programs ----

bool IsWhole(const at::Tensor& tensor) { return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true); }

// `what` is the beginning of the message.
void RequireBelow(const at::Tensor& numbers, int64_t end, const std::string& what) {
  const at::Tensor outside = numbers.lt(0).logical_or(numbers.ge(end));
  if (!outside.any().item<bool>()) return;
  const auto number = numbers.masked_select(outside)[0].item<int64_t>();
  throw DataError(what + std::to_string(number) + ", but the model knows " + std::to_string(end));
}

// Throws DataError for tokens that the model does not know, and for rows that are too long for it. Warns of rows
// without a token.
void RequireKnown(const TokenRows& input, const models::TextShape& model, const std::string& path) {
  RequireBelow(input.ids, model.vocab_size, "input_ids in " + path + " has the token ");
  if (input.types.defined()) {
    RequireBelow(input.types, std::max<int64_t>(1, model.token_types), "token_type_ids in " + path + " has the type ");
  }
  const int64_t tokens = input.ids.ne(model.padding_id).sum(1).max().item<int64_t>();
  if (tokens > model.longest_sequence) {
    throw DataError("input_ids in " + path + " has a row of " + std::to_string(tokens) +
                    " tokens, but the model has positions for " + std::to_string(model.longest_sequence));
  }
  if (const auto empty = input.attended.any(1).logical_not().sum().item<int64_t>(); empty > 0) {
    report::LogWarning("rows without a token have logits of 0: " + std::to_string(empty) + " of " + path);
  }
}

}  // namespace

void PredictTextFeatures(const config::Config& config, data::SentenceTarget target, at::Device device) {
  weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("computing features with " + weights.origin);
  const auto outline = weights::OutlineOf(weights.tensors, weights.model_config);
  const auto model = weights::MakeTextModel(weights::TextOptionsOf(config, /*tokens=*/{}, outline),
                                            {.kind = models::HeadKind::kNone}, config.batch.seed, device);
  const models::TextShape& shape = model->shape();
  const std::string& backbone = models::FamilyOf(config.model.name).text.backbone;
  std::erase_if(weights.tensors, [&](const auto& item) { return !item.first.starts_with(backbone + "."); });
  weights::ApplyInitialWeights(weights.tensors, config.model, *model);
  model->eval();
  const optim::Precision& precision = optim::PrecisionNamed(config.precision.name);
  optim::AllowTf32(precision.tf32);
  const at::NoGradGuard no_grad;
  const bool are_vectors = target.of_texts;
  const data::SentenceSplit split = OpenTexts(config, weights, are_vectors ? std::optional(false) : std::nullopt,
                                              are_vectors ? target : data::kNoTarget);
  const auto features_of = [&](const data::Batch& rows) {
    const auto by_text = [](const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); };
    const at::Tensor ids_NT = by_text(rows[data::kInputIds]),
                     attended_NT = by_text(rows[data::kAttentionMask]).to(at::kBool);
    const auto types = rows.tensors.find(data::kTokenTypes);
    const at::Tensor types_NT = types == rows.tensors.end() || shape.token_types < 2 ? at::Tensor() : types->second;
    const models::Sequences sequences = models::Padded(ids_NT, attended_NT, shape, types_NT).To(device);
    optim::AutocastScope autocast(device.type(), precision);
    return (are_vectors ? VectorsOf(*model, sequences, config.text) : model->EncodeFirst(sequences).to(at::kFloat))
        .cpu();
  };
  const int64_t not_finite =
      WriteFeatures(config.run.features, split.source->size(), shape.hidden_size, ColumnsOf(split),
                    [&](const AppendSample& append) { ForSamples(split, config, features_of, append); });
  PrintCountsOfRows(config, split, not_finite);
}

void PredictSentences(const config::Config& config, data::SentenceTarget target, at::Device device) {
  if (!config.run.features.empty()) return PredictTextFeatures(config, target, device);
  if (target.of_texts) {
    throw UsageError("--task=" + config.run.task + " predicts no labels",
                     "--features=FILE.npy in place of --output gets the vectors");
  }
  if (WantsTensors(config)) return PredictRows(config, device, target.of_words);
  (target.of_words ? PredictWords : PredictTable)(config, WeightsToPredict(config), device);
}

TokenRows ReadTokenRows(const config::Config& config) {
  const std::string& path = config.run.input;
  if (!data::IsFile(path)) {
    throw UsageError("--input=" + path + " is not a file", "name a safetensors file with the tensor input_ids");
  }
  if (data::TableFormatOf(path)) {
    throw UsageError("--input=" + path + " holds texts, but --output=" + config.run.output + " is for logits of tokens",
                     "name a safetensors file with the tensor input_ids; for texts, --features=FILE.npy, or of tasks "
                     "with labels --output=" +
                         data::TableFiles());
  }
  TokenRows input;
  for (const auto& [name, tensor] : checkpoint::ReadSafetensors(path).tensors) {
    if (name == "input_ids") input.ids = tensor;
    if (name == "attention_mask") input.attended = tensor;
    if (name == data::kTokenTypes) input.types = tensor;
  }
  if (!input.ids.defined()) throw DataError("no tensor input_ids in " + path, "store token ids under that name: N×T");
  if (!IsWhole(input.ids) || input.ids.dim() != 2) {
    throw DataError("input_ids in " + path + " is not int64 or int32, N×T");
  }
  if (input.ids.numel() == 0) throw DataError("input_ids in " + path + " has no tokens");
  input.ids = input.ids.to(at::kLong);
  if (input.types.defined()) {
    if (!IsWhole(input.types) || input.types.sizes() != input.ids.sizes()) {
      throw DataError(std::string(data::kTokenTypes) + " in " + path +
                      " is not of whole numbers and the shape of input_ids");
    }
    input.types = input.types.to(at::kLong);
  }
  if (!input.attended.defined()) return input;
  if (input.attended.sizes() != input.ids.sizes()) {
    throw DataError("attention_mask in " + path + " is not of the shape of input_ids");
  }
  input.attended = input.attended.ne(0);
  return input;
}

void PredictTokens(const config::Config& config, TokenRows input, const models::TextShape& model,
                   const data::Classes* classes, const std::function<at::Tensor(const TokenRows& rows)>& logits_of) {
  if (!input.attended.defined()) input.attended = input.ids.ne(model.padding_id);
  RequireKnown(input, model, config.run.input);
  const at::NoGradGuard no_grad;
  const int64_t batch_size = config::ResolveBatch(config.batch, 1).batch_size;
  std::vector<at::Tensor> logits;
  for (int64_t row = 0; row < input.ids.size(0); row += batch_size) {
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.slice(0, row, row + batch_size) : all; };
    logits.push_back(logits_of({part(input.ids), part(input.attended), part(input.types)}).cpu());
  }
  at::Tensor all = at::cat(logits);
  std::vector<int64_t> by_row(static_cast<size_t>(all.dim()), 1);
  by_row[0] = -1;
  all.masked_fill_(input.attended.any(1).logical_not().view(by_row), 0);
  WriteLogits(config.run.output, all, classes);
}

}  // namespace dtrain::tasks
