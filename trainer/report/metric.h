// A number that tells how good a model is. Each task lists its metrics; everything else (console, JSON, checkpoints,
// the choice of the best weights) uses that list and knows no metric by name.
#pragma once

#include <string>
#include <vector>

namespace dtrain::report {

struct Metric {
  std::string name;  // the key: "top1" is val_top1 in result.json
  double value = 0;
  int decimals = 4;  // in text; JSON has all digits
  bool higher_is_better = false;
  // Its column in --log_format=table: the heading with the spaces before it, and the number of decimals. If the heading
  // is empty, the column uses `name` and `decimals`.
  std::string table_heading = {};
  int table_decimals = 0;

  bool operator==(const Metric&) const = default;
};

// Metrics in the order in which they are shown.
using Metrics = std::vector<Metric>;

// Whether `candidate` is a better value. NaN is never better, any number is better than NaN, and better than the value
// of another metric, which decided before.
bool IsBetter(const Metric& candidate, const Metric& known);

}  // namespace dtrain::report
