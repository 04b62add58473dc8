// Network file systems remember for seconds that a file was not there. Listing the folder makes them look again.
#include "trainer/launch/bulletin.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "trainer/errors.h"
#include "trainer/launch/local_address.h"

namespace dtrain::launch {
namespace fs = std::filesystem;
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);

void Relist(const fs::path& folder) {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored); !ignored && entry != fs::directory_iterator();) {
    entry.increment(ignored);
  }
}

[[noreturn]] void FailToPost(const fs::path& path, const std::string& reason) {
  throw StorageError("rank 0 cannot post its address in " + path.string() + ": " + reason,
                     "choose a --run_dir that can be written and that all machines share, or give --master_addr and "
                     "--master_port");
}

}  // namespace

std::string KeyOfRun(const Environment& environment, const std::vector<std::string>& names) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const std::string& name : names) {
    const auto found = environment.find(name);
    const std::string value = found == environment.end() ? "" : found->second;
    for (const char c : value + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  std::ostringstream text;
  text << std::hex << hash;
  return text.str();
}

fs::path BulletinPath(const std::string& run_directory, const std::string& key) {
  return fs::path(run_directory.empty() ? "runs" : run_directory) / (".rank0-" + key);
}

Bulletin::~Bulletin() {
  std::error_code ignored;
  if (posted_) fs::remove(path_, ignored);
}

void Bulletin::Post(const std::string& address, int port) {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error) FailToPost(path_, error.message());
  const fs::path beside = path_.string() + "." + std::to_string(getpid());
  errno = 0;
  std::ofstream file(beside);
  file << "dtrain rank 0 at " << address << ' ' << port << '\n';
  file.close();
  if (!file) {
    const std::string reason = std::strerror(errno);
    fs::remove(beside, error);
    FailToPost(path_, reason);
  }
  fs::rename(beside, path_, error);
  if (error) FailToPost(path_, error.message());
  posted_ = true;
}

bool Bulletin::Read(std::string* address, int* port) const {
  std::ifstream file(path_);
  std::string line, host;
  int number = 0;
  constexpr const char* kStart = "dtrain rank 0 at ";
  if (!std::getline(file, line) || line.rfind(kStart, 0) != 0) return false;
  std::istringstream rest(line.substr(std::strlen(kStart)));
  if (!(rest >> host >> number) || number < 1 || number > 65535) return false;
  *address = host;
  *port = number;
  return true;
}

void Bulletin::Await(double timeout_seconds, const std::function<bool()>& stop_requested, std::string* address,
                     int* port) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  while (!Read(address, port)) {
    if (stop_requested()) throw Preempted("stopped before the training began");
    if (std::chrono::steady_clock::now() >= deadline) {
      throw PeerLostError("rank 0 did not post its address in " + path_.string() + " within --init_timeout",
                          "look at rank 0's output. All machines must share this --run_dir; where they do not, give "
                          "--master_addr and --master_port, or set MASTER_ADDR and MASTER_PORT");
    }
    Relist(path_.parent_path());
    std::this_thread::sleep_for(kPollInterval);
  }
}

void MeetThrough(Bulletin& bulletin, const Machine& machine, double timeout_seconds,
                 const std::function<bool()>& stop_requested, Launch* launch, int* listen_fd) {
  if (launch->rank != 0) {
    return bulletin.Await(timeout_seconds, stop_requested, &launch->master_addr, &launch->master_port);
  }
  launch->master_addr = launch->nnodes == 1 ? "127.0.0.1" : machine.address;
  *listen_fd = ListenAnywhereOn(launch->master_addr, &launch->master_port);
  bulletin.Post(launch->master_addr, launch->master_port);
}

}  // namespace dtrain::launch
