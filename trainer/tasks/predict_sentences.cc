#include "trainer/tasks/predict_sentences.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/count_of.h"
#include "data/formats/little_endian.h"
#include "data/pipeline/device_feed.h"
#include "data/progress.h"
#include "data/sentences/sentence_rows.h"
#include "data/sentences/sentence_tokenizer.h"
#include "data/text/dictionary.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/optim/precision.h"
#include "trainer/report/csv.h"
#include "trainer/report/log.h"
#include "trainer/tasks/feature_file.h"
#include "trainer/tasks/likeliest_classes.h"
#include "trainer/tasks/sentence_data.h"
#include "trainer/tasks/sentence_task.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/tasks/token_input.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {
namespace {

// Runs a trained model on rows of tokens.
class SentencePredictor {
 public:
  SentencePredictor(const config::Config& config, const weights::TrainedWeights& weights, at::Device device)
      : task_(KindOf(config).MakeInferenceTask(config, weights, /*sizes=*/{}, device)),
        batch_size_(config::ResolveBatch(config.batch, 1).batch_size) {
    task_->module().eval();
  }

  const models::TextShape& shape() const { return sentences().shape(); }
  int64_t batch_size() const { return batch_size_; }

  // `ids_NT` is int64, `attended_NT` bool, `types_NT` int64 or undefined. Returns logits, float32 N×outputs on the
  // host.
  at::Tensor Logits(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const at::Tensor& types_NT) {
    const at::NoGradGuard no_grad;
    data::Batch rows;
    rows.tensors = {{data::kInputIds, ids_NT},
                    {data::kAttentionMask, attended_NT.to(at::kByte)},
                    {"index", at::arange(ids_NT.size(0))}};
    if (types_NT.defined()) rows.tensors[data::kTokenTypes] = types_NT;
    SentenceTask& task = sentences();
    return task.Logits(data::CopyToDevice(task.Prepared(std::move(rows)), task.device())).cpu();
  }

 private:
  SentenceTask& sentences() const { return dynamic_cast<SentenceTask&>(*task_); }

  const std::unique_ptr<Task> task_;
  const int64_t batch_size_;
};

// Rows of tokens, padded to the longest one, and their types; int64 N×T.
struct TokenRows {
  at::Tensor ids_NT, types_NT;
};

// Returns rows [first, end).
TokenRows TokensOf(const data::SentenceSplit& split, int64_t first, int64_t end) {
  int64_t longest = 0;
  for (int64_t row = first; row < end; ++row) longest = std::max(longest, split.length(row));
  at::Tensor ids = at::full({end - first, longest}, split.format.special.pad, at::kLong);
  for (int64_t row = first; row < end; ++row) {
    const std::vector<uint8_t> record = split.source->Read(row);
    auto to = ids.accessor<int64_t, 2>()[row - first];
    for (int64_t i = 0; i < split.length(row); ++i) {
      to[i] =
          data::LoadLittleEndian<uint32_t>(record.data() + sizeof(float) + static_cast<size_t>(i) * sizeof(uint32_t));
    }
  }
  return {.ids_NT = ids.bitwise_and(int64_t{data::kOfSecondText} - 1),
          .types_NT = ids.ge(int64_t{data::kOfSecondText}).to(at::kLong)};
}

// The lines of the table. A row that could not be read has an error in place of a prediction; columns of the input that
// were kept come last, under their names there, or with input_ in front where the table has a column of that name.
class PredictionTable {
 public:
  // `labels` are empty for a regression.
  PredictionTable(bool is_csv, bool is_pair, std::vector<std::string> labels, const std::vector<std::string>& kept)
      : is_csv_(is_csv), is_pair_(is_pair), labels_(std::move(labels)) {
    std::vector<std::string> own = {"text", "pair", "prediction", "probabilities", "error"};
    for (const std::string& label : labels_) own.push_back("probability_" + label);
    for (const std::string& name : kept) {
      kept_.push_back((std::ranges::find(own, name) != own.end() ? "input_" : "") + name);
    }
  }

  std::string Header() const {
    if (!is_csv_) return "";
    std::string line = is_pair_ ? "text,pair,prediction" : "text,prediction";
    for (const std::string& label : labels_) line += "," + report::CsvField("probability_" + label);
    line += ",error";
    for (const std::string& name : kept_) line += "," + report::CsvField(name);
    return line + "\n";
  }

  // `logits_C` is float32 on the host.
  std::string Line(const data::SentenceText& text, const at::Tensor& logits_C) const {
    const at::Tensor numbers = labels_.empty() ? logits_C : at::softmax(logits_C, 0);
    const auto* number = numbers.const_data_ptr<float>();
    const auto best = static_cast<size_t>(LikeliestClasses(logits_C.unsqueeze(0), 1).item<int64_t>());
    return is_csv_ ? CsvLine(text, number, best) : JsonLine(text, number, best);
  }

 private:
  std::string CsvLine(const data::SentenceText& text, const float* number, size_t best) const {
    const bool is_read = text.error.empty();
    std::string line = report::CsvField(text.text);
    if (is_pair_) line += "," + report::CsvField(text.pair);
    line += ",";
    if (is_read) line += labels_.empty() ? report::ShortestText(*number) : report::CsvField(labels_[best]);
    for (size_t label = 0; label < labels_.size(); ++label)
      line += "," + (is_read ? report::ShortestText(number[label]) : "");
    line += "," + report::CsvField(text.error);
    for (const std::string& cell : text.kept) line += "," + report::CsvField(cell);
    return line + "\n";
  }

  std::string JsonLine(const data::SentenceText& text, const float* number, size_t best) const {
    const auto json_number = [](float value) { return std::stod(report::ShortestText(value)); };
    nlohmann::ordered_json line = {{"text", text.text}};
    if (is_pair_) line["pair"] = text.pair;
    if (!text.error.empty()) {
      line["error"] = text.error;
    } else if (labels_.empty()) {
      line["prediction"] = json_number(*number);
    } else {
      line["prediction"] = labels_[best];
      for (size_t label = 0; label < labels_.size(); ++label) {
        line["probabilities"][labels_[label]] = json_number(number[label]);
      }
    }
    for (size_t column = 0; column < text.kept.size(); ++column) line[kept_[column]] = text.kept[column];
    return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }

  const bool is_csv_, is_pair_;
  const std::vector<std::string> labels_;
  std::vector<std::string> kept_;  // the names of these columns here
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
data::SentenceSplit OpenTexts(const config::Config& config, const models::TextShape& model,
                              std::optional<bool> pairs = std::nullopt) {
  data::SentenceOptions options = SentenceOptionsOf(config, data::SentenceTarget::kNone);
  options.tokens_per_sample = std::min(options.tokens_per_sample, model.longest_sequence);
  options.kept_columns = config.run.features.empty() ? config.text.keep_columns : "none";
  if (pairs == false) options.is_pair = false;
  data::SentenceSplit split = data::OpenUnlabelled(options, config.run.input);
  if (CountUnreadable(split) == split.source->size()) {
    throw DataError("no row of --input=" + config.run.input + " can be read; the first: " + split.texts.front().error,
                    "check the file and its columns (--text_column, --csv_delimiter)");
  }
  if (pairs == true && !split.is_pair) {
    report::LogWarning(config.run.input + " has single texts, but the model was trained on pairs");
  }
  if (split.vocabulary > model.vocab_size) {
    throw DataError("the tokenizer in " + split.tokenizer + " has " + std::to_string(split.vocabulary) +
                        " tokens, more than the model's " + std::to_string(model.vocab_size),
                    "put the tokenizer that came with the weights beside them");
  }
  WarnOfCutRows(split, config.run.input);
  return split;
}

// Calls `predict`, with their tokens, for rows [first, end) until all have had their turn.
void ForBatches(const data::SentenceSplit& split, const config::Config& config,
                const std::function<void(int64_t first, int64_t end, const TokenRows& rows)>& predict) {
  const int64_t rows = split.source->size(), batch_size = config::ResolveBatch(config.batch, 1).batch_size;
  data::Progress progress("predicting " + config.run.input, "texts", rows);
  for (int64_t first = 0; first < rows; first += batch_size) {
    const int64_t end = std::min(rows, first + batch_size);
    predict(first, end, TokensOf(split, first, end));
    progress.Add(end - first, /*bytes=*/0);
  }
}

// Says how many rows were predicted and, as for images, how many could not be read.
void PrintCount(const config::Config& config, const data::SentenceSplit& split) {
  const int64_t rows = split.source->size(), bad = CountUnreadable(split);
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

void PredictTable(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  SentencePredictor predictor(config, weights, device);
  const data::SentenceSplit split =
      OpenTexts(config, predictor.shape(), KindOf(config).ClassesOf(config, weights).pairs);
  const bool is_csv = config.run.output.ends_with(".csv");
  const PredictionTable table(is_csv, split.is_pair, LabelsOf(config, weights), split.kept_columns);
  checkpoint::WriteAtomically(config.run.output, [&](checkpoint::DurableFile& file) {
    if (is_csv && config.run.csv_bom) file.Append(report::kByteOrderMark);
    file.Append(table.Header());
    ForBatches(split, config, [&](int64_t first, int64_t end, const TokenRows& rows) {
      const at::Tensor attended_NT = rows.ids_NT.ne(split.format.special.pad);
      const at::Tensor logits = predictor.Logits(rows.ids_NT, attended_NT, rows.types_NT);
      for (int64_t row = first; row < end; ++row) {
        file.Append(table.Line(split.texts[static_cast<size_t>(row)], logits[row - first]));
      }
    });
  });
  PrintCount(config, split);
}

// Returns the weights of the encoder, the module `backbone`, and `head` as `model` has it. Features are what the
// encoder computes, whatever head it was trained with.
checkpoint::NamedTensors WithHeadOf(const torch::nn::Module& model, const models::Head& head,
                                    const std::string& backbone, const checkpoint::NamedTensors& weights) {
  checkpoint::NamedTensors all;
  for (const auto& item : weights) {
    if (item.first.starts_with(backbone + ".") && !head.Has(item.first)) all.push_back(item);
  }
  for (const auto& item : weights::StateOf(model)) {
    if (head.Has(item.first)) all.push_back(item);
  }
  return all;
}

void PredictTokens(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  const TokenInput input = ReadTokenInput(config.run.input);
  SentencePredictor predictor(config, weights, device);
  RequireKnown(input, predictor.shape(), config.run.input);
  const at::Tensor attended = input.attended.defined() ? input.attended : input.ids.ne(predictor.shape().padding_id);
  std::vector<at::Tensor> logits;
  for (int64_t first = 0; first < input.ids.size(0); first += predictor.batch_size()) {
    const int64_t end = first + predictor.batch_size();
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.slice(0, first, end) : all; };
    logits.push_back(predictor.Logits(part(input.ids), part(attended), part(input.types)));
  }
  const at::Tensor all = at::cat(logits).masked_fill_(attended.any(1).logical_not().unsqueeze(1), 0);
  checkpoint::Metadata metadata = {{"format", "pt"}, {kPredictedBy, "dtrain"}};
  weights::AddTo(metadata, KindOf(config).ClassesOf(config, weights));
  checkpoint::WriteSafetensors(config.run.output, {{"logits", all}}, metadata);
}

}  // namespace

void PredictTextFeatures(const config::Config& config, at::Device device) {
  const weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("computing features with " + weights.origin);
  const models::ClassifierOptions any_head = {.labels = models::NumberedLabels(1)};
  const auto outline = weights::OutlineOf(weights.tensors, weights.model_config);
  const auto model = weights::MakeTextModel(weights::TextOptionsOf(config, /*vocabulary=*/0, outline), &any_head,
                                            config.batch.seed, device);
  const models::TextShape& shape = model->shape();
  const std::string& backbone = models::FamilyOf(config.model.name).text.backbone;
  const models::Head& head = models::HeadIn(config.model.name, *model);
  weights::ApplyInitialWeights(WithHeadOf(*model, head, backbone, weights.tensors), config.model, *model);
  model->eval();
  const optim::Precision& precision = optim::PrecisionNamed(config.precision.name);
  optim::AllowTf32(precision.tf32);
  const at::NoGradGuard no_grad;
  const data::SentenceSplit split = OpenTexts(config, shape);
  WriteFeatures(config.run.features, split.source->size(), shape.hidden_size, [&](const AppendFeatures& append) {
    ForBatches(split, config, [&](int64_t first, int64_t end, const TokenRows& rows) {
      const at::Tensor attended_NT = rows.ids_NT.ne(split.format.special.pad);
      const at::Tensor types_NT = shape.token_types > 1 ? rows.types_NT : at::Tensor();
      const models::Sequences sequences = models::Padded(rows.ids_NT, attended_NT, shape, types_NT).To(device);
      optim::AutocastScope autocast(device.type(), precision);
      const at::Tensor features_NH = model->EncodeFirst(sequences).to(at::kFloat).cpu();
      for (int64_t row = first; row < end; ++row) {
        const data::SentenceText& text = split.texts[static_cast<size_t>(row)];
        nlohmann::ordered_json name = {{"text", text.text}};
        if (split.is_pair) name["pair"] = text.pair;
        if (!text.error.empty()) name["error"] = text.error;
        append(text.error.empty() ? features_NH[row - first] : at::Tensor(), name);
      }
    });
  });
  PrintCount(config, split);
}

void PredictSentences(const config::Config& config, at::Device device) {
  if (!config.run.features.empty()) return PredictTextFeatures(config, device);
  const weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("predicting with " + weights.origin);
  WantsTensors(config) ? PredictTokens(config, weights, device) : PredictTable(config, weights, device);
}

}  // namespace dtrain::tasks
