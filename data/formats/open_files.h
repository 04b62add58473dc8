// Keeps a limited number of files open between reads: a data set may have more shards than a process may open files.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/formats/random_access_file.h"

namespace dtrain::data {

class OpenFiles {
 public:
  explicit OpenFiles(std::vector<std::string> paths) : paths_(std::move(paths)), files_(paths_.size()) {}

  // Returns the file, which is opened if it is not open. If too many files are open, the one opened first is closed as
  // soon as its last reader releases it. Throws DataError. Safe to call from many threads.
  std::shared_ptr<const RandomAccessFile> Get(size_t number) {
    const std::lock_guard lock(mutex_);
    if (!files_[number]) {
      if (order_.size() >= kMostOpen) {
        files_[order_.front()].reset();
        order_.pop_front();
      }
      files_[number] = std::make_shared<const RandomAccessFile>(paths_[number]);
      order_.push_back(number);
    }
    return files_[number];
  }

  const std::string& path(size_t number) const { return paths_[number]; }

 private:
  static constexpr size_t kMostOpen = 256;  // a quarter of a process's default limit

  const std::vector<std::string> paths_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const RandomAccessFile>> files_;
  std::deque<size_t> order_;  // numbers of the open files, in the order of opening
};

}  // namespace dtrain::data
