// Where rank 0 says its address and the run's token when no launcher knows them: a small file in the run directory,
// which all machines share. Only this user may read it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

// Names this start of the job, the same on all its ranks: a hash of the values of those variables that are set (some
// are secrets among processes, and the key becomes a file's name).
std::string KeyOfRun(const Environment& environment, const std::vector<std::string>& names);

// In `run_directory`, or in runs/ where that is not given.
std::filesystem::path BulletinPath(const std::string& run_directory, const std::string& key);

struct Posting {
  std::string address;
  int port = 0;
  std::string token;
};

// The file's content is "dtrain rank 0 at HOST PORT TOKEN\n". It is written beside and moved into place, so a reader
// finds nothing or all of it.
class Bulletin {
 public:
  explicit Bulletin(std::filesystem::path path) : path_(std::move(path)) {}
  // Removes what this object has posted.
  ~Bulletin();
  Bulletin(const Bulletin&) = delete;
  Bulletin& operator=(const Bulletin&) = delete;

  // Rank 0's part; replaces what an earlier attempt has left. Throws StorageError.
  void Post(const Posting& posting);

  // The others' part: what was posted, once it is. Throws PeerLostError naming the file after `timeout_seconds`,
  // Preempted when a stop is asked for.
  Posting Await(double timeout_seconds, const std::function<bool()>& stop_requested) const;

 private:
  std::optional<Posting> Read() const;

  std::filesystem::path path_;
  bool posted_ = false;
};

// Completes a launch whose master is unknown: rank 0 opens its port (`listen_fd`) and posts it with a random token, the
// others wait for both. A token that was given is used, and is not posted.
// Keep the bulletin until the ranks have met.
void MeetThrough(Bulletin& bulletin, const Machine& machine, double timeout_seconds,
                 const std::function<bool()>& stop_requested, Launch* launch, int* listen_fd);

}  // namespace dtrain::launch
