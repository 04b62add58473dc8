// The predictions of a model for images, as CSV or JSON lines for other programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::report {

struct Guess {
  int64_t label = 0;  // from 0
  double probability = 0;
};

struct Prediction {
  std::string file;
  std::vector<Guess> guesses;  // the most probable first
  std::string error = {};      // why there are no guesses; else empty
};

inline constexpr int64_t kGuesses = 5;

// CSV (RFC 4180): file, class_1, name_1, probability_1, … class_5, name_5, probability_5, error. Names come from
// `names` (by label), and are empty for labels without a name. A file that could not be read has a line, too. Both
// functions return a whole line with its line feed.
std::string CsvHeader();
std::string CsvLine(const Prediction& prediction, const std::vector<std::string>& names);
// Returns {"file": …, "top": [{"class": 3, "name": "cat", "probability": 0.9}, …]} or {"file": …, "error": …}.
std::string JsonLine(const Prediction& prediction, const std::vector<std::string>& names);

}  // namespace dtrain::report
