// --doctor: examines machine, network and data before people spend hours on a run. It leaves nothing behind. The result
// of each check is a value, so that tests can try verdicts without the machine they are about.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/error.h"
#include "trainer/config/config.h"
#include "trainer/device/device_choice.h"
#include "trainer/launch/launch.h"
#include "trainer/modes/run.h"
#include "trainer/tasks/data_sets.h"

namespace dtrain::doctor {

enum class Verdict { kOk, kWarning, kFailed };

struct Finding {
  std::string check;  // one or two words: the thing that was checked
  Verdict verdict = Verdict::kOk;
  std::string what;                 // the facts, with numbers
  std::string remedy = {};          // what to do; empty if the verdict is kOk
  ExitCode code = ExitCode::kDone;  // the exit code of a failure; otherwise kDone
};

Finding Ok(const std::string& check, const std::string& what);
Finding Warning(const std::string& check, const std::string& what, const std::string& remedy);
Finding Failed(const std::string& check, ExitCode code, const std::string& what, const std::string& remedy);

// Returns the finding of `look`, or a failure if `look` throws an Error.
Finding Tried(const std::string& check, const std::function<Finding()>& look);

// Prints findings on stdout as they come, and remembers the first failure.
class Findings {
 public:
  Findings(bool as_json, int rank, int world_size) : as_json_(as_json), rank_(rank), world_size_(world_size) {}

  // Prints one line: "failed   disk           cannot …; choose another --run_dir". With several ranks it begins with
  // "[rank 1] ". As JSON it is an object with check, verdict, what, remedy, rank and host; a failure also has
  // exit_code.
  void Say(const Finding& finding);

  // The exit code of the first failure; kDone if there was none.
  ExitCode code() const { return code_; }

 private:
  const bool as_json_;
  const int rank_;
  const int world_size_;
  ExitCode code_ = ExitCode::kDone;
};

// Prints a line for each check. The ranks connect to each other as those of a run do, within --init_timeout (if not
// given: one minute), and disconnect again. Returns the exit code of this rank's first failure, or kDone.
ExitCode Examine(const modes::RunContext& context, const launch::Machine& machine);

// The checks, each as a judgement of facts, which tests can give it, and a function that finds the facts.

// --- Launcher: address, port, token and clock, which ranks need to find and understand each other ---

// Names the launcher that was detected, and this process's rank. Always ok.
Finding LauncherFound(const launch::Launch& launch);

// The numeric addresses of a host name; if there are none, the resolver's reason.
struct Resolved {
  std::vector<std::string> addresses;
  std::string reason;
};
Resolved Resolve(const std::string& host);

// Judges the address of rank 0, as this machine resolves it. In a run of several machines a loopback address (Debian's
// /etc/hosts has such lines for the own name) only earns a warning: the meeting of the ranks shows whether it matters.
Finding JudgeAddress(const launch::Launch& launch, const Resolved& resolved);

// On rank 0, listens on its port for a moment. `already_listens`: the node launcher has opened it.
Finding TryPort(const launch::Launch& launch, bool already_listens);

// Judges whether strangers can join the run: docs/trust.md.
Finding JudgeToken(const launch::Launch& launch);

// `seconds_off` is this machine's clock minus rank 0's. It includes the time that rank 0's answer took.
Finding JudgeClock(double seconds_off);

// --- Machine: the system's limits for this process, and the disk of the run directory, which is not made ---

struct Threads {
  int64_t machine_cores = 1;    // cores of the whole machine
  int64_t available_cores = 1;  // of these, as many as affinity and the container's quota leave
  int64_t local_ranks = 1;
  int64_t compute_threads = 1;  // of each rank: OMP_NUM_THREADS, or its share of the cores
  int64_t workers = 1;          // decode threads of each rank
};
Finding JudgeThreads(const Threads& threads);

// `limit` is the number of files and connections that this process may have open. Rank 0 is connected to all others.
Finding JudgeOpenFiles(uint64_t limit, int world_size);

// `limit_bytes` is RLIMIT_MEMLOCK. `has_rdma`: there is an adapter for InfiniBand or EFA, which needs locked memory.
Finding JudgeLockedMemory(uint64_t limit_bytes, bool has_rdma);

// `free_bytes` are free in /dev/shm, through which NCCL connects the ranks of a machine; below 0: it does not exist.
Finding JudgeSharedMemory(int64_t free_bytes, int local_ranks, bool on_gpus);

// These look at the machine.
Threads CountThreads(const launch::Launch& launch, int64_t workers);
// Whether there is an adapter for InfiniBand or EFA.
bool HasRdma();

struct DiskFacts {
  std::filesystem::path folder;  // the run directory, or the nearest folder above it that exists
  int64_t free_bytes = 0;
  double bytes_per_second = 0;  // measured with writing and syncing
};
Finding JudgeDisk(const DiskFacts& facts);

// Writes 16 MiB there, syncs and removes them. Throws StorageError.
DiskFacts MeasureDisk(const std::filesystem::path& run_directory);

// --- GPU with its driver and LibTorch's CUDA, NCCL, and its network between machines (EFA) ---

// Names the device that the rank computes on, or the reason why it cannot.
Finding JudgeDevice(const device::GpuFacts& facts, const device::RankPlace& place, const std::string& backend,
                    const device::GpuSigns& signs, const std::string& precision = "fp32");

// `version` is that of ncclGetVersion (22907 is 2.29.7); 0: the library was not found.
Finding JudgeNccl(int version);

struct EfaFacts {
  int adapters = 0;             // Amazon's adapters in /sys/class/infiniband
  bool has_fi_info = false;     // libfabric's tool fi_info is on the PATH
  bool provider_works = false;  // `fi_info -p efa` lists it
  bool has_plugin = false;      // the library of aws-ofi-nccl can be loaded
};
Finding JudgeEfa(const EfaFacts& facts, int nnodes);

// These look at the machine. LookAtDevice initialises CUDA if there is a GPU, and sets `*on_gpu` to whether the rank
// computes on one.
Finding LookAtDevice(const launch::Launch& launch, const config::Config& config, bool* on_gpu);
Finding LookAtNccl();
Finding LookAtEfa(int nnodes);

// --- Data: opened as a run would open it, and some of its records read ---

struct ReadFacts {
  std::string split;
  int64_t records = 0;  // of the split
  int64_t tried = 0;
  int64_t bad = 0;             // of `tried`, those that could not be read or decoded
  std::string first_bad = {};  // place and error of the first bad one
  double bytes = 0;            // encoded bytes that were read
  double read_seconds = 0;     // of all good records together
  double decode_seconds = 0;   // likewise
};
// `most_bad` is the fraction of bad records that is allowed.
Finding JudgeReading(const ReadFacts& facts, double most_bad);

// Reads and decodes up to 256 evenly spaced records on this thread, for 10 seconds at most.
ReadFacts ReadSome(const tasks::DataSplit& split);

// Opens the data and adds a finding for each split. Keeps no index on the disk. Throws as TaskKind::OpenData does.
void ExamineData(const config::Config& config, Findings& findings);

}  // namespace dtrain::doctor
