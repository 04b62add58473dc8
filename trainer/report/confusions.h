// The results of an evaluation by class: CSV files for programs and for scripts/report.py, and a few lines for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::report {

// Tasks count confusions for no more classes: nobody reads a larger matrix, and every batch would add to it.
inline constexpr int64_t kMostClassesConfused = 2000;

// A confusion matrix. Classes without a name are shown as their labels.
class Confusions {
 public:
  // `counts` has classes² elements, a row for each true class; `names` are by label, and may be missing or empty.
  Confusions(std::vector<int64_t> counts, std::vector<std::string> names);

  // Returns confusion_matrix.csv: a header with "true class" and the predicted classes, and a line for each true class.
  std::string MatrixCsv() const;
  // Returns class_accuracy.csv: class,samples,correct,accuracy (percent),most_taken_for (another class, or empty),times
  std::string AccuracyCsv() const;
  // Returns a line for each class that has samples, or for the 20 with the lowest accuracy if there are more.
  std::vector<std::string> Lines() const;

 private:
  struct Row {
    size_t label;
    int64_t samples, correct, times;  // times: the number of samples that were taken for `rival`
    size_t rival;                     // the other class that its samples were most often taken for
    double accuracy() const { return 100.0 * static_cast<double>(correct) / static_cast<double>(samples); }
  };
  int64_t At(size_t label, size_t predicted) const { return counts_[label * names_.size() + predicted]; }
  Row RowOf(size_t label) const;

  std::vector<int64_t> counts_;
  std::vector<std::string> names_;  // by label, none empty
};

}  // namespace dtrain::report
