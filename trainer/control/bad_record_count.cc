// The server counts with a quarantine of its own, without a file, so that budget and messages are those of one rank.
#include "trainer/control/bad_record_count.h"

namespace dtrain::control {
namespace {

constexpr double kNotGiven = -1;  // no fraction

}  // namespace

nlohmann::json BadRecordMessage(const data::BadRecord& record, int64_t dataset_size,
                                const data::QuarantineOptions& options) {
  return {{"kind", "bad_record"},
          {"split", record.split},
          {"index", record.index},
          {"file", record.place.file},
          {"offset", record.place.offset ? nlohmann::json(*record.place.offset) : nlohmann::json()},
          {"reason", record.reason},
          {"dataset_size", dataset_size},
          {"max_bad_records", options.max_bad_records.value_or(kNotGiven)},
          {"strict", options.strict}};
}

int64_t BadRecordCount::Add(const nlohmann::json& message) {
  const std::string split = message.at("split");
  const double fraction = message.at("max_bad_records");
  data::Quarantine& quarantine =
      splits_
          .try_emplace(split, message.at("dataset_size").get<int64_t>(),
                       data::QuarantineOptions{.split = split,
                                               .max_bad_records = fraction < 0 ? std::nullopt : std::optional(fraction),
                                               .strict = message.at("strict")})
          .first->second;
  data::RecordPlace place{.file = message.at("file")};
  if (const auto& offset = message.at("offset"); !offset.is_null()) place.offset = offset.get<int64_t>();
  quarantine.Add(message.at("index"), place, message.at("reason"));
  return quarantine.count();
}

}  // namespace dtrain::control
