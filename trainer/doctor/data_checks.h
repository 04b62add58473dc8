// The data set as a run would open it, and some of its records.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/config/config.h"
#include "trainer/doctor/finding.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::doctor {

struct ReadFacts {
  std::string split;
  int64_t records = 0;  // of the split
  int64_t tried = 0;
  int64_t bad = 0;             // of them, those that could not be read or decoded
  std::string first_bad = {};  // the error of the first one
  double bytes = 0;            // read
  double read_seconds = 0;
  double decode_seconds = 0;
};
// `most_bad` is --max_bad_records; 0 with --strict_data.
Finding JudgeReading(const ReadFacts& facts, double most_bad);

// Reads and decodes records in equal distances, one after the other: a few hundred, or as many as some seconds allow.
ReadFacts ReadSome(const loop::DataSplit& split);

// Opens the data and reads of each split. No index is kept. Throws what opening the data throws.
void ExamineData(const config::Config& config, Findings& findings);

}  // namespace dtrain::doctor
