#include "trainer/tasks/feature_file.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <limits>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/report/csv.h"
#include "trainer/report/log.h"

namespace dtrain::tasks {
namespace {

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

std::string RowNamesFile(const std::string& features) {
  return std::filesystem::path(features).replace_extension(".jsonl").string();
}

void WriteFeatures(const std::string& path, int64_t rows, int64_t columns,
                   const std::function<void(const AppendFeatures&)>& write) {
  const std::string names_file = RowNamesFile(path);
  const at::Tensor unknown = at::full({columns}, std::numeric_limits<float>::quiet_NaN());
  checkpoint::WriteAtomically(path, [&](checkpoint::DurableFile& numbers) {
    AppendHeader(numbers, path.ends_with(".npy"), rows, columns);
    checkpoint::WriteAtomically(names_file, [&](checkpoint::DurableFile& names) {
      int64_t number = 0;
      write([&](const at::Tensor& row_C, const nlohmann::ordered_json& name) {
        nlohmann::ordered_json line = {{"row", number++}};
        line.update(name);
        const at::Tensor row = row_C.defined() ? row_C.contiguous() : unknown;
        numbers.Append(row.const_data_ptr<float>(), static_cast<size_t>(columns) * sizeof(float));
        names.Append(report::JsonText(line));
      });
    });
  });
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
