// The training batches of one rank, loaded and copied to its device.
#pragma once

#include <memory>
#include <optional>

#include "data/pipeline/device_feed.h"
#include "data/pipeline/loader.h"
#include "data/pipeline/quarantine.h"
#include "trainer/config/elastic.h"
#include "trainer/loop/trainer_parts.h"

namespace dtrain::loop {

class TrainFeed {
 public:
  explicit TrainFeed(const TrainerParts& parts);

  // Begins loading, with the batches of the step after `steps_done`.
  void Start(int64_t steps_done);
  void Stop();

  // Returns the batch of the next micro-step once it is loaded; work that the device gets from now on waits for its
  // copy. Not to be called beyond the end of the plan. Throws DataError if too many records are bad.
  data::Batch Next() { return *feed_->Next(); }

  // Whether loading has waited for storage more than for decoding.
  bool waits_for_storage() const { return loader_->waits_for_storage(); }

 private:
  // A part of a step that this rank computes: one micro-step of one of its shards.
  struct Part {
    int64_t step = 0, shard = 0, micro_step = 0;
  };
  // `number` counts this rank's batches from the start of the training.
  Part PartOf(int64_t number) const;
  int64_t PartsOfStep() const { return shards_.count() * parts_.plan.batch.grad_accum_steps; }
  data::BatchProvider Batches() const;
  data::Batch Prepared(data::Batch batch) const;

  const TrainerParts& parts_;
  const config::ShardRange shards_;
  std::unique_ptr<data::Quarantine> quarantine_;
  std::unique_ptr<data::Loader> loader_;
  std::optional<data::DeviceFeed> feed_;
};

}  // namespace dtrain::loop
