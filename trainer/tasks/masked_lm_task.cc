// Which tokens there are and which are to be guessed is worked out where the batch lies: for a batch on the host the
// device is not waited for.
#include "trainer/tasks/masked_lm_task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "trainer/optim/precision.h"

namespace dtrain::loop {
namespace {

enum MaskedLmSum { kMaskedLossSum, kCorrect, kGuessed, kTokens };

at::Tensor CrossEntropySum(const at::Tensor& logits, const at::Tensor& answers) {
  return at::cross_entropy_loss(logits, answers, {}, at::Reduction::Sum, data::kNoLoss);
}

// At most.
double ExpectedTokensOfSample(const config::Config& config) {
  const auto longest = static_cast<double>(config.text.tokens_per_sample);
  if (config.text.max_tokens == 0) return longest;
  return std::min(
      longest, static_cast<double>(config.text.max_tokens) / static_cast<double>(config.batch.batch_size.value_or(1)));
}

}  // namespace

MaskedLmTask::MaskedLmTask(std::shared_ptr<models::RobertaForMaskedLM> model, const config::Config& config,
                           at::Device device)
    : model_(std::move(model)),
      precision_(config.precision.name),
      unpad_(config.text.unpad),
      longest_(config.text.tokens_per_sample),
      mask_prob_(config.text.mask_prob),
      expected_share_(ExpectedTokensOfSample(config) * config.text.mask_prob),
      device_(device) {
  optim::AllowTf32(precision_ == "tf32");
}

double MaskedLmTask::NominalWeight(int64_t samples) const {
  return std::max(1.0, static_cast<double>(samples) * expected_share_);
}

MaskedLmTask::Question MaskedLmTask::QuestionOf(const data::Batch& batch) const {
  const at::Tensor& ids_NT = batch[data::kInputIds];
  const at::Tensor attended_NT = batch[data::kAttentionMask].to(at::kBool);
  const int64_t padding_id = model_->options().padding_id;
  Question question;
  question.tokens = attended_NT.sum().item<int64_t>();
  question.padding = unpad_ ? 0 : ids_NT.numel() - question.tokens;
  at::Tensor labels = batch[data::kTokenLabels].flatten();
  const bool is_full = question.tokens == ids_NT.numel();
  if (unpad_) {
    at::Tensor kept;
    question.sequences = models::Packed(ids_NT, attended_NT, padding_id, &kept);
    labels = labels.index_select(0, kept);
  } else {
    question.sequences = models::Padded(ids_NT, is_full ? at::Tensor() : attended_NT, padding_id);
  }
  const at::Tensor chosen = labels.ne(data::kNoLoss).nonzero().squeeze(1);
  question.answers = labels.index_select(0, chosen).to(device_, /*non_blocking=*/true);
  question.chosen = chosen.to(device_, /*non_blocking=*/true);
  question.sequences = question.sequences.To(device_);
  return question;
}

at::Tensor MaskedLmTask::Guess(const Question& question) {
  optim::AutocastScope autocast(device_.type(), precision_);
  const at::Tensor hidden_SH = model_->Encode(question.sequences);
  return model_->Scores(hidden_SH.index_select(0, question.chosen)).to(at::kFloat);
}

LossSums MaskedLmTask::Loss(const data::Batch& batch) {
  const Question question = QuestionOf(batch);
  const auto scalar = [this](int64_t number) {
    return at::full({}, static_cast<double>(number), at::TensorOptions(at::kFloat).device(device_));
  };
  return {.loss_sum = CrossEntropySum(Guess(question), question.answers),
          .weight = scalar(question.answers.numel()),
          .units = scalar(question.tokens),
          .padding = scalar(question.padding)};
}

models::ForwardCost MaskedLmTask::CostOfSample() const {
  return model_->Cost(longest_, longest_, static_cast<int64_t>(mask_prob_ * static_cast<double>(longest_)));
}

data::Batch MaskedLmTask::RandomBatch(int64_t samples) const {
  const std::vector<int64_t> shape = {samples, longest_};
  data::Batch batch;
  const at::Tensor ids = at::randint(data::kSpecialTokens, model_->options().vocab_size, shape, at::kLong);
  // As many in each sample as training has on average.
  const auto chosen = static_cast<int64_t>(mask_prob_ * static_cast<double>(longest_));
  const at::Tensor places = at::rand(shape).argsort(1, /*descending=*/false).slice(1, 0, chosen);
  batch.tensors[data::kInputIds] = ids;
  batch.tensors[data::kTokenLabels] =
      at::full(shape, data::kNoLoss, at::kLong).scatter(1, places, ids.gather(1, places));
  batch.tensors[data::kAttentionMask] = at::ones(shape, at::kByte);
  batch.tensors["index"] = at::arange(samples);
  for (auto& [name, tensor] : batch.tensors) tensor = tensor.to(device_);
  return batch;
}

at::Tensor MaskedLmTask::EvaluationSums(const data::Batch& batch) {
  const Question question = QuestionOf(batch);
  const at::Tensor logits = Guess(question);
  at::Tensor sums = at::zeros({num_evaluation_sums()}, at::TensorOptions(at::kDouble).device(device_));
  sums[kMaskedLossSum] = CrossEntropySum(logits, question.answers);
  sums[kCorrect] = logits.argmax(1).eq(question.answers).sum();
  sums[kGuessed] = question.answers.numel();
  sums[kTokens] = question.tokens;
  return sums;
}

report::Metrics MaskedLmTask::MetricsOf(const at::Tensor& sums) const {
  const auto* sum = sums.const_data_ptr<double>();
  const double loss = sum[kMaskedLossSum] / sum[kGuessed];
  return {{.name = "loss", .value = loss, .decimals = 4},
          {.name = "perplexity", .value = std::exp(loss), .decimals = 2},
          {.name = "accuracy", .value = 100 * sum[kCorrect] / sum[kGuessed], .decimals = 2, .higher_is_better = true}};
}

at::Tensor MaskedLmTask::Logits(const at::Tensor& ids_NT, const at::Tensor& attended_NT) {
  const int64_t padding_id = model_->options().padding_id;
  const at::Tensor attended = attended_NT.defined() ? attended_NT : ids_NT.ne(padding_id);
  const models::Sequences sequences =
      models::Padded(ids_NT, attended.all().item<bool>() ? at::Tensor() : attended, padding_id).To(device_);
  optim::AutocastScope autocast(device_.type(), precision_);
  const at::Tensor logits = model_->Scores(model_->Encode(sequences)).to(at::kFloat);
  return logits.view({ids_NT.size(0), ids_NT.size(1), -1});
}

}  // namespace dtrain::loop
