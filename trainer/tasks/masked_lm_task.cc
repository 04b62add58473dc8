// Nothing here waits for the device, since the numbers that shapes depend on come with the batch (PreparedText).
#include "trainer/tasks/masked_lm_task.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "data/pipeline/device_feed.h"
#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "models/text_kernels.h"
#include "trainer/device/cuda_plugin.h"

namespace dtrain::tasks {
namespace {

constexpr char kChosen[] = "chosen", kAnswers[] = "answers";  // tensors that are copied to the device
constexpr char kGuessedKey[] = "guessed";                     // stays on the host

// Fills up with places that all differ: gradients that are added to the same place would wait for each other.
void FillUp(at::Tensor& chosen, at::Tensor& answers, int64_t size, int64_t tokens) {
  const int64_t missing = size - chosen.numel();
  chosen = at::cat({chosen, at::arange(missing, at::kLong).remainder(tokens)});
  answers = at::cat({answers, at::full({missing}, data::kNoLoss, at::kLong)});
}

enum MaskedLmSum { kMaskedLossSum, kCorrect, kGuessed, kEmptyRows, kTokens };

// Computes in float32, without a copy of the logits in it. `kernels` may be null.
at::Tensor CrossEntropySum(const at::Tensor& logits, const at::Tensor& answers, const models::TextKernels* kernels) {
  if (kernels != nullptr && models::HasCrossEntropyKernels(logits)) {
    return models::CrossEntropySum(*kernels, logits, answers, data::kNoLoss);
  }
  return at::nll_loss(at::log_softmax(logits, 1, at::kFloat), answers, {}, at::Reduction::Sum, data::kNoLoss);
}

// Returns an upper bound.
double ExpectedTokensOfSample(const config::Config& config) {
  const auto longest = static_cast<double>(config.text.tokens_per_sample);
  if (config.text.max_tokens == 0) return longest;
  return std::min(
      longest, static_cast<double>(config.text.max_tokens) / static_cast<double>(config.batch.batch_size.value_or(1)));
}

}  // namespace

int64_t RoomFor(int64_t places) { return (places + kRoomMultiple - 1) / kRoomMultiple * kRoomMultiple; }

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
  prepared.on_host[kGuessedKey] = at::scalar_tensor(guessed, at::kLong);
  PinLike(rows, prepared);
  return prepared;
}

MaskedLmBatch TextOf(const data::Batch& prepared) {
  return {SequencesOf(prepared), prepared[kChosen], prepared[kAnswers],
          *prepared.on_host.at(kGuessedKey).const_data_ptr<int64_t>()};
}

MaskedLmTask::MaskedLmTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
    : model_(std::move(model)),
      precision_(optim::PrecisionNamed(config.precision.name)),
      longest_(config.text.tokens_per_sample),
      layout_(LayoutOn(device, config.text.unpad, longest_)),
      mask_prob_(config.text.mask_prob),
      expected_share_(ExpectedTokensOfSample(config) * config.text.mask_prob),
      device_(device),
      kernels_(device::TextKernelsOn(device)) {
  optim::AllowTf32(precision_.tf32);
  if (kernels_ != nullptr) model_->UseKernels(*kernels_);
}

double MaskedLmTask::NominalWeight(int64_t samples) const {
  return std::max(1.0, static_cast<double>(samples) * expected_share_);
}

data::Batch MaskedLmTask::Prepared(data::Batch batch) const {
  // On a GPU batches of one shape share a step graph.
  return PreparedText(std::move(batch), model_->shape(), layout_, device_.is_cpu() ? 0 : mask_prob_);
}

std::string MaskedLmTask::WhyNotRecorded() const { return WhyTextNotRecorded(model_->shape().checkpoint_activations); }

at::Tensor MaskedLmTask::Guess(const MaskedLmBatch& batch) {
  optim::AutocastScope autocast(device_.type(), precision_);
  return model_->Scores(model_->Encode(batch.sequences, batch.chosen),
                        device_.is_cuda() ? models::TextModel::kColumnsMultiple : 1);
}

LossSums MaskedLmTask::Loss(const data::Batch& batch) {
  const MaskedLmBatch text = TextOf(batch);
  return {.loss_sum = CrossEntropySum(Guess(text), text.answers, kernels_),
          .weight = text.counts.terms,
          .units = text.counts.tokens,
          .padding = text.counts.padding,
          .empty = text.counts.empty_rows};
}

models::ForwardCost MaskedLmTask::CostOfSample() const {
  return model_->Cost(longest_, longest_, static_cast<int64_t>(mask_prob_ * static_cast<double>(longest_)));
}

data::Batch MaskedLmTask::RandomBatch(int64_t samples) const {
  const std::vector<int64_t> shape = {samples, longest_};
  data::Batch batch;
  const at::Tensor ids = at::randint(data::kSpecialTokens, model_->shape().vocab_size, shape, at::kLong);
  // Each sample has as many chosen tokens as a training sample has on average.
  const auto chosen = static_cast<int64_t>(mask_prob_ * static_cast<double>(longest_));
  const at::Tensor places = at::rand(shape).argsort(1, /*descending=*/false).slice(1, 0, chosen);
  batch.tensors[data::kInputIds] = ids;
  batch.tensors[data::kTokenLabels] =
      at::full(shape, data::kNoLoss, at::kLong).scatter(1, places, ids.gather(1, places));
  batch.tensors[data::kAttentionMask] = at::ones(shape, at::kByte);
  batch.tensors["index"] = at::arange(samples);
  return data::CopyToDevice(Prepared(std::move(batch)), device_);
}

at::Tensor MaskedLmTask::EvaluationSums(const data::Batch& batch) {
  const MaskedLmBatch text = TextOf(batch);
  const at::Tensor logits = Guess(text);
  at::Tensor sums = at::zeros({num_evaluation_sums()}, at::TensorOptions(at::kDouble).device(device_));
  sums[kMaskedLossSum] = CrossEntropySum(logits, text.answers, /*kernels=*/nullptr);
  sums[kCorrect] = logits.argmax(1).eq(text.answers).sum();
  sums[kGuessed] = text.guessed;
  sums[kEmptyRows] = text.empty_rows;
  sums[kTokens] = text.tokens;
  return sums;
}

report::Metrics MaskedLmTask::MetricsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>();
  const double guessed = sum[kGuessed] > 0 ? sum[kGuessed] : std::numeric_limits<double>::quiet_NaN();  // 0/0 is -nan
  const double loss = sum[kMaskedLossSum] / guessed;
  return {{.name = "loss", .value = loss, .decimals = 4},
          {.name = "perplexity", .value = std::exp(loss), .decimals = 2},
          {.name = "accuracy", .value = 100 * sum[kCorrect] / guessed, .decimals = 2, .higher_is_better = true}};
}

void MaskedLmTask::AddCounts(const at::Tensor& sums, report::TextCounts& counts) const {
  counts.empty_samples = sums[kEmptyRows].item<int64_t>();
  counts.guessed = sums[kGuessed].item<int64_t>();
}

at::Tensor MaskedLmTask::Logits(const at::Tensor& ids_NT, const at::Tensor& attended_NT, const at::Tensor& types_NT) {
  const models::TextShape& shape = model_->shape();
  const at::Tensor is_token = attended_NT.defined() ? attended_NT : ids_NT.ne(shape.padding_id);
  const at::Tensor is_empty_N = is_token.any(1).logical_not();
  const at::Tensor attended = is_token.clone();
  attended.select(1, 0).logical_or_(is_empty_N);  // attention to nothing is undefined
  const models::Sequences sequences =
      models::Padded(ids_NT, attended.all().item<bool>() ? at::Tensor() : attended, shape, types_NT).To(device_);
  optim::AutocastScope autocast(device_.type(), precision_);
  const at::Tensor logits = model_->Scores(model_->Encode(sequences)).to(at::kFloat);
  return logits.view({ids_NT.size(0), ids_NT.size(1), -1}).masked_fill_(is_empty_N.view({-1, 1, 1}).to(device_), 0);
}

}  // namespace dtrain::tasks
