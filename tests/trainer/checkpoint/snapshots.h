// Small snapshots whose contents follow from the step.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "tests/trainer/in_memory.h"
#include "trainer/checkpoint/store.h"

namespace dtrain::checkpoint {

inline Snapshot MakeSnapshot(int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.model = {{"fc.bias", at::full({3}, static_cast<double>(step))}, {"fc.weight", at::arange(6, at::kFloat)}};
  snapshot.optimizer = {{"momentum.fc.bias", at::full({3}, 0.5 * static_cast<double>(step))}};
  snapshot.average = {{"fc.bias", at::full({3}, 0.25 * static_cast<double>(step))}};
  snapshot.state = {{"epoch", 1.25}, {"seed", 7}, {"step", step}};
  return snapshot;
}

// Returns whether the checkpoint holds the snapshot that MakeSnapshot makes for its step.
inline bool HoldsItsSnapshot(const Checkpoint& checkpoint) {
  const Snapshot expected = MakeSnapshot(checkpoint.step);
  const Snapshot found = Load(checkpoint);
  if (found.step != expected.step || found.state != expected.state) return false;
  if (found.model.size() != expected.model.size() || found.optimizer.size() != expected.optimizer.size()) return false;
  for (size_t i = 0; i < found.model.size(); ++i) {
    if (!at::equal(found.model[i].second, expected.model[i].second)) return false;
  }
  return at::equal(found.optimizer[0].second, expected.optimizer[0].second) && found.average.size() == 1 &&
         at::equal(found.average[0].second, expected.average[0].second);
}

}  // namespace dtrain::checkpoint
