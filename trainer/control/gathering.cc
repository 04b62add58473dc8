#include "trainer/control/gathering.h"

#include "data/shallow_json.h"
#include "data/shown.h"
#include "trainer/config/flags.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

constexpr size_t kShownValue = 200;  // bytes shown of a value of the configuration
constexpr double kNotGiven = -1;     // no fraction

std::string ShownValue(const json& value) { return Shown(JsonText(value), kShownValue); }

// What to do if a rank's value for `key` differs from that of rank 0, whose configuration is `first`.
std::string HintFor(const std::string& key, const json& first) {
  std::string same_command = "start all ranks with the same command";
  if (key == "build") return "copy the same program to all machines";
  if (key == "device") return "--doctor says why a machine has no GPU; --backend=gloo computes on the CPUs of all";
  const config::Flag* flag = config::FindFlag(key);
  if (flag == nullptr && key.starts_with("data_")) {
    return "the same files must be in --data_dir on all machines: copy them, or use a folder that all machines share";
  }
  const auto weights = first.find("init_weights");
  const bool has_weights =
      weights != first.end() && weights->is_string() && !weights->get_ref<const std::string&>().empty();
  if (flag == nullptr || !flag->traits.kept_with_weights || !has_weights) return same_command;
  return same_command + ", and let --init_weights, which may tell it, be on all machines";
}

}  // namespace

void RankList::Add(int rank) {
  ++count_;
  if (unshown_ == 0 && !runs_.empty() && runs_.back().second == rank - 1) {
    runs_.back().second = rank;
  } else if (runs_.size() < kShownRuns) {
    runs_.emplace_back(rank, rank);
  } else {
    ++unshown_;
  }
}

std::string RankList::Text() const {
  std::string text;
  for (const auto& [first, last] : runs_) {
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    if (last > first) text += (last == first + 1 ? ", " : "-") + std::to_string(last);
  }
  return unshown_ > 0 ? text + " and " + std::to_string(unshown_) + " more" : text;
}

std::optional<Gathering::Disagreement> Gathering::Ready(int rank, const json& config, const std::string& place) {
  const auto [added, is_new] = ready_.try_emplace(rank, Rank{config, place});
  const auto first = ready_.find(0);
  if (!is_new || first == ready_.end()) return std::nullopt;
  if (rank != 0) return Compare(first->second, rank, added->second);
  for (const auto& [number, other] : ready_) {
    if (auto disagreement = Compare(first->second, number, other)) return disagreement;
  }
  return std::nullopt;
}

std::optional<Gathering::Disagreement> Gathering::Compare(const Rank& first, int rank, const Rank& other) {
  for (const auto& [key, expected] : first.config.items()) {
    const auto found = other.config.find(key);
    const json value = found == other.config.end() ? json() : *found;
    if (value == expected) continue;
    return Disagreement{"rank " + std::to_string(rank) + " disagrees with rank 0: " + Shown(key) + " is " +
                            ShownValue(value) + ", not " + ShownValue(expected) + " (" + other.place + ")",
                        HintFor(key, first.config)};
  }
  return std::nullopt;
}

std::string Gathering::Missing(const std::function<Contact(int rank)>& contact) const {
  RankList absent, unready, silent;
  for (int rank = 0; rank < world_size_; ++rank) {
    const Contact now = contact(rank);
    if (now == Contact::kAnswers && ready_.contains(rank)) continue;
    (now == Contact::kNone ? absent : now == Contact::kAnswers ? unready : silent).Add(rank);
  }
  if (absent.count() + silent.count() > 0) unready = {};  // they may be waiting for those
  std::string text;
  for (const auto& [list, what] : {std::pair(&absent, " not there"), std::pair(&unready, " still preparing"),
                                   std::pair(&silent, " does not answer")}) {
    if (list->count() > 0) text += (text.empty() ? "" : "; ") + list->Text() + what;
  }
  return "waiting for " + std::to_string(absent.count() + unready.count() + silent.count()) + " of " +
         std::to_string(world_size_) + " ranks: " + text;
}

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

// Counts with a quarantine of its own, without a file, so that budget and messages are those of one rank.
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
