// --mode=predict --features: the vectors that a model computes before its head, for searches, clusters and classifiers
// of other programs. Rows are written as they come, so that any number of them needs no memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {

// Files of logits and features have this key in their metadata, and FILE.jsonl and FILE.npy begin with the others, so
// that they are known again and may be replaced.
inline constexpr char kPredictedBy[] = "predicted_by", kFirstRow[] = "{\"row\":0,", kNumpy[] = "\x93NUMPY";

// Returns FILE.jsonl, which names the rows of --features=FILE.npy.
std::string RowNamesFile(const std::string& features);

// Appends one row of float32 on the host, and what names it, after its number, in FILE.jsonl. An undefined row becomes
// NaN.
using AppendFeatures = std::function<void(const at::Tensor& row_C, const nlohmann::ordered_json& name)>;

// Writes `rows` × `columns` numbers to FILE.npy, or as tensor `features` to FILE.safetensors, and the names of the
// rows, one line each, to FILE.jsonl. `write` is called once and appends all rows in order; nothing is written if it
// throws. Throws StorageError.
void WriteFeatures(const std::string& path, int64_t rows, int64_t columns,
                   const std::function<void(const AppendFeatures&)>& write);

// Whether --mode=predict writes a safetensors file for programs, whose input are tensors, too: --output names no table
// for people (FILE.csv or FILE.jsonl), and --features nothing.
inline bool WantsTensors(const config::Config& config) {
  const std::filesystem::path extension = std::filesystem::path(config.run.output).extension();
  return config.run.features.empty() && extension != ".csv" && extension != ".jsonl";
}

// Writes the tensor `logits`, N×…, with the classes in its metadata; null: there are none. Throws StorageError.
void WriteLogits(const std::string& path, const at::Tensor& logits, const data::Classes* classes);

// Reads the weights of --mode=predict, and says so.
weights::TrainedWeights WeightsToPredict(const config::Config& config);

}  // namespace dtrain::tasks
