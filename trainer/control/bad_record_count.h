// How many bad records all ranks have met together. One rank knows its own alone, and two may meet the same one in
// different epochs: rank 0's control server counts.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "data/pipeline/quarantine.h"

namespace dtrain::distributed {

// What a rank tells the server of a record that it has not met before. `options` are its quarantine's.
nlohmann::json BadRecordMessage(const data::BadRecord& record, int64_t dataset_size,
                                const data::QuarantineOptions& options);

class BadRecordCount {
 public:
  // Returns how many different ones of this split are known now. Throws DataError where that is over the budget.
  int64_t Add(const nlohmann::json& message);

 private:
  std::map<std::string, data::Quarantine> splits_;
};

}  // namespace dtrain::distributed
