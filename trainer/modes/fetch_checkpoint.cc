#include "trainer/modes/fetch_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::modes {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;  // small enough for the store
constexpr char kFiles[] = "checkpoint/files";
constexpr int64_t kNone = -1;

std::string HeldBy(int rank) { return "checkpoint/held_by/" + std::to_string(rank); }
std::string Piece(int64_t number) { return "checkpoint/piece/" + std::to_string(number); }
std::string Taken(int64_t number) { return "checkpoint/taken/" + std::to_string(number); }

int64_t NewestStep(const checkpoint::Store& store) {
  const std::vector<int64_t> steps = store.Steps();
  return steps.empty() ? kNone : steps.back();
}

// Returns the newest valid checkpoint of this rank's own run directory if it is newer than rank 0's.
std::optional<checkpoint::Checkpoint> OwnIfNewer(const std::string& run_directory, int64_t than) {
  if (run_directory.empty()) return std::nullopt;
  try {
    const checkpoint::Store store(run_directory);
    if (NewestStep(store) <= than) return std::nullopt;
    auto found = store.FindNewestValid([](const std::filesystem::path& directory, const std::string& reason) {
      report::LogWarning("checkpoint " + directory.string() + " cannot be used: " + reason);
    });
    return found && found->step > than ? found : std::nullopt;
  } catch (const StorageError& error) {
    report::LogWarning(error.what());
    return std::nullopt;
  }
}

// The store is in rank 0's memory, so that the next piece waits until the last one is taken.
void Send(const std::filesystem::path& folder, c10d::Store& store) {
  nlohmann::ordered_json files;
  for (const std::string& name : checkpoint::NamesIn(folder)) files[name] = std::filesystem::file_size(folder / name);
  store.set(kFiles, files.dump());
  int64_t number = 0;
  for (const auto& [name, bytes] : files.items()) {
    std::ifstream file(folder / name, std::ios::binary);
    for (size_t left = bytes.get<size_t>(); left > 0; ++number) {
      std::string piece(std::min(left, kPieceBytes), '\0');
      if (!file.read(piece.data(), static_cast<std::streamsize>(piece.size())))
        throw StorageError("cannot read " + (folder / name).string());
      store.set(Piece(number), piece);
      store.wait({Taken(number)});
      store.deleteKey(Taken(number));
      left -= piece.size();
    }
  }
}

void Receive(const std::filesystem::path& folder, c10d::Store& store) {
  const auto files = nlohmann::ordered_json::parse(store.get_to_str(kFiles));
  std::error_code said_by_writing;
  std::filesystem::create_directories(folder, said_by_writing);
  int64_t number = 0;
  for (const auto& [name, bytes] : files.items()) {
    checkpoint::DurableFile file(folder / std::filesystem::path(name).filename());
    for (size_t left = bytes.get<size_t>(); left > 0; ++number) {
      const std::string piece = store.get_to_str(Piece(number));
      store.deleteKey(Piece(number));
      file.Append(piece);
      left -= std::min(left, piece.size());
      store.set(Taken(number), "");
    }
    file.Finish();
  }
}

}  // namespace

std::optional<checkpoint::Checkpoint> FetchNewestCheckpoint(const Session& session, const checkpoint::Store* store) {
  distributed::Rendezvous& ranks = *session.rendezvous;
  c10d::Store& shared = *ranks.store();
  const int rank = ranks.launch().rank;
  const int64_t first =
      std::stoll(ranks.ShareFromFirst("newest_checkpoint", store == nullptr ? "" : std::to_string(NewestStep(*store))));
  std::optional<checkpoint::Checkpoint> own;
  int holder = 0;
  int64_t newest = first;
  if (rank != 0) {
    own = OwnIfNewer(session.context.config.run.dir, first);
    shared.set(HeldBy(rank), std::to_string(own ? own->step : kNone));
  }
  // Ranks that do not come are the control plane's matter, which names them and ends this process before.
  const auto patience = 2 * shared.getTimeout();
  for (int other = 1; rank == 0 && other < ranks.launch().world_size; ++other) {
    shared.wait({HeldBy(other)}, patience);
    const int64_t step = std::stoll(shared.get_to_str(HeldBy(other)));
    if (step > newest) std::tie(newest, holder) = std::pair(step, other);
  }
  if (rank != 0) shared.wait({"shared/checkpoint_holder"}, patience);
  holder = std::stoi(ranks.ShareFromFirst("checkpoint_holder", std::to_string(holder)));
  if (holder != 0 && rank == holder) Send(own->directory, shared);
  if (holder == 0 || rank != 0) return std::nullopt;
  report::LogInfo("rank " + std::to_string(holder) + " has the newest checkpoint, of step " + std::to_string(newest) +
                  ", on a disk of its own, and sends it");
  const std::filesystem::path folder = store->TemporaryFor(newest);
  Receive(folder, shared);
  return checkpoint::OpenCheckpoint(folder, [](const auto&, const std::string&) {});
}

}  // namespace dtrain::modes
