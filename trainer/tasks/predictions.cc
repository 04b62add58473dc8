#include "trainer/tasks/predictions.h"

#include <ATen/ATen.h>

#include <algorithm>
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

void PredictionTable::Write(const SampleWriter& write) const {
  const auto row_of = [&](const PredictedSample& sample) {
    data::WrittenRow row;
    AddCells(inputs_, sample.inputs, row);
    lists_likeliest_ ? AddLikeliest(sample, row) : AddPrediction(sample, row);
    row.push_back(ErrorOf(sample));
    AddCells(kept_, sample.kept, row);
    return row;
  };
  const auto append_all = [&](const data::AppendRow& append) {
    write([&](const PredictedSample& sample) { append(row_of(sample)); });
  };
  const PredictedSample none{.inputs = std::vector<std::string>(inputs_.size()),
                             .error = "unread",
                             .kept = std::vector<std::string>(kept_.size())};
  WriteTable(run_.output, run_.csv_bom, append_all, row_of(none));
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

void WriteFeatures(const std::string& path, int64_t rows, int64_t columns, const std::vector<std::string>& inputs,
                   const SampleWriter& write) {
  const at::Tensor unknown = at::full({columns}, std::numeric_limits<float>::quiet_NaN());
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& numbers) {
    AppendHeader(numbers, path.ends_with(".npy"), rows, columns);
    WriteTable(RowNamesFile(path), /*byte_order_mark=*/false, [&](const data::AppendRow& append) {
      int64_t number = 0;
      write([&](const PredictedSample& sample) {
        data::WrittenRow line = {{"row", number++}};
        AddCells(inputs, sample.inputs, line);
        line.push_back(ErrorOf(sample));
        const at::Tensor row = sample.error.empty() ? sample.values_C.contiguous() : unknown;
        numbers.Append(row.const_data_ptr<float>(), static_cast<size_t>(columns) * sizeof(float));
        append(line);
      });
    });
  });
}

bool WantsTensors(const config::Config& config) {
  return config.run.features.empty() && data::TableWriterOf(config.run.output) == nullptr;
}

void WriteLogits(const std::string& path, const at::Tensor& logits, const data::Classes* classes) {
  checkpoint::Metadata metadata = {{"format", "pt"}, {kPredictedBy, "dtrain"}};
  if (classes != nullptr) weights::AddTo(metadata, *classes);
  checkpoint::WriteSafetensors(path, {{"logits", logits}}, metadata);
}

weights::TrainedWeights WeightsToPredict(const config::Config& config) {
  weights::TrainedWeights weights = weights::ReadInferenceWeights(config);
  report::LogInfo("predicting with " + weights.origin);
  return weights;
}

}  // namespace dtrain::tasks
