// What the loop hands to the checkpoints' writer, and when.
#pragma once

#include <chrono>

#include "trainer/checkpoint/async_writer.h"
#include "trainer/loop/phases.h"
#include "trainer/loop/trainer_parts.h"
#include "trainer/loop/training_state.h"
#include "trainer/optim/parameter_update.h"
#include "trainer/optim/weight_average.h"

namespace dtrain::loop {

// The step that saves waits for the copies to the host to be asked for, and for a file that is still being written.
class Saving {
 public:
  // `writer` is rank 0's, null on the others, which save nothing.
  Saving(const TrainerParts& parts, checkpoint::AsyncWriter* writer, Phases& phases)
      : parts_(parts), writer_(writer), phases_(phases) {}

  // The first step comes now.
  void Start() { last_ = std::chrono::steady_clock::now(); }
  // --save_every_seconds.
  bool IsDueByTime() const;

  // A checkpoint; `average` may be null.
  void Save(const Progress& progress, const optim::ParameterUpdate& update, const optim::WeightAverage* average);
  // The weights as the best so far.
  void SaveBest(int64_t step);
  // Until all is on the disk. Throws StorageError.
  void Finish();

  // For the logged line.
  void AddTo(report::TrainPoint& point) const;

 private:
  const TrainerParts& parts_;
  checkpoint::AsyncWriter* writer_;
  Phases& phases_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace dtrain::loop
