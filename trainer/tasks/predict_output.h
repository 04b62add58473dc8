// What --mode=predict writes: a table for people, features, or a safetensors file with the model's outputs for
// programs, whose input are tensors, too.
#pragma once

#include <filesystem>

#include "trainer/config/config.h"

namespace dtrain::tasks {

// Whether --output names no table, that is, no FILE.csv or FILE.jsonl.
inline bool WantsTensors(const config::Config& config) {
  const std::filesystem::path extension = std::filesystem::path(config.run.output).extension();
  return config.run.features.empty() && extension != ".csv" && extension != ".jsonl";
}

}  // namespace dtrain::tasks
