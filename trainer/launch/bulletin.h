// Where rank 0 says its address when no launcher knows it: a small file in the run directory, which all machines share.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

// Names this start of the job, the same on all its ranks: a hash of the values of those variables that are set (some
// are secrets among processes, and the key becomes a file's name).
std::string KeyOfRun(const Environment& environment, const std::vector<std::string>& names);

// In `run_directory`, or in runs/ where that is not given.
std::filesystem::path BulletinPath(const std::string& run_directory, const std::string& key);

// The file's content is "dtrain rank 0 at HOST PORT\n". It is written beside and moved into place, so a reader finds
// nothing or all of it.
class Bulletin {
 public:
  explicit Bulletin(std::filesystem::path path) : path_(std::move(path)) {}
  // Removes what this object has posted.
  ~Bulletin();
  Bulletin(const Bulletin&) = delete;
  Bulletin& operator=(const Bulletin&) = delete;

  // Rank 0's part; replaces what an earlier attempt has left. Throws StorageError.
  void Post(const std::string& address, int port);

  // The others' part: sets `address` and `port` once they are posted. Throws PeerLostError naming the file after
  // `timeout_seconds`, Preempted when a stop is asked for.
  void Await(double timeout_seconds, const std::function<bool()>& stop_requested, std::string* address,
             int* port) const;

 private:
  bool Read(std::string* address, int* port) const;

  std::filesystem::path path_;
  bool posted_ = false;
};

// Completes a launch whose master is unknown: rank 0 opens its port (`listen_fd`) and posts it, the others wait for it.
// Keep the bulletin until the ranks have met.
void MeetThrough(Bulletin& bulletin, const Machine& machine, double timeout_seconds,
                 const std::function<bool()>& stop_requested, Launch* launch, int* listen_fd);

}  // namespace dtrain::launch
