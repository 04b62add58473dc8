#include "trainer/report/confusions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "data/shown.h"
#include "trainer/report/csv.h"

namespace dtrain::report {
namespace {

constexpr size_t kMostLines = 20;

std::string Percent(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", value);
  return text;
}

}  // namespace

Confusions::Confusions(std::vector<int64_t> counts, std::vector<std::string> names)
    : counts_(std::move(counts)), names_(std::move(names)) {
  const auto classes = static_cast<size_t>(std::llround(std::sqrt(static_cast<double>(counts_.size()))));
  names_.resize(classes);
  for (size_t i = 0; i < classes; ++i) {
    if (names_[i].empty()) names_[i] = std::to_string(i);
  }
}

Confusions::Row Confusions::RowOf(size_t label) const {
  Row row{.label = label, .samples = 0, .correct = At(label, label), .times = 0, .rival = label};
  for (size_t predicted = 0; predicted < names_.size(); ++predicted) {
    const int64_t count = At(label, predicted);
    row.samples += count;
    if (predicted != label && count > row.times) {
      row.times = count;
      row.rival = predicted;
    }
  }
  return row;
}

std::string Confusions::MatrixCsv() const {
  std::string text = "true class";
  for (const std::string& name : names_) text += "," + CsvField(name);
  text += "\n";
  for (size_t label = 0; label < names_.size(); ++label) {
    text += CsvField(names_[label]);
    for (size_t predicted = 0; predicted < names_.size(); ++predicted)
      text += "," + std::to_string(At(label, predicted));
    text += "\n";
  }
  return text;
}

std::string Confusions::AccuracyCsv() const {
  std::string text = "class,samples,correct,accuracy,most_taken_for,times\n";
  for (size_t label = 0; label < names_.size(); ++label) {
    const Row row = RowOf(label);
    text += CsvField(names_[label]) + "," + std::to_string(row.samples) + "," + std::to_string(row.correct) + "," +
            (row.samples > 0 ? Percent(row.accuracy()) : "") + "," +
            (row.times > 0 ? CsvField(names_[row.rival]) : "") + "," + std::to_string(row.times) + "\n";
  }
  return text;
}

std::vector<std::string> Confusions::Lines() const {
  std::vector<Row> rows;
  size_t width = 0;
  for (size_t label = 0; label < names_.size(); ++label) {
    if (const Row row = RowOf(label); row.samples > 0) rows.push_back(row);
  }
  const size_t classes = rows.size();
  if (classes > kMostLines) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.accuracy() < b.accuracy(); });
    rows.resize(kMostLines);
  }
  for (const Row& row : rows) width = std::max(width, Shown(names_[row.label]).size());
  std::vector<std::string> lines;
  if (classes > kMostLines) {
    lines.push_back("the " + std::to_string(kMostLines) + " classes with the lowest accuracy, of " +
                    std::to_string(classes) + ":");
  }
  for (const Row& row : rows) {
    const std::string name = Shown(names_[row.label]);
    std::string line = "  " + name + std::string(width - name.size(), ' ') + "  " + Percent(row.accuracy()) + " % of " +
                       std::to_string(row.samples);
    if (row.times > 0)
      line += ", most often taken for " + Shown(names_[row.rival]) + " (" + std::to_string(row.times) + ")";
    lines.push_back(line);
  }
  return lines;
}

}  // namespace dtrain::report
