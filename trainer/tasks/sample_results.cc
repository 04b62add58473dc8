#include "trainer/tasks/sample_results.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "trainer/tasks/metric_formulas.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kFewClasses = 10;

enum Column { kEvaluated, kClass, kLoss, kFirstGuess };

int64_t GuessesOf(const Outcome& outcome) {
  const bool has_likeliest = outcome.labels == data::LabelKind::kClass && outcome.outputs > kFewClasses;
  return has_likeliest ? kGuesses : outcome.outputs;
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
  const bool is_class = outcome_.labels == data::LabelKind::kClass;
  const bool has_pairs =
      std::ranges::any_of(split.texts, [](const data::SentenceText& text) { return !text.pair.empty(); });
  const std::vector<std::string> names = outcome_.Names(known_names);
  const auto name_of = [&names](auto label) {
    const auto number = static_cast<int64_t>(label);
    const bool has_name = number >= 0 && number < static_cast<int64_t>(names.size());
    return has_name ? names[static_cast<size_t>(number)] : std::to_string(number);
  };
  const auto cells = table_.accessor<double, 2>();
  WriteTable(path, byte_order_mark, [&](const data::AppendRow& append) {
    size_t sentence = 0;
    for (int64_t index = 0; index < table_.size(0); ++index) {
      const auto found = cells[index];
      if (found[kEvaluated] == 0) continue;  // unreadable, or left out by --limit_val_steps
      const auto place = static_cast<size_t>(index);
      data::WrittenRow row;
      if (split.words) {
        while (split.words->ends[sentence] <= index) ++sentence;
        row = {{"file", split.source->Place(0).file + " line " + std::to_string(split.words->places[place].line)},
               {"sentence", std::to_string(sentence + 1)},
               {"word", split.words->texts[place]}};
      } else {
        row = {{"file", split.source->Location(index)}};
      }
      if (!split.texts.empty()) row.push_back({"text", split.texts[place].text});
      if (has_pairs) row.push_back({"pair", split.texts[place].pair});
      std::vector<double> wanted, predicted;
      for (int64_t column = kFirstGuess; column < table_.size(1); column += 2) {
        wanted.push_back(found[column]);
        predicted.push_back(found[column + 1]);
      }
      const auto cell = [&](double label, const std::vector<double>& values, double least) {
        return is_class ? nlohmann::ordered_json(name_of(label)) : outcome_.Cell(values, names, least);
      };
      row.push_back({"label", cell(found[kClass], wanted, /*least=*/1)});
      row.push_back({"prediction", cell(wanted.front(), predicted, outcome_.threshold)});
      row.push_back({"loss", data::JsonNumber(found[kLoss])});
      for (size_t i = 0; outcome_.has_columns() && i < predicted.size(); ++i) {
        const std::string name = name_of(is_class ? wanted[i] : static_cast<double>(i)), number = std::to_string(i + 1);
        if (is_class) row.push_back({"class_" + number, name, /*key=*/std::nullopt});
        row.push_back(
            {outcome_.column() + (is_class ? number : name), data::JsonNumber(predicted[i]), name, outcome_.key()});
      }
      append(row);
    }
  });
}

}  // namespace dtrain::tasks
