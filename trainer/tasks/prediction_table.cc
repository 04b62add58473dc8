#include "trainer/tasks/prediction_table.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "trainer/report/csv.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::tasks {
namespace {

// Returns the probabilities of classes, of which the first of equally likely ones counts (LikeliestClasses), or
// numbers as they are.
at::Tensor NumbersOf(const Outcome& outcome, const at::Tensor& outputs_C) {
  if (!outcome.has_classes()) return outputs_C;
  return outcome.labels == data::LabelKind::kSeveral ? outputs_C.sigmoid() : at::softmax(outputs_C, 0);
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

PredictionTable::PredictionTable(bool is_csv, std::vector<std::string> inputs, Outcome outcome,
                                 std::vector<std::string> names, const std::vector<std::string>& kept)
    : is_csv_(is_csv), inputs_(std::move(inputs)), outcome_(std::move(outcome)), names_(std::move(names)) {
  std::vector<std::string> own = {"text", "pair", "prediction", "probabilities", "error"};
  for (const std::string& name : names_) own.push_back(outcome_.column() + name);
  for (const std::string& name : kept) {
    kept_.push_back((std::ranges::find(own, name) != own.end() ? "input_" : "") + name);
  }
}

std::string PredictionTable::Header() const {
  if (!is_csv_) return "";
  std::string line;
  for (const std::string& name : inputs_) line += name + ",";
  line += "prediction";
  for (const std::string& name : names_) {
    if (outcome_.has_columns()) line += "," + report::CsvField(outcome_.column() + name);
  }
  line += ",error";
  for (const std::string& name : kept_) line += "," + report::CsvField(name);
  return line + "\n";
}

std::string PredictionTable::Line(const std::vector<std::string>& inputs, const at::Tensor& outputs_C,
                                  const std::string& error, const std::vector<std::string>& kept) const {
  const bool is_read = error.empty();
  const at::Tensor numbers = is_read ? NumbersOf(outcome_, outputs_C).contiguous() : at::zeros({outcome_.outputs});
  const auto* number = numbers.const_data_ptr<float>();
  const bool is_class = outcome_.labels == data::LabelKind::kClass;
  std::string prediction;
  if (is_read && is_class) {
    prediction = names_[static_cast<size_t>(LikeliestClasses(outputs_C.unsqueeze(0), 1).item<int64_t>())];
  } else if (is_read) {
    prediction = outcome_.Cell({number, number + names_.size()}, names_, outcome_.threshold);
  }
  const size_t columns = outcome_.has_columns() ? names_.size() : 0;
  nlohmann::ordered_json line, of_each;
  for (size_t i = 0; i < inputs.size(); ++i) line[inputs_[i]] = inputs[i];
  for (size_t i = 0; i < columns; ++i) {
    if (!is_csv_) {
      of_each[names_[i]] = report::JsonNumber(number[i]);
    } else if (is_read) {
      of_each.push_back(number[i]);
    } else {
      of_each.push_back("");
    }
  }
  if (is_csv_ || is_read) {
    line["prediction"] = std::move(prediction);
    if (columns > 0) {
      line[outcome_.has_classes() ? "probabilities" : "predictions"] = std::move(of_each);
    } else if (is_read) {
      line["prediction"] = report::JsonNumber(*number);
    }
  }
  if (is_csv_ || !is_read) line["error"] = error;
  if (is_csv_) {
    line["kept"] = kept;
    return report::CsvText(line);
  }
  for (size_t column = 0; column < kept.size(); ++column) line[kept_[column]] = kept[column];
  return report::JsonText(line);
}

}  // namespace dtrain::tasks
