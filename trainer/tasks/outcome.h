// What a model's outputs for a sample mean, for the files that tell people what was predicted.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/record_source.h"
#include "trainer/config/config.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::tasks {

struct Outcome {
  data::LabelKind labels = data::LabelKind::kClass;
  int64_t outputs = 1;          // classes or numbers
  double threshold = 0.5;       // of several labels: the probability from which one is decided for
  std::string separator = ",";  // between several labels or numbers in a cell

  bool has_classes() const { return labels != data::LabelKind::kNumbers; }
  // Whether there is a column for each output, beside the one with what was predicted.
  bool has_columns() const { return has_classes() || outputs > 1; }
  // The beginning of these columns' names.
  const char* column() const { return has_classes() ? "probability_" : "prediction_"; }
};

inline Outcome OutcomeOf(const config::Config& config, int64_t outputs) {
  const TaskKind& kind = KindOf(config);
  Outcome outcome{.outputs = outputs, .threshold = config.data.label_threshold};
  if (kind.predicts_several()) outcome.labels = data::LabelKind::kSeveral;
  if (kind.predicts_number()) outcome.labels = data::LabelKind::kNumbers;
  if (!config.data.label_separator.empty()) outcome.separator = config.data.label_separator;
  return outcome;
}

// Returns the names of the outputs. Classes may have none, but several labels and numbers are counted then.
inline std::vector<std::string> OutputNames(const Outcome& outcome, std::vector<std::string> names) {
  if (!names.empty() || outcome.labels == data::LabelKind::kClass) return names;
  for (int64_t output = 0; output < outcome.outputs; ++output) names.push_back(std::to_string(output));
  return names;
}

}  // namespace dtrain::tasks
