// A small file through which rank 0 tells the other ranks its address and the run's token if no launcher knows the
// address. It lies in the run directory, which all machines share, and only this user may read it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/launch/launch.h"

namespace dtrain::launch {

// Returns a name for this start of the job, which is the same on all its ranks: a hash of the values of the variables
// `names`. It is a hash because some of the values are secrets, and the key becomes part of a file's name.
std::string KeyOfRun(const Environment& environment, const std::vector<std::string>& names);

// Returns the path of the file: in `run_directory`, or in runs/ if that is empty.
std::filesystem::path AddressFilePath(const std::string& run_directory, const std::string& key);

struct Posting {
  std::string address;
  int port = 0;
  std::string token;
};

// The content of the file is "dtrain rank 0 at HOST PORT TOKEN\n", with "-" for an empty token. It is written under
// another name and then renamed, so a reader finds all of it or nothing.
class AddressFile {
 public:
  explicit AddressFile(std::filesystem::path path) : path_(std::move(path)) {}
  // Removes the file if this object has posted it.
  ~AddressFile();
  // Removes what Post has written. Called when all ranks have read it; at the latest by the destructor.
  void Remove();
  AddressFile(const AddressFile&) = delete;
  AddressFile& operator=(const AddressFile&) = delete;

  // Called by rank 0. Replaces a file that an earlier attempt has left. Throws StorageError.
  void Post(const Posting& posting);

  // Called by the other ranks: waits for the file and returns its content. Throws PeerLostError naming the file after
  // `timeout_seconds`, and Preempted if `stop_requested` returns true.
  Posting Await(double timeout_seconds, const std::function<bool()>& stop_requested) const;

 private:
  std::optional<Posting> Read() const;

  std::filesystem::path path_;
  bool posted_ = false;
};

// Completes a launch that has an address_key; leaves others as they are. Rank 0 opens a port, stores its socket in
// `*listen_fd` and posts address, port and a random token; the other ranks wait for these. A token that `launch`
// already has is used and not posted. The file must live until the ranks are connected. Throws as Post and Await do.
void MeetThrough(AddressFile& address_file, const Machine& machine, double timeout_seconds,
                 const std::function<bool()>& stop_requested, Launch* launch, int* listen_fd);

}  // namespace dtrain::launch
