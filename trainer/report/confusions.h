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

// What an evaluation found of one class.
struct ClassScores {
  std::string name;
  int64_t samples = 0, correct = 0;  // that are of the class, and how many of these were recognised
  int64_t taken = 0;                 // that were taken for it
  std::string rival = {};            // the other class that its samples were most often taken for
  int64_t times = 0;                 // the number of these
  // In percent.
  double recall() const { return 100.0 * static_cast<double>(correct) / static_cast<double>(samples); }
  double precision() const { return 100.0 * static_cast<double>(correct) / static_cast<double>(taken); }
  double f1() const { return 200.0 * static_cast<double>(correct) / static_cast<double>(samples + taken); }
};

// Returns class_accuracy.csv: class,samples,correct,accuracy (percent),most_taken_for (another class, or
// empty),times,precision,recall,f1 (percent; empty where nothing is divided by). The accuracy of a class is its recall.
std::string ScoresCsv(const std::vector<ClassScores>& scores);
// Returns a line for each class that has samples, or for the 20 with the lowest recall if there are more.
std::vector<std::string> ScoreLines(std::vector<ClassScores> scores);

// A confusion matrix. Classes without a name are shown as their labels.
class Confusions {
 public:
  // `counts` has classes² elements, a row for each true class; `names` are by label, and may be missing or empty.
  Confusions(std::vector<int64_t> counts, std::vector<std::string> names);

  // Returns confusion_matrix.csv: a header with "true class" and the predicted classes, and a line for each true class.
  std::string MatrixCsv() const;
  std::vector<ClassScores> Scores() const;  // by label
  // Returns a line for all samples, with the interval of their accuracy and what guessing the most frequent class would
  // give, and ScoreLines.
  std::vector<std::string> Lines() const;

 private:
  int64_t At(size_t label, size_t predicted) const { return counts_[label * names_.size() + predicted]; }
  ClassScores ScoresOf(size_t label) const;
  static std::string WholeLine(const std::vector<ClassScores>& scores);

  std::vector<int64_t> counts_;
  std::vector<std::string> names_;  // by label, none empty
};

}  // namespace dtrain::report
