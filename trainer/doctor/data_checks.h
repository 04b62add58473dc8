// Checks the data set: opens it as a run would, and reads some of its records.
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
  int64_t bad = 0;             // of `tried`, those that could not be read or decoded
  std::string first_bad = {};  // place and error of the first bad one
  double bytes = 0;            // encoded bytes that were read
  double read_seconds = 0;     // of all good records together
  double decode_seconds = 0;   // likewise
};
// `most_bad` is the fraction of bad records that is allowed: --max_bad_records, or 0 with --strict_data.
Finding JudgeReading(const ReadFacts& facts, double most_bad);

// Reads and decodes up to 256 evenly spaced records on this thread, for 10 seconds at most.
ReadFacts ReadSome(const loop::DataSplit& split);

// Opens the data and adds a finding for each split. Keeps no index on the disk. Throws as TaskKind::OpenData does.
void ExamineData(const config::Config& config, Findings& findings);

}  // namespace dtrain::doctor
