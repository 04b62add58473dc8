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

// Returns the cells of a line, each with a comma behind it.
std::string Cells(const nlohmann::ordered_json& value) {
  if (!value.is_structured()) {
    return (value.is_number_float() ? ShortestText(value) : value.is_string() ? CsvField(value) : value.dump()) + ",";
  }
  std::string cells;
  for (const auto& cell : value) cells += Cells(cell);
  return cells;
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

double JsonNumber(double value) { return std::stod(ShortestText(value)); }

std::string JsonText(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string CsvText(const nlohmann::ordered_json& line) {
  std::string cells = Cells(line);
  cells.back() = '\n';
  return cells;
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
  constexpr size_t kCells = 1 + 3 * kGuesses;
  nlohmann::ordered_json cells = nlohmann::ordered_json::array({prediction.file});
  for (const Guess& guess : prediction.guesses) {
    cells.push_back(guess.label);
    cells.push_back(NameOf(guess.label, names));
    cells.push_back(guess.probability);
  }
  while (cells.size() < kCells) cells.push_back("");
  cells.push_back(prediction.error);
  return CsvText(cells);
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
      item["probability"] = JsonNumber(guess.probability);
      line["top"].push_back(item);
    }
  }
  return JsonText(line);
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

std::string SampleLines::NameOf(int64_t label) const {
  return label >= 0 && label < static_cast<int64_t>(names_.size()) ? names_[static_cast<size_t>(label)]
                                                                   : std::to_string(label);
}

std::string SampleLines::Line(const EvaluatedSample& sample) const {
  nlohmann::ordered_json line = {{"file", sample.file}};
  for (size_t i = 0; i < texts_.size(); ++i) line[texts_[i]] = sample.texts[i];
  if (guesses_ == 0) {
    line["label"] = JsonNumber(sample.target);
    line["prediction"] = JsonNumber(sample.value);
  } else {
    line["label"] = of_each_.empty() ? NameOf(static_cast<int64_t>(sample.target)) : sample.labels;
    line["prediction"] = of_each_.empty() ? NameOf(sample.guesses.front().label) : sample.predicted;
  }
  line["loss"] = JsonNumber(sample.loss);
  nlohmann::ordered_json guesses;
  for (const Guess& guess : sample.guesses) {
    if (!is_csv_) {
      guesses[NameOf(guess.label)] = JsonNumber(guess.probability);
    } else {
      if (of_each_.empty()) guesses.push_back(NameOf(guess.label));
      guesses.push_back(guess.probability);
    }
  }
  if (guesses_ > 0) line[of_each_ == "prediction_" ? "predictions" : "probabilities"] = std::move(guesses);
  return is_csv_ ? CsvText(line) : JsonText(line);
}

}  // namespace dtrain::report
