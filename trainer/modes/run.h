// The modes of --mode, which dtrain_main runs once a process knows its rank. Each has a file of its own.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/config_json.h"
#include "trainer/control/control_plane.h"
#include "trainer/launch/address_file.h"
#include "trainer/launch/launch.h"
#include "trainer/launch/node_launcher.h"

namespace dtrain::modes {

// The state of this process, kept up to date for the report of a failure.
struct RunStatus {
  std::string run_directory;                    // empty: none, or not known yet
  std::atomic<bool> has_run_directory = false;  // run_directory is set and may be read by any thread
  std::atomic<bool> uses_nccl = false;
  bool meets_ranks = false;  // the ranks are being connected: the launcher may be to blame for errors
  std::shared_ptr<control::ControlPlane> control;
  // A rank that the node launcher forked has it in memory that the parent can read.
  std::shared_ptr<launch::RankState> rank = std::make_shared<launch::RankState>();
};

struct RunContext {
  config::Config config;  // resolved; a training that goes on has its own (ConfigOfRun)
  launch::Launch launch;
  int listen_fd = -1;  // ≥ 0: the socket on which rank 0 listens already; see RendezvousOptions
  RunStatus* status = nullptr;
  launch::AddressFile* address_file = nullptr;  // of rank 0's address
  config::Start start;                          // how the program was started, for config.json
  std::vector<std::string> notes;               // for people; rank 0 logs them once there is a log
};

// With --resume=last and no --run_dir, sets --run_dir to the newest run in runs/, or to the one that this job took
// before a launcher started it again, and --resume to auto. If there is no run, throws UsageError on rank 0; the other
// ranks learn the directory from rank 0.
void FindLastRun(RunContext& context);

// Returns the run directory of a training without --run_dir: a new one; or if a launcher has started the job again, the
// newest one that an earlier attempt began or went on with, by the same command. Adds a note if it is new all the same.
// Throws StorageError.
std::string DefaultRunDirectory(const RunContext& context, bool restarted, std::vector<std::string>& notes);

// Prints the plan, and checks everything that can be checked without the other ranks.
void DryRun(const RunContext& context);

// These connect to the other ranks first. All ranks call them.
void Train(const RunContext& context);
void EvaluateOnly(const RunContext& context);

// Opens the log of a process without a Session, and says the notes.
void OpenLog(const RunContext& context);

// These run on one rank; they throw UsageError if there are several.
void Predict(const RunContext& context);
void Export(const RunContext& context);

}  // namespace dtrain::modes
