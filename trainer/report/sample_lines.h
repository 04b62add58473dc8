// What an evaluation found for each sample, as CSV or JSON lines (--predictions) for scripts/report.py and for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/predictions.h"

namespace dtrain::report {

struct EvaluatedSample {
  std::string file;                                 // where the sample lies: a path, with " at byte N" in a shard
  std::optional<std::string> text = {}, pair = {};  // of sentences
  double target = 0;                                // the label, from 0, or the number to predict
  double loss = 0;                                  // of this sample
  std::vector<Guess> guesses = {};                  // the most probable first; none in a regression
  double value = 0;                                 // the prediction of a regression
};

// Writes the lines of one table; each function returns a whole line with its line feed.
class SampleLines {
 public:
  // `guesses` are those of each sample, 0 for a regression; `names` are the classes by label, and may be empty. `texts`
  // and `pairs`: whether samples have these.
  SampleLines(bool is_csv, int64_t guesses, std::vector<std::string> names, bool texts, bool pairs);

  // CSV (RFC 4180): file,[text,[pair,]]label,prediction,loss,class_1,probability_1,… Empty for JSON lines.
  std::string Header() const;
  // JSON: {"file": …, "text": …, "pair": …, "label": "cat", "prediction": "dog", "loss": 2.1,
  // "probabilities": {"dog": 0.9, …}}; a regression has numbers as label and prediction, and no probabilities.
  std::string Line(const EvaluatedSample& sample) const;

 private:
  std::string NameOf(int64_t label) const;
  std::string CsvLine(const EvaluatedSample& sample) const;
  std::string JsonLine(const EvaluatedSample& sample) const;

  const bool is_csv_;
  const int64_t guesses_;
  const std::vector<std::string> names_;
  const bool texts_, pairs_;
};

}  // namespace dtrain::report
