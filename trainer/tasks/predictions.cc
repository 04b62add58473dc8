#include "trainer/tasks/predictions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/report/csv.h"
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

Json Named(const std::vector<std::string>& names, const std::vector<std::string>& cells) {
  Json named = Json::object();
  for (size_t i = 0; i < cells.size(); ++i) named[names[i]] = cells[i];
  return named;
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

std::string Outcome::Cell(const std::vector<double>& values, const std::vector<std::string>& names,
                          double least) const {
  std::string cell;
  for (size_t i = 0; i < values.size(); ++i) {
    if (has_classes() && values[i] < least) continue;
    cell += (cell.empty() ? "" : separator) + (has_classes() ? names[i] : report::ShortestText(values[i]));
  }
  return cell;
}

PredictionTable::PredictionTable(const config::Config& config, std::vector<std::string> inputs, Outcome outcome,
                                 std::vector<std::string> names, const std::vector<std::string>& kept)
    : run_(config.run),
      is_csv_(report::IsCsv(config.run.output)),
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

std::vector<std::string> PredictionTable::Columns() const {
  std::vector<std::string> columns = inputs_;
  if (!lists_likeliest_) columns.emplace_back("prediction");
  for (int64_t rank = 1; lists_likeliest_ && rank <= kGuesses; ++rank) {
    for (const char* what : {"class_", "name_", "probability_"}) columns.push_back(what + std::to_string(rank));
  }
  for (const std::string& name : names_) {
    if (!lists_likeliest_ && outcome_.has_columns()) columns.push_back(outcome_.column() + name);
  }
  columns.emplace_back("error");
  columns.insert(columns.end(), kept_.begin(), kept_.end());
  return columns;
}

void PredictionTable::Write(const SampleWriter& write) const {
  report::WriteTable(run_.output, Columns(), run_.csv_bom, [&](const report::AppendRow& append) {
    write([&](const PredictedSample& sample) {
      const bool is_read = sample.error.empty();
      Json row = Named(inputs_, sample.inputs);
      if (is_csv_ || is_read) {
        const at::Tensor outputs_C = is_read ? sample.values_C : at::Tensor();
        lists_likeliest_ ? AddLikeliest(outputs_C, row) : AddPrediction(outputs_C, row);
      }
      if (is_csv_ || !is_read) row["error"] = sample.error;
      row.update(is_csv_ ? Json{{"kept", sample.kept}} : Named(kept_, sample.kept));
      append(row);
    });
  });
}

// `outputs_C` is undefined, here and below, if the sample could not be read.
void PredictionTable::AddLikeliest(const at::Tensor& outputs_C, Json& row) const {
  Json& top = row["top"] = Json::array();
  if (outputs_C.defined()) {
    const at::Tensor probabilities_C = NumbersOf(outcome_, outputs_C);
    for (const at::Tensor& likely : LikeliestClasses(outputs_C.unsqueeze(0), kGuesses)[0].unbind()) {
      const auto label = likely.item<int64_t>();
      const std::string name = label < static_cast<int64_t>(names_.size()) ? names_[static_cast<size_t>(label)] : "";
      Json guess = {{"class", label}};
      if (is_csv_ || !name.empty()) guess["name"] = name;
      guess["probability"] = report::JsonNumber(probabilities_C[label].item<double>());
      top.push_back(std::move(guess));
    }
  }
  while (is_csv_ && top.size() < kGuesses) top.push_back(Json::array({"", "", ""}));
}

void PredictionTable::AddPrediction(const at::Tensor& outputs_C, Json& row) const {
  const bool is_read = outputs_C.defined(), has_columns = outcome_.has_columns();
  std::vector<double> numbers;
  if (is_read) {
    const at::Tensor numbers_C = NumbersOf(outcome_, outputs_C).contiguous();
    numbers.assign(numbers_C.const_data_ptr<float>(), numbers_C.const_data_ptr<float>() + numbers_C.numel());
  }
  if (!is_read) {
    row["prediction"] = "";
  } else if (outcome_.labels == data::LabelKind::kClass) {
    row["prediction"] = names_[static_cast<size_t>(LikeliestClasses(outputs_C.unsqueeze(0), 1).item<int64_t>())];
  } else if (has_columns) {
    row["prediction"] = outcome_.Cell(numbers, names_, outcome_.threshold);
  } else {
    row["prediction"] = report::JsonNumber(numbers.front());
  }
  Json of_each;
  for (size_t i = 0; has_columns && i < names_.size(); ++i) {
    (is_csv_ ? of_each[i] : of_each[names_[i]]) = is_read ? Json(report::JsonNumber(numbers[i])) : Json("");
  }
  if (has_columns) row[outcome_.key()] = std::move(of_each);
}

std::string RowNamesFile(const std::string& features) {
  return std::filesystem::path(features).replace_extension(".jsonl").string();
}

void WriteFeatures(const std::string& path, int64_t rows, int64_t columns, const std::vector<std::string>& inputs,
                   const SampleWriter& write) {
  const at::Tensor unknown = at::full({columns}, std::numeric_limits<float>::quiet_NaN());
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& numbers) {
    AppendHeader(numbers, path.ends_with(".npy"), rows, columns);
    report::WriteTable(RowNamesFile(path), {}, /*byte_order_mark=*/false, [&](const report::AppendRow& append) {
      int64_t number = 0;
      write([&](const PredictedSample& sample) {
        Json line = {{"row", number++}};
        line.update(Named(inputs, sample.inputs));
        if (!sample.error.empty()) line["error"] = sample.error;
        const at::Tensor row = sample.error.empty() ? sample.values_C.contiguous() : unknown;
        numbers.Append(row.const_data_ptr<float>(), static_cast<size_t>(columns) * sizeof(float));
        append(line);
      });
    });
  });
}

bool WantsTensors(const config::Config& config) {
  const std::string& output = config.run.output;
  return config.run.features.empty() && !report::IsCsv(output) && !output.ends_with(".jsonl");
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
