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

SampleResults::SampleResults(int64_t samples, int64_t classes, at::Device device)
    : guesses_(GuessesOf(classes)),
      table_(at::zeros({samples, kFirstGuess + std::max<int64_t>(1, 2 * guesses_)},
                       at::TensorOptions(at::kDouble).device(device))) {}

void SampleResults::Add(const SampleOutputs& outputs) {
  const at::Tensor &targets = outputs.targets, &logits_NC = outputs.outputs_NC;
  const at::Tensor rows = at::zeros({outputs.index.size(0), table_.size(1)}, table_.options());
  rows.select(1, kEvaluated).fill_(1);
  rows.select(1, kTarget).copy_(targets);
  if (guesses_ == 0) {
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
  const bool has_pairs = std::any_of(split.texts.begin(), split.texts.end(),
                                     [](const data::SentenceText& text) { return !text.pair.empty(); });
  const report::SampleLines lines(std::filesystem::path(path).extension() == ".csv", guesses_, names,
                                  !split.texts.empty(), has_pairs);
  const auto cells = table_.accessor<double, 2>();
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& file) {
    if (byte_order_mark && !lines.Header().empty()) file.Append(report::kByteOrderMark);
    file.Append(lines.Header());
    for (int64_t index = 0; index < table_.size(0); ++index) {
      const auto row = cells[index];
      if (row[kEvaluated] == 0) continue;  // unreadable, or left out by --limit_val_steps
      report::EvaluatedSample sample{
          .file = split.source->Location(index), .target = row[kTarget], .loss = row[kLoss], .value = row[kFirstGuess]};
      for (int64_t guess = 0; guess < guesses_; ++guess) {
        const int64_t column = kFirstGuess + 2 * guess;
        sample.guesses.push_back({static_cast<int64_t>(row[column]), row[column + 1]});
      }
      if (!split.texts.empty()) {
        sample.text = split.texts[static_cast<size_t>(index)].text;
        sample.pair = split.texts[static_cast<size_t>(index)].pair;
      }
      file.Append(lines.Line(sample));
    }
  });
}

}  // namespace dtrain::tasks
