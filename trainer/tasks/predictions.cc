#include "trainer/tasks/predictions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::tasks {
namespace {

using Json = nlohmann::ordered_json;

// Returns the probabilities of classes, of which the first of equally likely ones counts (LikeliestClasses), or
// numbers as they are.
at::Tensor NumbersOf(const Outcome& outcome, const at::Tensor& outputs_C) {
  if (!outcome.has_classes()) return outputs_C;
  return outcome.labels == data::LabelKind::kSeveral ? outputs_C.sigmoid() : at::softmax(outputs_C, 0);
}

bool AreFinite(const at::Tensor& numbers) { return at::isfinite(numbers).all().item<bool>(); }

void WarnOfNotFinite(int64_t samples) {
  if (samples == 0) return;
  report::LogWarning("the model's outputs are not finite for " + CountOf(samples, "sample") + ": " + kWhyNotFinite);
}

// Has `write` append its samples; those whose values are not finite get an error. Returns their number.
int64_t AppendFinite(const SampleWriter& write, const AppendSample& append) {
  int64_t not_finite = 0;
  write([&](PredictedSample sample) {
    if (sample.error.empty() && !AreFinite(sample.values_C)) {
      sample.error = kNotFinite;
      ++not_finite;
    }
    append(sample);
  });
  return not_finite;
}

void AddCells(const std::vector<std::string>& names, const std::vector<std::string>& cells, data::WrittenRow& row) {
  for (size_t i = 0; i < cells.size(); ++i) row.push_back({names[i], cells[i]});
}

data::Cell ErrorOf(const PredictedSample& sample) {
  return {"error", sample.error.empty() ? Json() : Json(sample.error)};
}

// Version 1.0 of numpy's format: a magic word, the length of the description as two bytes, and the description, which
// spaces fill up so that the numbers begin at a multiple of 64 bytes.
std::string NpyHeader(int64_t rows, int64_t columns) {
  constexpr size_t kBefore = 10, kAlignment = 64;
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                     std::to_string(columns) + "), }";
  text.resize((kBefore + text.size() + kAlignment) / kAlignment * kAlignment - kBefore - 1, ' ');
  text += '\n';
  return kNumpy + std::string("\x01\x00", 2) + static_cast<char>(text.size() % 256) +
         static_cast<char>(text.size() / 256) + text;
}

void AppendHeader(checkpoint::DurableFile& file, bool is_npy, int64_t rows, int64_t columns) {
  if (is_npy) return file.Append(NpyHeader(rows, columns));
  const at::Tensor shape = at::empty({rows, columns}, at::TensorOptions(at::kFloat).device(at::kMeta));
  checkpoint::AppendSafetensorsHeader(file, {{"features", shape}}, {{"format", "pt"}, {kPredictedBy, "dtrain"}});
}

constexpr int64_t kFewClasses = 10;

enum Column { kEvaluated, kClass, kLoss, kFirstGuess };

int64_t GuessesOf(const Outcome& outcome) {
  const bool has_likeliest = outcome.labels == data::LabelKind::kClass && outcome.outputs > kFewClasses;
  return has_likeliest ? kGuesses : outcome.outputs;
}

}  // namespace

Outcome OutcomeOf(const config::Config& config, int64_t outputs) {
  Outcome outcome{.labels = KindOf(config).labels(), .outputs = outputs, .threshold = config.data.label_threshold};
  if (!config.data.label_separator.empty()) outcome.separator = config.data.label_separator;
  return outcome;
}

std::vector<std::string> Outcome::Names(std::vector<std::string> known) const {
  if (!known.empty() || labels == data::LabelKind::kClass) return known;
  for (int64_t output = 0; output < outputs; ++output) known.push_back(std::to_string(output));
  return known;
}

Json Outcome::Cell(const std::vector<double>& values, const std::vector<std::string>& names, double least) const {
  if (!has_columns()) return data::JsonNumber(values.front());
  std::string cell;
  for (size_t i = 0; i < values.size(); ++i) {
    if (has_classes() && values[i] < least) continue;
    cell += (cell.empty() ? "" : separator) + (has_classes() ? names[i] : data::ShortestText(values[i]));
  }
  return cell;
}

void WriteTable(const std::string& path, bool byte_order_mark, const data::RowWriter& write,
                const data::WrittenRow& columns) {
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& file) {
    const auto append = [&file](std::string_view text) { file.Append(text); };
    data::TableWriterOf(path)->write(append, byte_order_mark, columns, write);
  });
}

PredictionTable::PredictionTable(const config::Config& config, std::vector<std::string> inputs, Outcome outcome,
                                 std::vector<std::string> names, const std::vector<std::string>& kept)
    : run_(config.run),
      inputs_(std::move(inputs)),
      outcome_(std::move(outcome)),
      lists_likeliest_(inputs_.front() == "file" && outcome_.labels == data::LabelKind::kClass),
      names_(outcome_.Names(std::move(names))) {
  std::set<std::string> own = {"text", "pair", "prediction", "probabilities", "error"};
  for (const std::string& name : names_) own.insert(outcome_.column() + name);
  std::set<std::string> taken;
  for (const std::string& column : kept) {
    const std::string first = (own.contains(column) ? "input_" : "") + column;
    std::string name = first;
    for (int number = 2; !taken.insert(name).second; ++number) name = first + "_" + std::to_string(number);
    kept_.push_back(name);
  }
}

int64_t PredictionTable::Write(const SampleWriter& write) const {
  const auto row_of = [&](const PredictedSample& sample) {
    data::WrittenRow row;
    AddCells(inputs_, sample.inputs, row);
    lists_likeliest_ ? AddLikeliest(sample, row) : AddPrediction(sample, row);
    row.push_back(ErrorOf(sample));
    AddCells(kept_, sample.kept, row);
    return row;
  };
  int64_t not_finite = 0;
  const auto append_all = [&](const data::AppendRow& append) {
    not_finite = AppendFinite(write, [&](const PredictedSample& sample) { append(row_of(sample)); });
  };
  const PredictedSample none{.inputs = std::vector<std::string>(inputs_.size()),
                             .error = "unread",
                             .kept = std::vector<std::string>(kept_.size())};
  WriteTable(run_.output, run_.csv_bom, append_all, row_of(none));
  return not_finite;
}

void PredictionTable::AddLikeliest(const PredictedSample& sample, data::WrittenRow& row) const {
  at::Tensor likeliest = at::empty({0}, at::kLong), probabilities;
  if (sample.error.empty()) {
    likeliest = LikeliestClasses(sample.values_C.unsqueeze(0), kGuesses)[0];
    probabilities = NumbersOf(outcome_, sample.values_C).index_select(0, likeliest);
  }
  for (int64_t rank = 0; rank < kGuesses; ++rank) {
    Json guess = {{"class", nullptr}, {"name", nullptr}, {"probability", nullptr}};
    if (rank < likeliest.numel()) {
      const auto label = static_cast<size_t>(likeliest[rank].item<int64_t>());
      guess["class"] = label;
      if (label < names_.size() && !names_[label].empty()) guess["name"] = names_[label];
      guess["probability"] = data::JsonNumber(probabilities[rank].item<double>());
    }
    for (const auto& [key, value] : guess.items())
      row.push_back({key + "_" + std::to_string(rank + 1), value, key, "top", static_cast<size_t>(rank)});
  }
}

void PredictionTable::AddPrediction(const PredictedSample& sample, data::WrittenRow& row) const {
  Json prediction;
  std::vector<double> numbers;
  if (sample.error.empty()) {
    const at::Tensor numbers_C = NumbersOf(outcome_, sample.values_C).contiguous();
    numbers.assign(numbers_C.const_data_ptr<float>(), numbers_C.const_data_ptr<float>() + numbers_C.numel());
    const auto likeliest = LikeliestClasses(sample.values_C.unsqueeze(0), 1).item<int64_t>();
    prediction = outcome_.labels == data::LabelKind::kClass ? Json(names_[static_cast<size_t>(likeliest)])
                                                            : outcome_.Cell(numbers, names_, outcome_.threshold);
  }
  row.push_back({"prediction", prediction});
  for (size_t i = 0; outcome_.has_columns() && i < names_.size(); ++i) {
    const Json number = numbers.empty() ? Json() : Json(data::JsonNumber(numbers[i]));
    row.push_back({outcome_.column() + names_[i], number, names_[i], outcome_.key()});
  }
}

std::string RowNamesFile(const std::string& features) {
  return std::filesystem::path(features).replace_extension(".jsonl").string();
}

int64_t WriteFeatures(const std::string& path, int64_t rows, int64_t columns, const std::vector<std::string>& inputs,
                      const SampleWriter& write) {
  const at::Tensor unknown = at::full({columns}, std::numeric_limits<float>::quiet_NaN());
  int64_t not_finite = 0;
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& numbers) {
    AppendHeader(numbers, path.ends_with(".npy"), rows, columns);
    WriteTable(RowNamesFile(path), /*byte_order_mark=*/false, [&](const data::AppendRow& append) {
      int64_t number = 0;
      not_finite = AppendFinite(write, [&](const PredictedSample& sample) {
        data::WrittenRow line = {{"row", number++}};
        AddCells(inputs, sample.inputs, line);
        line.push_back(ErrorOf(sample));
        const at::Tensor row = sample.error.empty() ? sample.values_C.contiguous() : unknown;
        numbers.Append(row.const_data_ptr<float>(), static_cast<size_t>(columns) * sizeof(float));
        append(line);
      });
    });
  });
  return not_finite;
}

bool WantsTensors(const config::Config& config) {
  return config.run.features.empty() && data::TableWriterOf(config.run.output) == nullptr;
}

void PrintCounts(const config::Config& config, int64_t predicted, std::optional<int64_t> unreadable,
                 int64_t not_finite) {
  Json counts = {{"predicted", predicted}};
  if (unreadable) counts["unreadable"] = *unreadable;
  if (not_finite > 0) counts["not_finite"] = not_finite;
  WarnOfNotFinite(not_finite);
  std::string line;
  for (const auto& [name, count] : counts.items()) line += (line.empty() ? "" : " ") + name + "=" + count.dump();
  std::printf("%s\n", (config.report.log_format == "json" ? counts.dump() : line).c_str());
}

void WriteLogits(const std::string& path, const at::Tensor& logits, const data::Classes* classes) {
  checkpoint::Metadata metadata = {{"format", "pt"}, {kPredictedBy, "dtrain"}};
  if (classes != nullptr) weights::AddTo(metadata, *classes);
  checkpoint::WriteSafetensors(path, {{"logits", logits}}, metadata);
  WarnOfNotFinite(std::ranges::count_if(logits.unbind(), [](const at::Tensor& row) { return !AreFinite(row); }));
}

weights::TrainedWeights WeightsToPredict(const config::Config& config) {
  weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("predicting with " + weights.origin);
  return weights;
}

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
               {"sentence", sentence + 1},
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
        return is_class ? Json(name_of(label)) : outcome_.Cell(values, names, least);
      };
      const bool is_finite = std::ranges::all_of(predicted, [](double number) { return std::isfinite(number); });
      row.push_back({"label", cell(found[kClass], wanted, /*least=*/1)});
      row.push_back({"prediction", is_finite ? cell(wanted.front(), predicted, outcome_.threshold) : Json()});
      row.push_back({"loss", data::JsonNumber(found[kLoss])});
      for (size_t i = 0; outcome_.has_columns() && i < predicted.size(); ++i) {
        const std::string name = name_of(is_class ? wanted[i] : static_cast<double>(i)), number = std::to_string(i + 1);
        if (is_class) row.push_back({"class_" + number, is_finite ? Json(name) : Json(), /*key=*/std::nullopt});
        row.push_back(
            {outcome_.column() + (is_class ? number : name), data::JsonNumber(predicted[i]), name, outcome_.key()});
      }
      append(row);
    }
  });
}

}  // namespace dtrain::tasks
