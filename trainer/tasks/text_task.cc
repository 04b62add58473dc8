// The validation loss has no label smoothing: it describes the model, not the way it was trained. Nothing here waits
// for the device, since the numbers that shapes depend on come with the batch (PreparedSequences).
#include "trainer/tasks/text_task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "data/pipeline/device_feed.h"
#include "data/text/dictionary.h"
#include "data/text/token_rows.h"
#include "models/layers.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain::tasks {
namespace {

// The sums that all these tasks have, behind their own.
enum TextSum { kTextLossSum, kTerms, kEmptyRows, kTokens, kNumTextSums };

// Names of the tensors of a prepared batch that are copied to the device.
constexpr char kPositions[] = "positions", kTypes[] = "token_types", kAttended[] = "attended", kOffsets[] = "offsets",
               kCounts[] = "counts";
// Names of those that stay on the host: {tokens, rows without one, padded length of sequences or 0, fillers, most
// tokens of a sequence}; lengths of packed sequences.
constexpr char kNumbers[] = "numbers", kLengths[] = "lengths";

at::Tensor ToTensor(std::vector<int64_t> numbers) { return at::tensor(numbers, at::kLong); }

at::Tensor Optional(const data::Batch& batch, const char* name) {
  const auto found = batch.tensors.find(name);
  return found == batch.tensors.end() ? at::Tensor() : found->second;
}

}  // namespace

TextTask::TextTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
    : model_(std::move(model)),
      precision_(optim::PrecisionNamed(config.precision.name)),
      longest_(config.text.tokens_per_sample),
      // On a GPU batches are filled up to shapes that come again, for step graphs.
      layout_{.unpad = config.text.unpad, .most_tokens = config.text.unpad && !device.is_cpu() ? longest_ : 0},
      device_(device) {
  optim::AllowTf32(precision_.tf32);
  models::UseKernels(*model_, device::KernelsOn(device));
}

data::Batch TextTask::PreparedTensors(data::Batch batch) const {
  data::Batch prepared = PreparedSequences(batch, model_->shape(), layout_, /*terms=*/batch.size());
  for (const char* name : {data::kSentenceLabels, data::kSentenceTargets}) {
    const auto found = batch.tensors.find(name);
    if (found != batch.tensors.end()) prepared.tensors[name] = found->second;
  }
  return prepared;
}

std::string TextTask::WhyNotRecorded() const {
  if (model_->shape().checkpoint_activations) {
    return "with --activation_checkpointing the host sets the random generator within the step";
  }
  const int64_t features = model_->features_in_window();
  if (!layout_.unpad || features == 0 || models::HasFlashAttention(precision_.products, features, device_)) return "";
  return "without flash attention, windows take the lengths of --unpad from the host";
}

at::Tensor TextTask::Logits(const data::Batch& batch) {
  optim::AutocastScope autocast(device_.type(), precision_);
  return model_->Classify(Hidden(SequencesOf(batch).sequences)).to(at::kFloat);
}

LossSums TextTask::Loss(const data::Batch& batch) {
  const at::Tensor logits = Logits(batch);
  const SequenceBatch::Counts counts = SequencesOf(batch).counts;
  return {.loss_sum = LossSum(logits, batch, /*training=*/true),
          .weight = Weight(batch, counts.terms),
          .units = counts.tokens,
          .padding = counts.padding,
          .empty = counts.empty_rows,
          .hits = Hits(logits.detach(), batch)};
}

data::Batch TextTask::RandomBatch(int64_t samples) const {
  const std::vector<int64_t> shape = {samples, longest_};
  data::Batch batch;
  batch.tensors[data::kInputIds] = at::randint(data::kSpecialTokens, model_->shape().vocab_size, shape, at::kLong);
  batch.tensors[data::kAttentionMask] = at::ones(shape, at::kByte);
  batch.tensors["index"] = at::arange(samples);
  AddRandomLabels(batch, samples);
  return data::CopyToDevice(Prepared(std::move(batch)), device_);
}

int64_t TextTask::num_evaluation_sums() const { return num_own_sums() + kNumTextSums; }

void TextTask::AddEvaluationSums(const data::Batch& batch, at::Tensor all) {
  const at::Tensor logits = Logits(batch);
  const SequenceBatch text = SequencesOf(batch);
  if (observer_) observer_(Observed(logits, batch));
  AddTo(all.slice(0, 0, num_own_sums()), logits, batch);
  at::Tensor sums = all.slice(0, num_own_sums());
  sums[kTextLossSum] += LossSum(logits, batch, /*training=*/false);
  sums[kTerms] += text.counts.terms;
  sums[kEmptyRows] += text.empty_rows;
  sums[kTokens] += text.tokens;
}

report::Metrics TextTask::MetricsOf(const at::Tensor& sums) const {
  const auto* own = sums.const_data_ptr<double>();
  const double* sum = own + num_own_sums();
  const double terms = sum[kTerms] > 0 ? sum[kTerms] : std::numeric_limits<double>::quiet_NaN();  // 0/0 is -nan
  report::Metrics metrics = OwnMetrics(own, terms);
  metrics.insert(metrics.begin(), report::Metric{.name = "loss", .value = sum[kTextLossSum] / terms});
  return metrics;
}

void TextTask::AddCounts(const at::Tensor& sums, report::TextCounts& counts) const {
  const auto* sum = sums.const_data_ptr<double>() + num_own_sums();
  counts.empty_samples = static_cast<int64_t>(sum[kEmptyRows]);
  counts.guessed = static_cast<int64_t>(sum[kTerms]);
}

TextClassificationTask::TextClassificationTask(std::shared_ptr<models::TextModel> model, const config::Config& config,
                                               at::Device device)
    : TextTask(std::move(model), config, device), label_smoothing_(config.optimizer.label_smoothing) {}

at::Tensor TextClassificationTask::LossSum(const at::Tensor& logits_NC, const data::Batch& batch, bool training) const {
  const at::Tensor& labels = batch[data::kSentenceLabels];
  return training ? CrossEntropySum(logits_NC, labels, label_smoothing_, class_weights_)
                  : CrossEntropySum(logits_NC, labels);
}

at::Tensor TextClassificationTask::Weight(const data::Batch& batch, const at::Tensor& terms) const {
  if (!class_weights_.defined()) return terms;
  return class_weights_.index_select(0, batch[data::kSentenceLabels]).sum();
}

at::Tensor TextClassificationTask::Hits(const at::Tensor& logits_NC, const data::Batch& batch) const {
  return logits_NC.argmax(1).eq(batch[data::kSentenceLabels]).sum();
}

report::Metrics TextClassificationTask::TrainingMetrics(double hits, double weight) const {
  if (class_weights_.defined()) return {};
  return {Percent("accuracy", 100 * hits / weight)};
}

void TextClassificationTask::AddRandomLabels(data::Batch& batch, int64_t samples) const {
  batch.tensors[data::kSentenceLabels] = at::randint(outputs(), {samples}, at::kLong);
}

void TextClassificationTask::AddTo(at::Tensor own, const at::Tensor& logits_NC, const data::Batch& batch) const {
  const int64_t classes = outputs();
  const at::Tensor labels = batch[data::kSentenceLabels], predicted = logits_NC.argmax(1);
  const at::Tensor ones = at::ones_like(labels, own.options());
  if (num_confusions_ > 0) own.slice(0, 0, num_confusions_).index_add_(0, labels * classes + predicted, ones);
  const auto counts = [&](int64_t part) { return own.slice(0, num_confusions_ + part * classes).slice(0, 0, classes); };
  counts(0).index_add_(0, labels, predicted.eq(labels).to(at::kDouble));
  counts(1).index_add_(0, predicted, ones);
  counts(2).index_add_(0, labels, ones);
}

report::Metrics TextClassificationTask::OwnMetrics(const double* own, double /*terms*/) const {
  const ClassCounts counts = CountsFrom(own + num_confusions_, outputs());
  report::Metrics metrics = {Percent("accuracy", Accuracy(counts)), Percent("f1", MacroF1(counts)),
                             Coefficient("matthews", MatthewsCorrelation(counts))};
  if (num_confusions_ > 0) metrics.push_back(Percent("balanced_accuracy", BalancedAccuracy(counts)));
  return metrics;
}

at::Tensor TextRegressionTask::LossSum(const at::Tensor& logits_N1, const data::Batch& batch, bool /*training*/) const {
  return at::mse_loss(logits_N1.squeeze(1), batch[data::kSentenceTargets], at::Reduction::Sum);
}

void TextRegressionTask::AddRandomLabels(data::Batch& batch, int64_t samples) const {
  batch.tensors[data::kSentenceTargets] = at::rand({samples});
}

void TextRegressionTask::AddTo(at::Tensor own, const at::Tensor& logits_N1, const data::Batch& batch) const {
  const at::Tensor targets_N1 = batch[data::kSentenceTargets].unsqueeze(1);
  places_.Fill(own, batch[kPlaces], at::cat({at::ones_like(logits_N1), logits_N1, targets_N1}, 1));
}

report::Metrics TextRegressionTask::OwnMetrics(const double* own, double /*terms*/) const {
  const std::vector<double> predictions = places_.Column(own, 1), targets = places_.Column(own, 2);
  return {Coefficient("pearson", PearsonCorrelation(predictions, targets)),
          Coefficient("spearman", SpearmanCorrelation(predictions, targets))};
}

data::Batch PreparedSequences(const data::Batch& rows, const models::TextShape& shape, const TokenLayout& layout,
                              int64_t terms, at::Tensor* kept) {
  const at::Tensor ids_NT = rows[data::kInputIds], attended_NT = rows[data::kAttentionMask].to(at::kBool);
  const at::Tensor is_empty_N = attended_NT.any(1).logical_not();
  const auto tokens = attended_NT.sum().item<int64_t>(), empty_rows = is_empty_N.sum().item<int64_t>();
  attended_NT.select(1, 0).logical_or_(is_empty_N);  // of the copy that has type bool
  const at::Tensor types_NT = shape.token_types > 1 ? Optional(rows, data::kTokenTypes) : at::Tensor();
  models::Sequences sequences;
  if (layout.unpad) {
    sequences = models::Packed(ids_NT, attended_NT, shape, kept, types_NT);
    if (layout.most_tokens > 0) models::FillUp(sequences, std::max(layout.most_tokens, ids_NT.size(1)), shape);
  } else {
    const bool is_full = tokens == ids_NT.numel();
    sequences = models::Padded(ids_NT, is_full ? at::Tensor() : attended_NT, shape, types_NT);
  }
  data::Batch prepared;
  prepared.number = rows.number;
  prepared.part = rows.part;
  prepared.on_host["index"] = rows["index"];
  prepared.tensors = {{kPreparedIds, sequences.ids},
                      {kPositions, sequences.positions},
                      {kCounts, ToTensor({terms, tokens, sequences.ids.numel() - tokens, empty_rows}).to(at::kFloat)}};
  if (sequences.token_types.defined()) prepared.tensors[kTypes] = sequences.token_types;
  if (sequences.attended.defined()) prepared.tensors[kAttended] = sequences.attended;
  if (sequences.offsets.defined()) prepared.tensors[kOffsets] = sequences.offsets;
  prepared.on_host[kNumbers] =
      ToTensor({tokens, empty_rows, sequences.padded_length, sequences.fillers, sequences.most_tokens});
  prepared.on_host[kLengths] = ToTensor(std::move(sequences.lengths));
  return prepared;
}

SequenceBatch SequencesOf(const data::Batch& prepared) {
  const at::Tensor &numbers = prepared.on_host.at(kNumbers), &lengths = prepared.on_host.at(kLengths);
  const auto* number = numbers.const_data_ptr<int64_t>();
  const auto* length = lengths.const_data_ptr<int64_t>();
  const at::Tensor& counts = prepared[kCounts];
  return {.sequences = {.ids = prepared[kPreparedIds],
                        .positions = prepared[kPositions],
                        .token_types = Optional(prepared, kTypes),
                        .padded_length = number[2],
                        .attended = Optional(prepared, kAttended),
                        .lengths = {length, length + lengths.numel()},
                        .offsets = Optional(prepared, kOffsets),
                        .fillers = number[3],
                        .most_tokens = number[4]},
          .tokens = number[0],
          .empty_rows = number[1],
          .counts = {counts[0], counts[1], counts[2], counts[3]}};
}

}  // namespace dtrain::tasks
