// One number that says how good a model is. A task lists its own, and everything else (console, JSON, checkpoints,
// which weights are the best) goes through that list without knowing their names.
#pragma once

#include <string>
#include <vector>

namespace dtrain::report {

struct Metric {
  std::string name;  // the key: "top1" is val_top1 in result.json
  double value = 0;
  int decimals = 4;  // in text; JSON has every digit
  bool higher_is_better = false;
  // In the table of --log_format=table: the heading, with the spaces before it, and the decimals of its column. Without
  // a heading the column is made of the name and the decimals above.
  std::string table_heading = {};
  int table_decimals = 0;

  bool operator==(const Metric&) const = default;
};

// In the order in which they are shown. The first one says which weights are the best.
using Metrics = std::vector<Metric>;

// Whether `candidate` is a better value of the same metric. NaN is never better, and any number is better than NaN.
bool IsBetter(const Metric& candidate, const Metric& known);

}  // namespace dtrain::report
