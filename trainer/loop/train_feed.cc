#include "trainer/loop/train_feed.h"

#include <utility>
#include <vector>

#include "trainer/loop/run_quarantine.h"

namespace dtrain::loop {

TrainFeed::TrainFeed(const TrainerParts& parts)
    : parts_(parts),
      quarantine_(MakeRunQuarantine(*parts.data.train, parts.config.data,
                                    parts.files.quarantine(parts.communicator.rank()), "replaced", parts.control)) {}

void TrainFeed::Start(int64_t steps_done) {
  const DataSplit& train = *parts_.data.train;
  // Random draws depend on the number of a batch, so it counts from the start of the training, not of this program run.
  loader_ = std::make_unique<data::Loader>(
      *train.source, *train.decoder, Batches(),
      data::LoaderOptions{.decode_threads = parts_.config.data.workers,
                          .prefetch_batches = parts_.config.data.prefetch_batches,
                          .pin_memory = !parts_.device.is_cpu(),
                          .seed = parts_.config.batch.seed,
                          .first_batch = steps_done * parts_.plan.batch.grad_accum_steps},
      quarantine_.get());
  feed_.emplace(*loader_, data::MakeTransport(parts_.device),
                [this](data::Batch batch) { return parts_.task.Prepared(std::move(batch)); });
}

void TrainFeed::Stop() {
  feed_.reset();
  loader_.reset();
}

data::BatchProvider TrainFeed::Batches() const {
  const int64_t accumulation = parts_.plan.batch.grad_accum_steps;
  return [this, accumulation](int64_t number) -> std::optional<std::vector<data::SampleRef>> {
    const int64_t step = number / accumulation;
    if (step >= parts_.plan.total_steps) return std::nullopt;
    return parts_.train_batches.Share(step, parts_.communicator.rank(), number % accumulation);
  };
}

}  // namespace dtrain::loop
