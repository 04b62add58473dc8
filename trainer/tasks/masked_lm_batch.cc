#include "trainer/tasks/masked_lm_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "data/text/masking.h"
#include "data/text/token_rows.h"

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

}  // namespace

int64_t RoomFor(int64_t places) { return (places + kRoomMultiple - 1) / kRoomMultiple * kRoomMultiple; }

data::Batch PreparedText(data::Batch rows, int64_t padding_id, const TokenLayout& layout, double share) {
  at::Tensor labels = rows[data::kTokenLabels].flatten(), kept;
  const auto guessed = labels.ne(data::kNoLoss).sum().item<int64_t>();
  data::Batch prepared = PreparedSequences(rows, padding_id, layout, guessed, &kept);
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

}  // namespace dtrain::tasks
