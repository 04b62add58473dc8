#include "trainer/tasks/data_cache.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "data/machine/limits.h"
#include "data/pipeline/node_cache.h"
#include "trainer/distributed/distinct_gpus.h"
#include "trainer/report/log.h"

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
