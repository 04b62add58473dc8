#include "trainer/report/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace dtrain::report {
namespace {

// Returns the name of a label, or an empty string if it has none.
std::string NameOf(int64_t label, const std::vector<std::string>& names) {
  return label < static_cast<int64_t>(names.size()) ? names[static_cast<size_t>(label)] : "";
}

// ShortestText as a number of JSON. Not a number becomes null.
double Shortest(double value) { return std::stod(ShortestText(value)); }

std::string Dumped(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string CsvField(const std::string& text) {
  constexpr std::array<std::string_view, 12> kFormulas = {"=",  "+",  "-",  "@",  "\t", "\r",
                                                          "\n", "＝", "＋", "－", "＠", "'"};
  const bool is_formula =
      std::ranges::any_of(kFormulas, [&](std::string_view start) { return text.starts_with(start); });
  if (!is_formula && text.find_first_of(",;\t\"\r\n") == std::string::npos) return text;
  std::string quoted = is_formula ? "\"'" : "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string ShortestText(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr};
}

std::string CsvHeader() {
  std::string line = "file";
  for (int64_t rank = 1; rank <= kGuesses; ++rank) {
    const std::string number = std::to_string(rank);
    line += ",class_" + number + ",name_" + number + ",probability_" + number;
  }
  return line + ",error\n";
}

std::string CsvLine(const Prediction& prediction, const std::vector<std::string>& names) {
  std::string line = CsvField(prediction.file);
  for (size_t rank = 0; rank < static_cast<size_t>(kGuesses); ++rank) {
    if (rank >= prediction.guesses.size()) {
      line += ",,,";
      continue;
    }
    const Guess& guess = prediction.guesses[rank];
    line += "," + std::to_string(guess.label) + "," + CsvField(NameOf(guess.label, names)) + "," +
            ShortestText(guess.probability);
  }
  return line + "," + CsvField(prediction.error) + "\n";
}

std::string JsonLine(const Prediction& prediction, const std::vector<std::string>& names) {
  nlohmann::ordered_json line = {{"file", prediction.file}};
  if (!prediction.error.empty()) {
    line["error"] = prediction.error;
  } else {
    line["top"] = nlohmann::ordered_json::array();
    for (const Guess& guess : prediction.guesses) {
      nlohmann::ordered_json item = {{"class", guess.label}};
      if (const std::string name = NameOf(guess.label, names); !name.empty()) item["name"] = name;
      item["probability"] = Shortest(guess.probability);
      line["top"].push_back(item);
    }
  }
  return Dumped(line);
}

SampleLines::SampleLines(bool is_csv, int64_t guesses, std::vector<std::string> names, std::vector<std::string> texts,
                         std::string of_each)
    : is_csv_(is_csv),
      guesses_(guesses),
      names_(std::move(names)),
      texts_(std::move(texts)),
      of_each_(std::move(of_each)) {}

std::string SampleLines::Header() const {
  if (!is_csv_) return "";
  std::string line = "file";
  for (const std::string& name : texts_) line += "," + name;
  line += ",label,prediction,loss";
  for (int64_t number = 1; number <= guesses_; ++number) {
    if (!of_each_.empty()) {
      line += "," + CsvField(of_each_ + NameOf(number - 1));
      continue;
    }
    line += ",class_" + std::to_string(number) + ",probability_" + std::to_string(number);
  }
  return line + "\n";
}

std::string SampleLines::Line(const EvaluatedSample& sample) const {
  return is_csv_ ? CsvLine(sample) : JsonLine(sample);
}

std::string SampleLines::NameOf(int64_t label) const {
  return label >= 0 && label < static_cast<int64_t>(names_.size()) ? names_[static_cast<size_t>(label)]
                                                                   : std::to_string(label);
}

std::string SampleLines::LabelOf(const EvaluatedSample& sample) const {
  return of_each_.empty() ? NameOf(static_cast<int64_t>(sample.target)) : sample.labels;
}

std::string SampleLines::PredictionOf(const EvaluatedSample& sample) const {
  return of_each_.empty() ? NameOf(sample.guesses.front().label) : sample.predicted;
}

std::string SampleLines::CsvLine(const EvaluatedSample& sample) const {
  std::string line = CsvField(sample.file);
  for (const std::string& text : sample.texts) line += "," + CsvField(text);
  if (guesses_ == 0) {
    return line + "," + ShortestText(sample.target) + "," + ShortestText(sample.value) + "," +
           ShortestText(sample.loss) + "\n";
  }
  line += "," + CsvField(LabelOf(sample)) + "," + CsvField(PredictionOf(sample)) + "," + ShortestText(sample.loss);
  for (const Guess& guess : sample.guesses) {
    line += (of_each_.empty() ? "," + CsvField(NameOf(guess.label)) : "") + "," + ShortestText(guess.probability);
  }
  return line + "\n";
}

std::string SampleLines::JsonLine(const EvaluatedSample& sample) const {
  nlohmann::ordered_json line = {{"file", sample.file}};
  for (size_t i = 0; i < texts_.size(); ++i) line[texts_[i]] = sample.texts[i];
  if (guesses_ == 0) {
    line["label"] = Shortest(sample.target);
    line["prediction"] = Shortest(sample.value);
    line["loss"] = Shortest(sample.loss);
  } else {
    line["label"] = LabelOf(sample);
    line["prediction"] = PredictionOf(sample);
    line["loss"] = Shortest(sample.loss);
    for (const Guess& guess : sample.guesses) {
      line[of_each_ == "prediction_" ? "predictions" : "probabilities"][NameOf(guess.label)] =
          Shortest(guess.probability);
    }
  }
  return Dumped(line);
}

}  // namespace dtrain::report
