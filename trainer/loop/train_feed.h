// The training batches of one rank, on their way to its device: SplitBatches chooses the samples, the loader reads and
// decodes them, the task prepares the batch on the host, and the feed copies it.
#pragma once

#include <memory>
#include <optional>

#include "data/pipeline/device_feed.h"
#include "data/pipeline/loader.h"
#include "data/pipeline/quarantine.h"
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
  const TrainerParts& parts_;
  std::unique_ptr<data::Quarantine> quarantine_;
  std::unique_ptr<data::Loader> loader_;
  std::optional<data::DeviceFeed> feed_;
};

}  // namespace dtrain::loop
