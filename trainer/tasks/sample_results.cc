#include "trainer/tasks/sample_results.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/csv.h"
#include "trainer/tasks/likeliest_classes.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kFewClasses = 10;

enum Column { kEvaluated, kClass, kLoss, kFirstGuess };

int64_t GuessesOf(const Outcome& outcome) {
  const bool has_likeliest = outcome.labels == data::LabelKind::kClass && outcome.outputs > kFewClasses;
  return has_likeliest ? report::kGuesses : outcome.outputs;
}

}  // namespace

SampleResults::SampleResults(int64_t rows, const Outcome& outcome, at::Device device)
    : outcome_(outcome),
      guesses_(GuessesOf(outcome)),
      table_(at::zeros({rows, kFirstGuess + 2 * guesses_}, at::TensorOptions(at::kDouble).device(device))) {}

void SampleResults::Add(const SampleOutputs& outputs) {
  const at::Tensor &targets = outputs.targets, &outputs_NC = outputs.outputs_NC;
  const at::Tensor rows = at::zeros({outputs.index.size(0), table_.size(1)}, table_.options());
  rows.select(1, kEvaluated).fill_(1);
  at::Tensor losses_N, of_guesses = outputs_NC, wanted = targets;
  if (outcome_.labels == data::LabelKind::kClass) {
    rows.select(1, kClass).copy_(targets);
    wanted = LikeliestClasses(outputs_NC, guesses_);
    losses_N = at::cross_entropy_loss(outputs_NC, targets, {}, at::Reduction::None);
    of_guesses = at::softmax(outputs_NC, 1).gather(1, wanted);
  } else if (outcome_.labels == data::LabelKind::kSeveral) {
    losses_N = at::binary_cross_entropy_with_logits(outputs_NC, targets, {}, {}, at::Reduction::None).mean(1);
    of_guesses = outputs_NC.sigmoid();
  } else {
    wanted = targets.view_as(outputs_NC);
    losses_N = (outputs_NC - wanted).square().mean(1);
  }
  rows.select(1, kLoss).copy_(losses_N);
  rows.slice(1, kFirstGuess, rows.size(1), 2).copy_(wanted);
  rows.slice(1, kFirstGuess + 1, rows.size(1), 2).copy_(of_guesses);
  table_.index_copy_(0, outputs.index.to(table_.device(), at::kLong, /*non_blocking=*/true), rows);
}

void SampleResults::Gather(distributed::Communicator& communicator) {
  communicator.Sum(table_);
  table_ = table_.cpu();
}

void SampleResults::Write(const std::string& path, const DataSplit& split, const std::vector<std::string>& known_names,
                          bool byte_order_mark) const {
  const std::vector<std::string> names = OutputNames(outcome_, known_names);
  const bool has_pairs =
      std::ranges::any_of(split.texts, [](const data::SentenceText& text) { return !text.pair.empty(); });
  std::vector<std::string> columns;
  if (split.words) columns = {"sentence", "word"};
  if (!split.texts.empty())
    columns = has_pairs ? std::vector<std::string>{"text", "pair"} : std::vector<std::string>{"text"};
  const bool is_class = outcome_.labels == data::LabelKind::kClass, has_columns = outcome_.has_columns();
  const report::SampleLines lines(std::filesystem::path(path).extension() == ".csv", has_columns ? guesses_ : 0, names,
                                  columns, is_class ? "" : outcome_.column());
  size_t sentence = 0;
  const auto cells = table_.accessor<double, 2>();
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& file) {
    if (byte_order_mark && !lines.Header().empty()) file.Append(report::kByteOrderMark);
    file.Append(lines.Header());
    for (int64_t index = 0; index < table_.size(0); ++index) {
      const auto row = cells[index];
      if (row[kEvaluated] == 0) continue;  // unreadable, or left out by --limit_val_steps
      report::EvaluatedSample sample{.file = split.words ? "" : split.source->Location(index),
                                     .target = is_class ? row[kClass] : row[kFirstGuess],
                                     .loss = row[kLoss],
                                     .value = row[kFirstGuess + 1]};
      for (int64_t guess = 0; guess < guesses_; ++guess) {
        const int64_t column = kFirstGuess + 2 * guess;
        sample.guesses.push_back({is_class ? static_cast<int64_t>(row[column]) : guess, row[column + 1]});
        const auto add = [&](double value, double least, std::string& to) {
          const bool is_number = !outcome_.has_classes();
          if (!is_number && value < least) return;
          to += (to.empty() ? "" : outcome_.separator) +
                (is_number ? report::ShortestText(value) : names[static_cast<size_t>(guess)]);
        };
        if (is_class || !has_columns) continue;
        add(row[column], 1, sample.labels);
        add(row[column + 1], outcome_.threshold, sample.predicted);
      }
      const auto place = static_cast<size_t>(index);
      if (!split.texts.empty()) {
        sample.texts = {split.texts[place].text};
        if (has_pairs) sample.texts.push_back(split.texts[place].pair);
      }
      if (split.words) {
        while (split.words->ends[sentence] <= index) ++sentence;
        sample.file = split.source->Place(0).file + " line " + std::to_string(split.words->places[place].line);
        sample.texts = {std::to_string(sentence + 1), split.words->texts[place]};
      }
      file.Append(lines.Line(sample));
    }
  });
}

}  // namespace dtrain::tasks
