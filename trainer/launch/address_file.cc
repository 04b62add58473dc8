#include "trainer/launch/address_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "data/sha256.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/run_token.h"

namespace dtrain::launch {
namespace fs = std::filesystem;
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);
constexpr const char* kStart = "dtrain rank 0 at ";
constexpr const char* kNoToken = "-";
constexpr size_t kLongest = 1024;
constexpr size_t kKeyDigits = 16;

// Network file systems remember for seconds that a file does not exist. Listing its folder makes them look again.
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
  data::Sha256 hash;
  for (const std::string& name : names) hash.UpdateText(ValueOf(environment, name));
  return hash.Hex().substr(0, kKeyDigits);
}

fs::path AddressFilePath(const std::string& run_directory, const std::string& key) {
  return fs::path(run_directory.empty() ? config::kRuns : run_directory) / (".rank0-" + key);
}

AddressFile::~AddressFile() { Remove(); }

void AddressFile::Remove() {
  std::error_code ignored;
  if (std::exchange(posted_, false)) fs::remove(path_, ignored);
}

void AddressFile::Post(const Posting& posting) {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error) FailToPost(path_, error.message());
  const fs::path beside = path_.string() + "." + std::to_string(getpid());
  fs::remove(beside, error);  // left by an earlier process with this pid
  const int descriptor = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) FailToPost(path_, std::strerror(errno));
  const std::string token = posting.token.empty() ? kNoToken : posting.token;
  const std::string line = kStart + posting.address + ' ' + std::to_string(posting.port) + ' ' + token + '\n';
  errno = 0;
  bool written = write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  written = close(descriptor) == 0 && written;
  if (!written) {
    const std::string reason = std::strerror(errno);
    fs::remove(beside, error);
    FailToPost(path_, reason);
  }
  fs::rename(beside, path_, error);
  if (error) FailToPost(path_, error.message());
  posted_ = true;
}

std::optional<Posting> AddressFile::Read() const {
  const int descriptor = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  char text[kLongest];
  const ssize_t bytes = read(descriptor, text, sizeof text);
  close(descriptor);
  const std::string_view content(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  if (!content.starts_with(kStart) || !content.ends_with('\n')) return std::nullopt;
  std::istringstream rest(std::string(content.substr(std::strlen(kStart))));
  Posting posting;
  if (!(rest >> posting.address >> posting.port >> posting.token)) return std::nullopt;
  if (posting.port < 1 || posting.port > 65535) return std::nullopt;
  if (posting.token == kNoToken) posting.token.clear();
  return posting;
}

Posting AddressFile::Await(double timeout_seconds, const std::function<bool()>& stop_requested) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  while (true) {
    if (const auto posting = Read()) return *posting;
    if (stop_requested()) throw Preempted("stopped before the training began");
    if (std::chrono::steady_clock::now() >= deadline) {
      throw PeerLostError("rank 0 did not post its address in " + path_.string() + " within --init_timeout",
                          "see rank 0's output. All ranks must share this --run_dir and run as the same user; if they "
                          "do not, give --master_addr and --master_port, or set MASTER_ADDR and MASTER_PORT");
    }
    Relist(path_.parent_path());
    std::this_thread::sleep_for(kPollInterval);
  }
}

void MeetThrough(AddressFile& address_file, const Machine& machine, double timeout_seconds,
                 const std::function<bool()>& stop_requested, Launch* launch, int* listen_fd) {
  if (launch->address_key.empty()) return;
  const bool has_token = !launch->token.empty();
  if (launch->rank != 0) {
    const Posting posting = address_file.Await(timeout_seconds, stop_requested);
    launch->master_addr = posting.address;
    launch->master_port = posting.port;
    if (!has_token) launch->token = posting.token;
    return;
  }
  if (!has_token) launch->token = RandomToken();
  launch->master_addr = launch->nnodes == 1 ? "127.0.0.1" : machine.address;
  *listen_fd = ListenOn(launch->master_addr, /*port=*/0);
  launch->master_port = PortOf(*listen_fd);
  address_file.Post({launch->master_addr, launch->master_port, has_token ? "" : launch->token});
}

}  // namespace dtrain::launch
