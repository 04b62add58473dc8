#include "trainer/report/predictions.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/report/csv.h"

namespace dtrain::report {
namespace {

// Returns the name of a label, or an empty string if it has none.
std::string NameOf(int64_t label, const std::vector<std::string>& names) {
  return label < static_cast<int64_t>(names.size()) ? names[static_cast<size_t>(label)] : "";
}

// Returns the shortest text that reads back as the float which the model has computed.
std::string Digits(double probability) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(probability)).ptr;
  return {buffer, end};
}

}  // namespace

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
            Digits(guess.probability);
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
      item["probability"] = std::stod(Digits(guess.probability));
      line["top"].push_back(item);
    }
  }
  return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::report
