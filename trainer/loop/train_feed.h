// The batches of training as one rank gets them: loaded, and on the device.
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

  // Loading begins, with the batches of the step after `steps_done`.
  void Start(int64_t steps_done);
  void Stop();

  // One for each micro-step, to the end of the plan; waits until it has arrived. Throws DataError.
  data::Batch Next() { return *feed_->Next(); }

  // Whether the loader has waited for storage rather than for its decoders.
  bool waits_for_storage() const { return loader_->waits_for_storage(); }

 private:
  data::BatchProvider Batches() const;

  const TrainerParts& parts_;
  std::unique_ptr<data::Quarantine> quarantine_;
  std::unique_ptr<data::Loader> loader_;
  std::optional<data::DeviceFeed> feed_;
};

}  // namespace dtrain::loop
