#include "trainer/tasks/predict_sentences.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/count_of.h"
#include "data/pipeline/device_feed.h"
#include "data/progress.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "models/registry.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/errors.h"
#include "trainer/optim/precision.h"
#include "trainer/report/csv.h"
#include "trainer/report/log.h"
#include "trainer/tasks/feature_file.h"
#include "trainer/tasks/prediction_table.h"
#include "trainer/tasks/sentence_data.h"
#include "trainer/tasks/sentence_embedding.h"
#include "trainer/tasks/sentence_kinds.h"
#include "trainer/tasks/sentence_task.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/tasks/token_input.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/initial_weights.h"
#include "trainer/weights/known_classes.h"
#include "trainer/weights/module_state.h"
#include "trainer/weights/text_model.h"

namespace dtrain::tasks {

SentencePredictor::SentencePredictor(const config::Config& config, const weights::TrainedWeights& weights,
                                     at::Device device)
    : task_(KindOf(config).MakeInferenceTask(config, weights, /*sizes=*/{}, device)),
      batch_size_(config::ResolveBatch(config.batch, 1).batch_size) {
  task_->module().eval();
}

SentencePredictor::Prediction SentencePredictor::Of(const data::Batch& rows) {
  const at::NoGradGuard no_grad;
  auto& task = dynamic_cast<SentenceTask&>(*task_);
  const data::Batch prepared = task.Prepared(rows);
  const auto places = prepared.tensors.find(kWordPlaces);
  Prediction prediction{.logits = task.Logits(data::CopyToDevice(prepared, task.device())).cpu()};
  if (places == prepared.tensors.end()) return prediction;
  const at::Tensor scored = prepared[data::kSentenceLabels].ne(data::kNoLoss).nonzero().squeeze(1);
  return {.logits = prediction.logits.index_select(0, scored), .words = places->second.index_select(0, scored)};
}

const models::TextShape& SentencePredictor::shape() const { return dynamic_cast<SentenceTask&>(*task_).shape(); }

std::vector<std::string> LabelsOf(const config::Config& config, const weights::TrainedWeights& weights) {
  const data::Classes classes = KindOf(config).ClassesOf(config, weights);
  return classes.names.empty() ? models::NumberedLabels(classes.count) : classes.names;
}

int64_t CountUnreadable(const data::SentenceSplit& split) {
  return std::ranges::count_if(split.texts, [](const auto& text) { return !text.error.empty(); });
}

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

namespace {

void PredictTable(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  SentencePredictor predictor(config, weights, device);
  const data::SentenceSplit split =
      OpenTexts(config, weights, KindOf(config).ClassesOf(config, weights).pairs, data::SentenceTarget::kNone);
  const bool is_csv = config.run.output.ends_with(".csv");
  std::vector<std::string> names = LabelsOf(config, weights), texts = {"text"};
  if (split.is_pair) texts.push_back("pair");
  if (KindOf(config).predicts_number()) names = {"prediction"};
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

void PredictTokens(config::Config config, const weights::TrainedWeights& weights, at::Device device) {
  const TokenInput input = ReadTokenInput(config.run.input);
  config.text.unpad = false;  // tokens that have labels keep their places
  const models::ClassifierOptions token_head = HeadFor(data::SentenceTarget::kOfWords);
  const bool of_tokens = KindOf(config).OwnsHead(&token_head);
  SentencePredictor predictor(config, weights, device);
  RequireKnown(input, predictor.shape(), config.run.input);
  const at::Tensor attended = input.attended.defined() ? input.attended : input.ids.ne(predictor.shape().padding_id);
  std::vector<at::Tensor> logits;
  for (int64_t first = 0; first < input.ids.size(0); first += predictor.batch_size()) {
    const int64_t end = std::min(first + predictor.batch_size(), input.ids.size(0));
    const at::Tensor ids = input.ids.slice(0, first, end);
    data::Batch rows;
    rows.tensors = {{data::kInputIds, ids},
                    {data::kAttentionMask, attended.slice(0, first, end).to(at::kByte)},
                    {"index", at::arange(first, end)}};
    if (input.types.defined()) rows.tensors[data::kTokenTypes] = input.types.slice(0, first, end);
    if (of_tokens) {
      rows.tensors[data::kSentenceLabels] = at::zeros_like(ids);
      rows.tensors[data::kFirstWords] = at::zeros({end - first}, at::kLong);
    }
    const at::Tensor of_rows = predictor.Of(rows).logits;
    logits.push_back(of_tokens ? of_rows.view({end - first, ids.size(1), -1}) : of_rows);
  }
  at::Tensor all = at::cat(logits);
  std::vector<int64_t> by_row(static_cast<size_t>(all.dim()), 1);
  by_row[0] = -1;
  all.masked_fill_(attended.any(1).logical_not().view(by_row), 0);
  checkpoint::Metadata metadata = {{"format", "pt"}, {kPredictedBy, "dtrain"}};
  weights::AddTo(metadata, KindOf(config).ClassesOf(config, weights));
  checkpoint::WriteSafetensors(config.run.output, {{"logits", all}}, metadata);
}

}  // namespace

void PredictTextFeatures(const config::Config& config, at::Device device) {
  weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("computing features with " + weights.origin);
  const models::ClassifierOptions no_head = HeadFor(data::SentenceTarget::kTexts);
  const bool are_vectors = KindOf(config).OwnsHead(&no_head);
  const auto outline = weights::OutlineOf(weights.tensors, weights.model_config);
  const auto model = weights::MakeTextModel(weights::TextOptionsOf(config, /*tokens=*/{}, outline), &no_head,
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
                                              are_vectors ? data::SentenceTarget::kTexts : data::SentenceTarget::kNone);
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
  const weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("predicting with " + weights.origin);
  const models::ClassifierOptions token_head = HeadFor(data::SentenceTarget::kOfWords),
                                  no_head = HeadFor(data::SentenceTarget::kTexts);
  if (KindOf(config).OwnsHead(&no_head)) {
    throw UsageError("--task=" + config.run.task + " predicts no labels",
                     "--features=FILE.npy in place of --output gets the vectors");
  }
  if (WantsTensors(config)) return PredictTokens(config, weights, device);
  if (KindOf(config).OwnsHead(&token_head)) return PredictWords(config, weights, device);
  PredictTable(config, weights, device);
}

}  // namespace dtrain::tasks
