#include "trainer/tasks/masked_lm_task.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "data/text/masking.h"
#include "data/text/token_rows.h"
#include "models/text_kernels.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/tasks/metric_formulas.h"

namespace dtrain::tasks {
namespace {

constexpr char kChosen[] = "chosen", kAnswers[] = "answers";  // tensors that are copied to the device

// Fills up with places that all differ: gradients that are added to the same place would wait for each other.
void FillUp(at::Tensor& chosen, at::Tensor& answers, int64_t size, int64_t tokens) {
  const int64_t missing = size - chosen.numel();
  chosen = at::cat({chosen, at::arange(missing, at::kLong).remainder(tokens)});
  answers = at::cat({answers, at::full({missing}, data::kNoLoss, at::kLong)});
}

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
  PinLike(rows, prepared);
  return prepared;
}

MaskedLmBatch TextOf(const data::Batch& prepared) {
  return {SequencesOf(prepared), prepared[kChosen], prepared[kAnswers]};
}

MaskedLmTask::MaskedLmTask(std::shared_ptr<models::TextModel> model, const config::Config& config, at::Device device)
    : TextTask(std::move(model), config, device),
      mask_prob_(config.text.mask_prob),
      expected_share_(ExpectedTokensOfSample(config) * config.text.mask_prob),
      kernels_(device::TextKernelsOn(device)) {}

double MaskedLmTask::NominalWeight(int64_t samples) const {
  return std::max(1.0, static_cast<double>(samples) * expected_share_);
}

data::Batch MaskedLmTask::Prepared(data::Batch batch) const {
  // On a GPU batches of one shape share a step graph.
  return PreparedText(std::move(batch), shape(), layout(), device().is_cpu() ? 0 : mask_prob_);
}

at::Tensor MaskedLmTask::Logits(const data::Batch& batch) {
  const MaskedLmBatch text = TextOf(batch);
  optim::AutocastScope autocast(device().type(), precision());
  return model().Scores(model().Encode(text.sequences, text.chosen),
                        device().is_cuda() ? models::TextModel::kColumnsMultiple : 1);
}

at::Tensor MaskedLmTask::LossSum(const at::Tensor& logits, const data::Batch& batch, bool training) const {
  return CrossEntropySum(logits, batch[kAnswers], training ? kernels_ : nullptr);
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

}  // namespace dtrain::tasks
