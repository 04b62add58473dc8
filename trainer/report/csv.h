// The tables of predictions that other programs read, as CSV (RFC 4180) or JSON lines, and fields of CSV files that
// spreadsheets show as they are.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/outputs.h"

namespace dtrain::report {

// What a CSV file begins with if Excel is to know that it is UTF-8.
inline constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

// Returns `text` as a field, in quotes if it contains a separator, a quote or the end of a line. The names of classes
// and files come from outside, and a spreadsheet would compute "=1+1". So a text that begins with = + - @ (also in full
// width), a tab, or the end of a line gets a ' in front, as OWASP advises against CSV injection
// (https://owasp.org/www-community/attacks/CSV_Injection), and so does one that begins with ': readers get the text
// back by removing one leading '.
std::string CsvField(const std::string& text);

// Returns the shortest text that reads back as the float which a model has computed.
std::string ShortestText(double value);
// The same as a number of JSON. What is not a number becomes null there.
double JsonNumber(double value);

// Return an object as a line of JSON, in which bytes that are no UTF-8 are replaced, and its texts and numbers, however
// deep in it, as a line of CSV: whole lines with their line feeds.
std::string JsonText(const nlohmann::ordered_json& line);
std::string CsvText(const nlohmann::ordered_json& line);

struct Guess {
  int64_t label = 0;       // from 0
  double probability = 0;  // or the number that is predicted
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

// How files of such lines are known again.
inline const std::vector<data::Mark> kPredictionMarks = {
    {"file,class_1,name_1,"}, {"{\"file\":", "\"top\":["}, {"{\"file\":", "\"error\":"}};

// What an evaluation found for each sample, as CSV or JSON lines (--predictions) for scripts/report.py and for people.
struct EvaluatedSample {
  std::string file;                         // where the sample lies: a path, with " at byte N" in a shard
  std::vector<std::string> texts = {};      // the cells of the columns of texts
  double target = 0;                        // the label, from 0, or the number to predict
  double loss = 0;                          // of this sample
  std::vector<Guess> guesses = {};          // the most probable first; none of a single number
  double value = 0;                         // the number that is predicted
  std::string labels = {}, predicted = {};  // of several labels or numbers, in one text; guesses are by label
};

// How files of such lines are known again.
inline const std::vector<data::Mark> kSampleMarks = {{"file,label,prediction,loss"},
                                                     {"file,text,label,prediction,loss"},
                                                     {"file,text,pair,label,prediction,loss"},
                                                     {"{\"file\":", "\"loss\":"}};

// Writes the lines of one table; each function returns a whole line with its line feed.
class SampleLines {
 public:
  // `guesses` are those of each sample, 0 for a single number; `names` are the classes by label, and may be empty.
  // `texts` are the names of columns of texts: text and pair, or sentence and word. `of_each`: if a sample has several
  // labels or numbers, the beginning of the names of their columns, probability_ or prediction_.
  SampleLines(bool is_csv, int64_t guesses, std::vector<std::string> names, std::vector<std::string> texts,
              std::string of_each = {});

  // CSV (RFC 4180): file,[text,[pair,]]label,prediction,loss,class_1,probability_1,… or, with several labels
  // or numbers, probability_NAME or prediction_NAME for each. Empty for JSON lines.
  std::string Header() const;
  // JSON: {"file": …, "text": …, "pair": …, "label": "cat", "prediction": "dog", "loss": 2.1,
  // "probabilities": {"dog": 0.9, …}}; a single number has numbers as label and prediction, and no probabilities,
  // several have "predictions": {"x": 0.9, …}.
  std::string Line(const EvaluatedSample& sample) const;

 private:
  std::string NameOf(int64_t label) const;

  const bool is_csv_;
  const int64_t guesses_;
  const std::vector<std::string> names_;
  const std::vector<std::string> texts_;
  const std::string of_each_;
};

}  // namespace dtrain::report
