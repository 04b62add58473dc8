#include "trainer/loop/train_feed.h"

#include <utility>
#include <vector>

#include "trainer/loop/run_quarantine.h"

namespace dtrain::loop {

TrainFeed::TrainFeed(const TrainerParts& parts)
    : parts_(parts),
      shards_(config::ShardsOf(parts.config.batch, parts.communicator.rank(), parts.communicator.world_size())),
      quarantine_(MakeRunQuarantine(*parts.data.train, parts.config.data,
                                    parts.files.quarantine(parts.communicator.rank()), "replaced", parts.control)) {}

void TrainFeed::Start(int64_t steps_done) {
  const DataSplit& train = *parts_.data.train;
  // Random draws depend on the number of a batch, so it counts from the start of the training, not of this program run.
  loader_ = std::make_unique<data::Loader>(*train.source, *train.decoder, Batches(),
                                           data::LoaderOptions{.decode_threads = parts_.config.data.workers,
                                                               .prefetch_batches = parts_.config.data.prefetch_batches,
                                                               .pin_memory = !parts_.device.is_cpu(),
                                                               .seed = parts_.config.batch.seed,
                                                               .first_batch = steps_done * PartsOfStep()},
                                           quarantine_.get());
  feed_.emplace(*loader_, data::MakeTransport(parts_.device),
                [this](data::Batch batch) { return Prepared(std::move(batch)); });
}

void TrainFeed::Stop() {
  feed_.reset();
  loader_.reset();
}

TrainFeed::Part TrainFeed::PartOf(int64_t number) const {
  const int64_t part = number % PartsOfStep(), micro_steps = parts_.plan.batch.grad_accum_steps;
  return {number / PartsOfStep(), shards_.first + part / micro_steps, part % micro_steps};
}

data::BatchProvider TrainFeed::Batches() const {
  return [this](int64_t number) -> std::optional<std::vector<data::SampleRef>> {
    const Part part = PartOf(number);
    if (part.step >= parts_.plan.total_steps) return std::nullopt;
    return parts_.train_batches.Share(part.step, part.shard, part.micro_step);
  };
}

// Some tasks draw random numbers for a batch by its number, which must be that of the shard then, not of the rank.
data::Batch TrainFeed::Prepared(data::Batch batch) const {
  if (config::IsElastic(parts_.config)) {
    const Part part = PartOf(batch.number);
    batch.number = part.step * shards_.total + part.shard;
  }
  return parts_.task.Prepared(std::move(batch));
}

}  // namespace dtrain::loop
