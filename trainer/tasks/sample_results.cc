#include "trainer/tasks/sample_results.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/csv.h"
#include "trainer/report/predictions.h"
#include "trainer/tasks/likeliest_classes.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kFewClasses = 10;

enum Column { kEvaluated, kTarget, kLoss, kFirstGuess };

int64_t GuessesOf(int64_t classes) { return classes <= kFewClasses ? classes : report::kGuesses; }

}  // namespace

SampleResults::SampleResults(int64_t rows, const Outcome& outcome, at::Device device)
    : outcome_(outcome),
      guesses_(outcome.several ? outcome.classes : GuessesOf(outcome.classes)),
      table_(at::zeros({rows, kFirstGuess + std::max<int64_t>(1, 2 * guesses_)},
                       at::TensorOptions(at::kDouble).device(device))) {}

void SampleResults::Add(const SampleOutputs& outputs) {
  const at::Tensor &targets = outputs.targets, &logits_NC = outputs.outputs_NC;
  const at::Tensor rows = at::zeros({outputs.index.size(0), table_.size(1)}, table_.options());
  rows.select(1, kEvaluated).fill_(1);
  if (!outcome_.several) rows.select(1, kTarget).copy_(targets);
  if (outcome_.several) {
    rows.select(1, kLoss).copy_(
        at::binary_cross_entropy_with_logits(logits_NC, targets, {}, {}, at::Reduction::None).mean(1));
    rows.slice(1, kFirstGuess, rows.size(1), 2).copy_(targets);
    rows.slice(1, kFirstGuess + 1, rows.size(1), 2).copy_(logits_NC.sigmoid());
  } else if (guesses_ == 0) {
    const at::Tensor values = logits_NC.squeeze(1);
    rows.select(1, kLoss).copy_((values - targets).square());
    rows.select(1, kFirstGuess).copy_(values);
  } else {
    const at::Tensor labels = LikeliestClasses(logits_NC, guesses_);
    rows.select(1, kLoss).copy_(at::cross_entropy_loss(logits_NC, targets, {}, at::Reduction::None));
    rows.slice(1, kFirstGuess, rows.size(1), 2).copy_(labels);
    rows.slice(1, kFirstGuess + 1, rows.size(1), 2).copy_(at::softmax(logits_NC, 1).gather(1, labels));
  }
  table_.index_copy_(0, outputs.index.to(table_.device(), at::kLong, /*non_blocking=*/true), rows);
}

void SampleResults::Gather(distributed::Communicator& communicator) {
  communicator.Sum(table_);
  table_ = table_.cpu();
}

void SampleResults::Write(const std::string& path, const DataSplit& split, const std::vector<std::string>& names,
                          bool byte_order_mark) const {
  const bool has_pairs =
      std::ranges::any_of(split.texts, [](const data::SentenceText& text) { return !text.pair.empty(); });
  std::vector<std::string> columns;
  if (split.words) columns = {"sentence", "word"};
  if (!split.texts.empty())
    columns = has_pairs ? std::vector<std::string>{"text", "pair"} : std::vector<std::string>{"text"};
  const report::SampleLines lines(std::filesystem::path(path).extension() == ".csv", guesses_, names, columns,
                                  outcome_.several);
  size_t sentence = 0;
  const auto cells = table_.accessor<double, 2>();
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& file) {
    if (byte_order_mark && !lines.Header().empty()) file.Append(report::kByteOrderMark);
    file.Append(lines.Header());
    for (int64_t index = 0; index < table_.size(0); ++index) {
      const auto row = cells[index];
      if (row[kEvaluated] == 0) continue;  // unreadable, or left out by --limit_val_steps
      report::EvaluatedSample sample{.file = split.words ? "" : split.source->Location(index),
                                     .target = row[kTarget],
                                     .loss = row[kLoss],
                                     .value = row[kFirstGuess]};
      for (int64_t guess = 0; guess < guesses_; ++guess) {
        const int64_t column = kFirstGuess + 2 * guess;
        sample.guesses.push_back({outcome_.several ? guess : static_cast<int64_t>(row[column]), row[column + 1]});
        if (!outcome_.several) continue;
        const auto add = [&](bool is_label, std::string& to) {
          if (is_label) to += (to.empty() ? "" : outcome_.separator) + names[static_cast<size_t>(guess)];
        };
        add(row[column] == 1, sample.labels);
        add(row[column + 1] >= outcome_.threshold, sample.predicted);
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
