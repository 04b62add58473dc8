// --mode=predict --features: the vectors that a model computes before its head, for searches, clusters and classifiers
// of other programs. Rows are written as they come, so that any number of them needs no memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dtrain::tasks {

// Returns FILE.jsonl, which names the rows of --features=FILE.npy.
std::string RowNamesFile(const std::string& features);

// Appends one row of float32 on the host, and the object that names it in FILE.jsonl. An undefined row becomes NaN.
using AppendFeatures = std::function<void(const at::Tensor& row_C, const nlohmann::ordered_json& name)>;

// Writes `rows` × `columns` numbers to FILE.npy, or as tensor `features` to FILE.safetensors, and the names of the
// rows, one line each, to FILE.jsonl. `write` is called once and appends all rows in order; nothing is written if it
// throws. Throws UsageError if one of both files is an input, a run's, or no regular file, and StorageError.
void WriteFeatures(const std::string& path, int64_t rows, int64_t columns, std::vector<std::string> inputs,
                   const std::function<void(const AppendFeatures&)>& write);

}  // namespace dtrain::tasks
