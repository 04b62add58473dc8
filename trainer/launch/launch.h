// Finds out which launcher started this process, which rank it is, and when its job ends. These are pure functions of
// flags, environment and machine, so that tests can try every launcher.
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>

#include "trainer/config/config.h"

namespace dtrain::launch {

using Environment = std::map<std::string, std::string>;

// Facts about this machine that no launcher tells.
struct Machine {
  int gpus = 0;
  std::string why_no_gpu = "this machine has no GPU that can be used";  // said where there should be one
  int cores = 1;
  std::string address = "127.0.0.1";  // the address at which other machines reach this one
};

// What is known of a launcher besides its variables.
struct Launcher {
  const char* name = "single";
  bool is_one = false;        // false: the process was started by hand, for this machine alone
  bool is_outlived = false;   // by its ranks when it is killed: see EndWithParent
  bool sets_threads = false;  // it sets OMP_NUM_THREADS=1 of its own accord for several ranks a machine
};

// The rank that a process is, or the ranks that it forks.
struct Launch {
  Launcher launcher = {};
  int rank = 0;  // if the process forks ranks, that of the first one
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int nnodes = 1;
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";  // of rank 0; empty: rank 0 posts its own (address_key)
  int master_port = 0;                    // 0: rank 0 chooses
  std::string address_key = {};  // not empty: rank 0 posts its address in the file AddressFilePath(run_dir, key)
  // The run's token (run_token.h): given, or made for ranks that are forked here, or read from that file. Empty: no
  // token, or none yet.
  std::string token = {};
  std::string seen = {};     // the variables or flags that this was detected from, for messages
  int gpu = -1;              // the index of this rank's GPU among the visible ones; -1: local_rank
  int spawns = 0;            // > 0: this process forks that many local ranks and is not a rank itself
  int restart_count = 0;     // how often the job was started again, by any launcher or scheduler
  std::string job = {};      // what the scheduler calls the job in each of its attempts; empty: it does not
  bool agent_store = false;  // torchrun's agent already serves a store at master_addr:master_port
  bool forked = false;       // this rank is a child of the node launcher
  // NCCL has been told by NCCL_MULTI_RANK_GPU_ENABLE=1 that ranks may share a GPU (NCCL 2.30 or newer). It is slow, but
  // several ranks can be tried on a machine with one GPU.
  bool may_share_gpus = false;
};

// Returns a copy of the environment of this process.
Environment ReadEnvironment();

// Returns the value of a variable; empty if it is not set. Container tools pass unset variables on as empty ones.
std::string ValueOf(const Environment& environment, const std::string& name);

// Asks the launchers (the table of launchers.cc) and returns the first match. Throws UsageError naming the variables if
// they are half set, contradict each other or the flags, or ask for more ranks than there are GPUs.
Launch DetectLaunch(const config::RanksConfig& ranks, const Environment& environment, const Machine& machine);

// Other machines cannot come to a name of this machine's own that means its loopback interface here (Debian's installer
// writes `127.0.1.1 NAME` into /etc/hosts), so this machine's ranks take another address of it, or else that of
// `machine`. Looks the name up. Returns a sentence for people; empty if nothing has changed.
std::string LeaveLoopback(const Machine& machine, Launch* launch);

// When a job has to have saved its training, since its launcher ends it soon afterwards.
struct TimeLimit {
  double seconds = 0;  // from now on
  std::string reason;  // for people
};

// Returns the limit of --max_hours; if that is not given, three minutes before the end of the Slurm job, or in the
// middle of the time that is left, if that is later. Empty if there is no limit or the end has passed. AWS Batch,
// Kubernetes and others tell their jobs no end.
std::optional<TimeLimit> FindTimeLimit(const std::optional<double>& max_hours, const Environment& environment,
                                       std::time_t now);

}  // namespace dtrain::launch
