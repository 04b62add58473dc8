// What --mode=predict writes: a table for people, or a safetensors file with the model's outputs for programs.
#pragma once

#include <filesystem>

#include "trainer/config/config.h"

namespace dtrain::loop {

// Whether --output names a table, that is, FILE.csv or FILE.jsonl.
inline bool WantsTable(const config::Config& config) {
  const std::filesystem::path extension = std::filesystem::path(config.run.output).extension();
  return extension == ".csv" || extension == ".jsonl";
}

}  // namespace dtrain::loop
