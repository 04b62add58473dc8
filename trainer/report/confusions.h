// What an evaluation says of single classes: files for programs and for scripts/report.py, and a few lines for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::report {

// How often samples of each class were taken for each class. Classes without a name are shown as their labels.
class Confusions {
 public:
  // `counts`: classes², a row for each true class.
  Confusions(std::vector<int64_t> counts, std::vector<std::string> names);

  // confusion_matrix.csv: "true class" and the predicted classes, then a line for each true class.
  std::string MatrixCsv() const;
  // class_accuracy.csv: class,samples,correct,accuracy (percent),most_taken_for (another class, if any),times
  std::string AccuracyCsv() const;
  // The classes with the lowest accuracy, a line each, of those that have samples; all of them where they are few.
  std::vector<std::string> Lines() const;

 private:
  struct Row {
    size_t label;
    int64_t samples, correct, times;  // times: taken for `rival`
    size_t rival;                     // the other class that it was most often taken for
    double accuracy() const { return 100.0 * static_cast<double>(correct) / static_cast<double>(samples); }
  };
  int64_t At(size_t label, size_t predicted) const { return counts_[label * names_.size() + predicted]; }
  Row RowOf(size_t label) const;

  std::vector<int64_t> counts_;
  std::vector<std::string> names_;  // one a class
};

}  // namespace dtrain::report
