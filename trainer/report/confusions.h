// The results of an evaluation by class: CSV files for programs and for scripts/report.py, and a few lines for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/outputs.h"

namespace dtrain::report {

// How both files are known again.
inline const std::vector<data::Mark> kConfusionMarks = {{"true class,"}, {"class,samples,correct,"}};

// Tasks count confusions for no more classes: nobody reads a larger matrix, and every batch would add to it.
inline constexpr int64_t kMostClassesConfused = 2000;

// The 95 % interval of a share of samples, in percent (E. B. Wilson, 1927), which holds for few samples and near 0 and
// 100, too. `samples` is above 0.
struct Interval {
  double low, high;
};
Interval WilsonInterval(int64_t correct, int64_t samples);

// A confusion matrix. Classes without a name are shown as their labels.
class Confusions {
 public:
  // `counts` has classes² elements, a row for each true class; `names` are by label, and may be missing or empty.
  Confusions(std::vector<int64_t> counts, std::vector<std::string> names);

  // Returns confusion_matrix.csv: a header with "true class" and the predicted classes, and a line for each true class.
  std::string MatrixCsv() const;
  // Returns class_accuracy.csv: class,samples,correct,accuracy (percent),most_taken_for (another class, or
  // empty),times,precision,recall,f1 (percent; empty where nothing is divided by). The accuracy of a class is its
  // recall.
  std::string AccuracyCsv() const;
  // Returns a line for all samples, with the interval of their accuracy and what guessing the most frequent class would
  // give, and a line for each class that has samples, or for the 20 with the lowest accuracy if there are more.
  std::vector<std::string> Lines() const;

 private:
  struct Row {
    size_t label;
    int64_t samples, correct;
    int64_t taken;  // the samples of any class that were taken for it
    int64_t times;  // the number of its samples that were taken for `rival`
    size_t rival;   // the other class that its samples were most often taken for
    double recall() const { return 100.0 * static_cast<double>(correct) / static_cast<double>(samples); }
    double precision() const { return 100.0 * static_cast<double>(correct) / static_cast<double>(taken); }
    double f1() const { return 200.0 * static_cast<double>(correct) / static_cast<double>(samples + taken); }
  };
  int64_t At(size_t label, size_t predicted) const { return counts_[label * names_.size() + predicted]; }
  Row RowOf(size_t label) const;
  std::string WholeLine() const;

  std::vector<int64_t> counts_;
  std::vector<std::string> names_;  // by label, none empty
};

}  // namespace dtrain::report
