#include "trainer/report/confusions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/formats/table_writer.h"
#include "data/shown.h"
#include "trainer/report/log.h"

namespace dtrain::report {
namespace {

using data::CsvField;

constexpr size_t kMostLines = 20;

std::string Percent(double value) { return Format("%.2f", value); }

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

ClassScores Confusions::ScoresOf(size_t label) const {
  ClassScores scores{.name = names_[label], .correct = At(label, label)};
  for (size_t predicted = 0; predicted < names_.size(); ++predicted) {
    const int64_t count = At(label, predicted);
    scores.samples += count;
    scores.taken += At(predicted, label);
    if (predicted != label && count > scores.times) {
      scores.times = count;
      scores.rival = names_[predicted];
    }
  }
  return scores;
}

std::vector<ClassScores> Confusions::Scores() const {
  std::vector<ClassScores> scores;
  for (size_t label = 0; label < names_.size(); ++label) scores.push_back(ScoresOf(label));
  return scores;
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

std::string ScoresCsv(const std::vector<ClassScores>& scores) {
  std::string text = "class,samples,correct,accuracy,most_taken_for,times,precision,recall,f1\n";
  for (const ClassScores& row : scores) {
    text += CsvField(row.name) + "," + std::to_string(row.samples) + "," + std::to_string(row.correct) + "," +
            (row.samples > 0 ? Percent(row.recall()) : "") + "," + (row.times > 0 ? CsvField(row.rival) : "") + "," +
            std::to_string(row.times) + "," + (row.taken > 0 ? Percent(row.precision()) : "") + "," +
            (row.samples > 0 ? Percent(row.recall()) : "") + "," +
            (row.samples + row.taken > 0 ? Percent(row.f1()) : "") + "\n";
  }
  return text;
}

std::vector<std::string> ScoreLines(std::vector<ClassScores> scores) {
  std::erase_if(scores, [](const ClassScores& row) { return row.samples == 0; });
  std::vector<std::string> lines;
  if (const size_t classes = scores.size(); classes > kMostLines) {
    std::ranges::stable_sort(scores, {}, [](const ClassScores& row) { return row.recall(); });
    scores.resize(kMostLines);
    lines.push_back("the " + std::to_string(kMostLines) + " classes with the lowest recall, of " +
                    std::to_string(classes) + ":");
  }
  size_t width = 0;
  for (const ClassScores& row : scores) width = std::max(width, Shown(row.name).size());
  for (const ClassScores& row : scores) {
    const std::string name = Shown(row.name);
    lines.push_back(
        "  " + name + std::string(width - name.size(), ' ') + "  recall " + Percent(row.recall()) + " % of " +
        std::to_string(row.samples) +
        (row.taken > 0 ? ", precision " + Percent(row.precision()) + " %" : ", never predicted") + ", F1 " +
        Percent(row.f1()) + " %" +
        (row.times > 0 ? ", most often taken for " + Shown(row.rival) + " (" + std::to_string(row.times) + ")" : ""));
  }
  return lines;
}

// "accuracy 93.33 % of 300 samples, 95 % interval 89.94 to 95.64; always guessing 'cat', the most frequent class: …"
std::string Confusions::WholeLine(const std::vector<ClassScores>& scores) {
  int64_t samples = 0, correct = 0;
  for (const ClassScores& row : scores) {
    samples += row.samples;
    correct += row.correct;
  }
  const ClassScores& most = *std::ranges::max_element(scores, {}, &ClassScores::samples);
  const auto share = [samples](int64_t count) {
    return Percent(100.0 * static_cast<double>(count) / static_cast<double>(samples));
  };
  const Interval interval = WilsonInterval(correct, samples);
  return "accuracy " + share(correct) + " % of " + std::to_string(samples) + " samples, 95 % interval " +
         Percent(interval.low) + " to " + Percent(interval.high) + " %; always guessing '" + Shown(most.name) +
         "', the most frequent class: " + share(most.samples) + " %";
}

std::vector<std::string> Confusions::Lines() const {
  const std::vector<ClassScores> scores = Scores();
  std::vector<std::string> lines = ScoreLines(scores);
  if (!lines.empty()) lines.insert(lines.begin(), WholeLine(scores));
  return lines;
}

}  // namespace dtrain::report
