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

Interval WilsonInterval(int64_t correct, int64_t samples) {
  constexpr double kDeviations = 1.959964;  // of the normal distribution, for 95 %
  const auto n = static_cast<double>(samples);
  const double share = static_cast<double>(correct) / n, square = kDeviations * kDeviations;
  const double centre = share + square / (2 * n), scale = 1 + square / n;
  const double half = kDeviations * std::sqrt(share * (1 - share) / n + square / (4 * n * n));
  return {std::max(0.0, 100 * (centre - half) / scale), std::min(100.0, 100 * (centre + half) / scale)};
}

Confusions::Row Confusions::RowOf(size_t label) const {
  Row row{.label = label, .samples = 0, .correct = At(label, label), .taken = 0, .times = 0, .rival = label};
  for (size_t predicted = 0; predicted < names_.size(); ++predicted) {
    const int64_t count = At(label, predicted);
    row.samples += count;
    row.taken += At(predicted, label);
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
  std::string text = "class,samples,correct,accuracy,most_taken_for,times,precision,recall,f1\n";
  for (size_t label = 0; label < names_.size(); ++label) {
    const Row row = RowOf(label);
    text += CsvField(names_[label]) + "," + std::to_string(row.samples) + "," + std::to_string(row.correct) + "," +
            (row.samples > 0 ? Percent(row.recall()) : "") + "," + (row.times > 0 ? CsvField(names_[row.rival]) : "") +
            "," + std::to_string(row.times) + "," + (row.taken > 0 ? Percent(row.precision()) : "") + "," +
            (row.samples > 0 ? Percent(row.recall()) : "") + "," +
            (row.samples + row.taken > 0 ? Percent(row.f1()) : "") + "\n";
  }
  return text;
}

// "accuracy 93.33 % of 300 samples, 95 % interval 89.94 to 95.64; always guessing 'cat', the most frequent class: …"
std::string Confusions::WholeLine() const {
  int64_t samples = 0, correct = 0;
  Row most = RowOf(0);
  for (size_t label = 0; label < names_.size(); ++label) {
    const Row row = RowOf(label);
    samples += row.samples;
    correct += row.correct;
    if (row.samples > most.samples) most = row;
  }
  const auto share = [samples](int64_t count) {
    return Percent(100.0 * static_cast<double>(count) / static_cast<double>(samples));
  };
  const Interval interval = WilsonInterval(correct, samples);
  return "accuracy " + share(correct) + " % of " + std::to_string(samples) + " samples, 95 % interval " +
         Percent(interval.low) + " to " + Percent(interval.high) + " %; always guessing '" + Shown(names_[most.label]) +
         "', the most frequent class: " + share(most.samples) + " %";
}

std::vector<std::string> Confusions::Lines() const {
  std::vector<Row> rows;
  size_t width = 0;
  for (size_t label = 0; label < names_.size(); ++label) {
    if (const Row row = RowOf(label); row.samples > 0) rows.push_back(row);
  }
  const size_t classes = rows.size();
  if (classes > kMostLines) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.recall() < b.recall(); });
    rows.resize(kMostLines);
  }
  for (const Row& row : rows) width = std::max(width, Shown(names_[row.label]).size());
  std::vector<std::string> lines;
  if (!rows.empty()) lines.push_back(WholeLine());
  if (classes > kMostLines) {
    lines.push_back("the " + std::to_string(kMostLines) + " classes with the lowest recall, of " +
                    std::to_string(classes) + ":");
  }
  for (const Row& row : rows) {
    const std::string name = Shown(names_[row.label]);
    std::string line = "  " + name + std::string(width - name.size(), ' ') + "  recall " + Percent(row.recall()) +
                       " % of " + std::to_string(row.samples) +
                       (row.taken > 0 ? ", precision " + Percent(row.precision()) + " %" : ", never predicted") +
                       ", F1 " + Percent(row.f1()) + " %";
    if (row.times > 0)
      line += ", most often taken for " + Shown(names_[row.rival]) + " (" + std::to_string(row.times) + ")";
    lines.push_back(line);
  }
  return lines;
}

}  // namespace dtrain::report
