#include "trainer/tasks/data_sets.h"

#include <algorithm>
#include <filesystem>

#include "data/image/check_images.h"
#include "data/joined.h"
#include "data/machine/limits.h"
#include "data/pipeline/node_cache.h"
#include "trainer/distributed/rendezvous.h"
#include "trainer/report/log.h"
#include "trainer/tasks/class_balance.h"

namespace dtrain::tasks {
namespace {

// The share of the free memory that the cache may take. The rest is for training, whose memory grows later.
constexpr double kShareOfMemory = 0.8;

// Returns a name for the processes that can open each other's files: those of one machine and PID namespace.
std::string Neighbourhood() {
  std::error_code none;
  return distributed::MachineId() + "/" + std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

std::shared_ptr<data::NodeCache> CacheOfThisMachine(int64_t records, distributed::Rendezvous* rendezvous) {
  const auto capacity = static_cast<int64_t>(kShareOfMemory * static_cast<double>(data::AvailableMemory()));
  std::shared_ptr<data::NodeCache> own = data::NodeCache::Create(records, capacity);
  if (rendezvous == nullptr) return own;
  const std::string offer = rendezvous->ShareFromEarliest("cache/" + Neighbourhood(), own->Offer());
  if (offer == own->Offer()) return own;
  if (std::shared_ptr<data::NodeCache> shared = data::NodeCache::Open(offer)) return shared;
  report::LogWarning("--cache=ram: the records that the other ranks of this machine hold cannot be reached (process " +
                     offer.substr(0, offer.find(' ')) + "): this rank keeps a cache of its own");
  return data::NodeCache::Create(records, capacity / std::max(1, rendezvous->launch().local_world_size));
}

}  // namespace

std::vector<const DataSplit*> ValidationSets(const DataSets& sets) {
  std::vector<const DataSplit*> splits;
  if (sets.val) splits.push_back(&*sets.val);
  for (const DataSplit& split : sets.further_val) splits.push_back(&split);
  return splits;
}

std::vector<const DataSplit*> AllSplits(const DataSets& sets) {
  std::vector<const DataSplit*> splits = ValidationSets(sets);
  if (sets.train) splits.insert(splits.begin(), &*sets.train);
  return splits;
}

std::string ValFingerprint(const DataSets& sets) {
  return Joined(ValidationSets(sets), ",", [](const DataSplit* split) { return split->source->fingerprint(); });
}

void LookThrough(const DataSets& sets, const config::Config& config) {
  for (const DataSplit* split : AllSplits(sets)) {
    const data::RecordSource& source = *split->source;
    // A held-out part shares the folder of the training split.
    const bool is_said_already = sets.train && split != &*sets.train && !split->whole.empty();
    const std::string ignored = is_said_already ? "" : data::ToText(source.ignored());
    if (!ignored.empty()) report::LogWarning(split->name + ": " + ignored);
    data::RequireGoodHeaders(
        source, {.split = split->name, .max_bad_records = config.data.max_bad_records, .strict = config.data.strict},
        &report::LogWarning);
    if (config.image.exif_orientation || is_said_already) continue;
    const std::string turned = data::SayTurned(source, split->name);
    if (!turned.empty()) report::LogWarning(turned);
  }
  if (config.data.format != "synthetic") SayClassBalance(sets);
}

void KeepInMemory(DataSets& data, distributed::Rendezvous* rendezvous) {
  int64_t records = 0;
  for (const DataSplit* split : AllSplits(data)) records += split->source->size();
  const auto cache = CacheOfThisMachine(records, rendezvous);
  int64_t first = 0;
  const auto keep = [&](DataSplit& split) {
    const int64_t size = split.source->size();
    split.source = std::make_unique<data::CachedSource>(std::move(split.source), cache, first, report::LogWarning);
    first += size;
  };
  if (data.train) keep(*data.train);
  if (data.val) keep(*data.val);
  for (DataSplit& split : data.further_val) keep(split);
}

}  // namespace dtrain::tasks
