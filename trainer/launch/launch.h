// Which launcher started this process, and what it says about ranks: a pure function of flags, environment and machine.
#pragma once

#include <map>
#include <string>

#include "trainer/config/config.h"

namespace dtrain::launch {

using Environment = std::map<std::string, std::string>;

// What launchers leave to be looked up on the spot.
struct Machine {
  int gpus = 0;
  int cores = 1;
  std::string address = "127.0.0.1";  // at which other machines reach this one
};

struct Launch {
  // flags | torchrun | openmpi | slurm | kubeflow | pytorchjob | aws_batch | single
  std::string launcher = "single";
  int rank = 0;  // of a process that forks ranks: its first one's
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int nnodes = 1;
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";  // empty: rank 0 publishes its own (bulletin_key)
  int master_port = 0;                    // 0: rank 0 chooses
  std::string bulletin_key;  // not empty: rank 0's address is to be found in the file BulletinPath(run_dir, key)
  // The run's token (run_token.h): given, made for ranks that are forked here, or read with the address. Empty: none
  // (yet).
  std::string token;
  std::string seen;          // the variables or flags that said all this, for error messages
  int gpu = -1;              // which of the visible GPUs is this rank's; -1: the one numbered local_rank
  int spawns = 0;            // > 0: this process forks that many local ranks and is none itself
  int restart_count = 0;     // how often the job was started again, by whomever
  bool agent_store = false;  // torchrun's agent already serves a store at master_addr:master_port
  bool forked = false;       // this rank is a child of the node launcher
};

// Copies the process environment.
Environment ReadEnvironment();

// The first launcher that recognises itself, most specific first: explicit flags, torchrun, Open MPI, a Slurm step,
// Kubeflow Trainer, PyTorchJob or Volcano, AWS Batch, none. Throws UsageError naming the variables seen when they are
// half set, contradict each other or the flags, or ask for more ranks than there are GPUs.
Launch DetectLaunch(const config::RanksConfig& ranks, const Environment& environment, const Machine& machine);

}  // namespace dtrain::launch
