// Keeps records in memory, once for all ranks of a machine. The memory is an anonymous file (memfd) rather than one in
// /dev/shm: it takes space only as it fills, containers do not limit it to 64 MB, and nothing of it remains after the
// last rank has ended, even by kill -9.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/record_source.h"

namespace dtrain::data {

// All methods are safe to call from many threads and processes at once.
class NodeCache {
 public:
  // Makes room for `records` records (numbered from 0) of at most `capacity` bytes together. Memory is only used as
  // records are kept. Throws Error (exit code 7 if there is no memory, else 3).
  static std::unique_ptr<NodeCache> Create(int64_t records, int64_t capacity);

  // Opens the cache of another process on this machine, given its Offer(). Returns null if it cannot be reached: the
  // process is in another container, belongs to another user, or has ended.
  static std::unique_ptr<NodeCache> Open(const std::string& offer);

  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  // Returns one line of text for Open, valid while this process lives.
  std::string Offer() const;

  // Returns the bytes of a record; empty if it is not in the cache.
  std::optional<std::vector<uint8_t>> Find(int64_t record) const;

  // Keeps a copy of the bytes, unless the record is in the cache already or another thread is adding it. Returns false
  // if they do not fit.
  bool Keep(int64_t record, std::span<const uint8_t> bytes);

  // Returns true to exactly one caller on this machine, which then reports that the cache is full.
  bool FirstToFindItFull();

  int64_t records_kept() const;  // by all processes
  int64_t capacity() const;      // bytes

 private:
  struct Header;
  struct Entry;
  NodeCache(int descriptor, void* begin, size_t bytes);
  static std::unique_ptr<NodeCache> Map(int descriptor);
  Header& header() const;
  Entry& entry(int64_t record) const;

  const int descriptor_;
  void* const begin_;
  const size_t bytes_;  // size of the mapping
};

// A set of records that is read from storage once and then kept in the cache.
class CachedSource : public SourceView {
 public:
  // Record i of `source` is record first + i of the cache. `note` is called from any thread, once per machine, if not
  // all records fit; those that do not fit are read from storage every time.
  CachedSource(std::unique_ptr<RecordSource> source, std::shared_ptr<NodeCache> cache, int64_t first,
               std::function<void(const std::string&)> note)
      : SourceView(std::move(source)), cache_(std::move(cache)), first_(first), note_(std::move(note)) {}

  // A record that cannot be read is not kept, so the next call tries again.
  std::vector<uint8_t> Read(int64_t index) const override;

 private:
  const std::shared_ptr<NodeCache> cache_;
  const int64_t first_;
  const std::function<void(const std::string&)> note_;
};

}  // namespace dtrain::data
