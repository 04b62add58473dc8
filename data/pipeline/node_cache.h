// Records in memory, once for all ranks of a machine. An anonymous file (memfd) rather than one in /dev/shm: it takes
// space as it fills, containers do not limit it to 64 MB, and when the last rank has ended, by kill -9 even, nothing of
// it is left.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtrain::data {

// All methods are safe to call from many threads and processes at once.
class NodeCache {
 public:
  // Room for `records` records (numbered from 0) of `capacity` bytes together; nothing is used before there is
  // something to hold. Throws DataError where it cannot be made.
  static std::unique_ptr<NodeCache> Create(int64_t records, int64_t capacity);

  // The one that another process of this machine has made, by what its Offer() says. Null where it cannot be reached:
  // in another container, of another user, or ended meanwhile.
  static std::unique_ptr<NodeCache> Open(const std::string& offer);

  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  // One line of text; good as long as this process lives.
  std::string Offer() const;

  // The bytes of a record; nullopt: it is not here.
  std::optional<std::vector<uint8_t>> Find(int64_t record) const;

  // Keeps the bytes, unless the record is here already (or is just being kept). False: it does not fit.
  bool Keep(int64_t record, std::span<const uint8_t> bytes);

  // True for one caller on this machine: who tells that something did not fit.
  bool FirstToFindItFull();

  int64_t records_kept() const;
  int64_t capacity() const;

 private:
  struct Header;
  struct Entry;
  NodeCache(int descriptor, void* begin, size_t bytes);
  static std::unique_ptr<NodeCache> Map(int descriptor);
  Header& header() const;
  Entry& entry(int64_t record) const;

  const int descriptor_;
  void* const begin_;
  const size_t bytes_;  // of the mapping
};

}  // namespace dtrain::data
