// Counts the bad records of all ranks together. Rank 0's control server does the counting, because a rank knows only
// the records that it has read itself, and two ranks may meet the same bad record in different epochs.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "data/pipeline/quarantine.h"

namespace dtrain::control {

// The message by which a rank reports a bad record to the server. The rank sends it once per record. `dataset_size` is
// in samples; `options` are those of the rank's quarantine.
nlohmann::json BadRecordMessage(const data::BadRecord& record, int64_t dataset_size,
                                const data::QuarantineOptions& options);

class BadRecordCount {
 public:
  // Adds the record of a BadRecordMessage, which ParseControlLine has checked. Returns the number of different bad
  // records in its split so far. Throws DataError if that exceeds the budget in the message.
  int64_t Add(const nlohmann::json& message);

 private:
  std::map<std::string, data::Quarantine> splits_;  // by name of the split
};

}  // namespace dtrain::control
