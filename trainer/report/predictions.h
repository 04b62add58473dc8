// What a model makes of images, as a table for other programs.
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
  std::vector<Guess> guesses;  // the likeliest first
  std::string error = {};      // why there are none
};

inline constexpr int64_t kGuesses = 5;

// Class numbers, and names where `names` (by label) has them. A file that could not be read has a line like the others.
// CSV (RFC 4180): file, class_1, name_1, probability_1, … class_5, name_5, probability_5, error.
std::string CsvHeader();
std::string CsvLine(const Prediction& prediction, const std::vector<std::string>& names);
// {"file": …, "top": [{"class": 3, "name": "cat", "probability": 0.9}, …]}, or {"file": …, "error": …}
std::string JsonLine(const Prediction& prediction, const std::vector<std::string>& names);

}  // namespace dtrain::report
