#include "trainer/loop/train_feed.h"

#include <utility>

#include "trainer/config/batch_sizes.h"
#include "trainer/loop/run_quarantine.h"

namespace dtrain::loop {

TrainFeed::TrainFeed(const TrainerParts& parts)
    : parts_(parts),
      quarantine_(MakeRunQuarantine(*parts.data.train, parts.config.data,
                                    parts.files.quarantine(parts.communicator.rank()), "replaced", parts.control)) {}

void TrainFeed::Start(int64_t steps_done) {
  const tasks::DataSplit& train = *parts_.data.train;
  const config::ShardRange shards =
      config::DivisionOf(parts_.plan.batch.shards, parts_.communicator.rank(), parts_.communicator.world_size());
  loader_ = std::make_unique<data::Loader>(
      *train.source, *train.decoder, parts_.train_batches.BatchesOf(shards, parts_.plan.total_steps),
      data::LoaderOptions{.decode_threads = parts_.config.data.workers,
                          .prefetch_batches = parts_.config.data.prefetch_batches,
                          .pin_memory = !parts_.device.is_cpu(),
                          .seed = parts_.config.batch.seed,
                          .first_batch = steps_done * shards.count() * parts_.plan.batch.grad_accum_steps},
      quarantine_.get());
  feed_.emplace(*loader_, data::MakeTransport(parts_.device),
                [&task = parts_.task](data::Batch batch) { return task.Prepared(std::move(batch)); });
}

void TrainFeed::Stop() {
  feed_.reset();
  loader_.reset();
}

}  // namespace dtrain::loop
