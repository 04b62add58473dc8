// The file holds the header, an entry for each record, then the bytes of the records in the order in which they were
// kept. One thread of one process claims a record, copies its bytes, and publishes them by a store that readers
// acquire. So there is no lock that a killed process could hold. (A record that it had claimed is never kept; but then
// the run ends anyway.)
#include "data/pipeline/node_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>
#include <sstream>

#include "data/error.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kCacheMagic = 0x4548434143525444;  // "DTRCACHE"
constexpr uint64_t kAbsent = 0, kBeingWritten = 1;
static_assert(std::atomic<uint64_t>::is_always_lock_free);  // required for use between processes

}  // namespace

struct NodeCache::Header {
  uint64_t magic;
  uint64_t token;  // random, to recognise a file of another process with the same descriptor
  int64_t records;
  int64_t capacity;
  std::atomic<uint64_t> used;  // bytes given to records; may exceed the capacity
  std::atomic<int64_t> kept;
  std::atomic<bool> found_full;
};

struct NodeCache::Entry {
  std::atomic<uint64_t> begin;  // bytes from the start of the file, or kAbsent, or kBeingWritten
  uint64_t bytes;
};

NodeCache::NodeCache(int descriptor, void* begin, size_t bytes)
    : descriptor_(descriptor), begin_(begin), bytes_(bytes) {}

NodeCache::~NodeCache() {
  munmap(begin_, bytes_);
  close(descriptor_);
}

NodeCache::Header& NodeCache::header() const { return *static_cast<Header*>(begin_); }

NodeCache::Entry& NodeCache::entry(int64_t record) const {
  return reinterpret_cast<Entry*>(static_cast<std::byte*>(begin_) + sizeof(Header))[record];
}

int64_t NodeCache::records_kept() const { return header().kept; }
int64_t NodeCache::capacity() const { return header().capacity; }
bool NodeCache::FirstToFindItFull() { return !header().found_full.exchange(true); }

std::unique_ptr<NodeCache> NodeCache::Map(int descriptor) {
  struct stat status {};
  const bool known = fstat(descriptor, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(Header));
  const auto bytes = static_cast<size_t>(status.st_size);
  void* const begin =
      known ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0) : MAP_FAILED;
  if (begin != MAP_FAILED) return std::unique_ptr<NodeCache>(new NodeCache(descriptor, begin, bytes));
  close(descriptor);
  return nullptr;
}

std::unique_ptr<NodeCache> NodeCache::Create(int64_t records, int64_t capacity) {
  const size_t bytes = sizeof(Header) + static_cast<size_t>(records) * sizeof(Entry) + static_cast<size_t>(capacity);
  const int descriptor = memfd_create("dtrain-cache", MFD_CLOEXEC);
  std::unique_ptr<NodeCache> cache;
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) {
    cache = Map(descriptor);
  } else if (descriptor >= 0) {
    close(descriptor);
  }
  if (!cache) {
    const ExitCode code = errno == ENOMEM ? ExitCode::kOutOfMemory : ExitCode::kData;
    throw Error(code, "cannot make a cache of " + std::to_string(bytes) + " bytes: " + std::strerror(errno),
                "leave out --cache=ram");
  }
  std::random_device draw;
  const uint64_t token = uint64_t{draw()} << 32 | draw();
  // The rest of the file is zero: every record is absent.
  new (cache->begin_) Header{.magic = kCacheMagic,
                             .token = token,
                             .records = records,
                             .capacity = capacity,
                             .used = 0,
                             .kept = 0,
                             .found_full = false};
  return cache;
}

std::string NodeCache::Offer() const {
  std::ostringstream text;
  text << getpid() << ' ' << descriptor_ << ' ' << header().token;
  return text.str();
}

std::unique_ptr<NodeCache> NodeCache::Open(const std::string& offer) {
  std::istringstream text(offer);
  int process = 0, number = 0;
  uint64_t token = 0;
  if (!(text >> process >> number >> token)) return nullptr;
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  struct stat status {};
  // Only a regular file is opened: opening anything else could block.
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  auto cache = descriptor >= 0 ? Map(descriptor) : nullptr;
  if (!cache || cache->header().magic != kCacheMagic || cache->header().token != token) return nullptr;
  return cache;
}

std::optional<std::vector<uint8_t>> NodeCache::Find(int64_t record) const {
  const Entry& found = entry(record);
  const uint64_t begin = found.begin.load(std::memory_order_acquire);
  if (begin == kAbsent || begin == kBeingWritten) return std::nullopt;
  const auto* bytes = static_cast<const uint8_t*>(begin_) + begin;
  return std::vector<uint8_t>(bytes, bytes + found.bytes);
}

bool NodeCache::Keep(int64_t record, std::span<const uint8_t> bytes) {
  Entry& target = entry(record);
  uint64_t state = kAbsent;
  if (!target.begin.compare_exchange_strong(state, kBeingWritten)) return true;
  const auto capacity = static_cast<uint64_t>(header().capacity);
  const uint64_t begin = header().used < capacity ? header().used.fetch_add(bytes.size()) : capacity;
  if (begin + bytes.size() > capacity) {
    target.begin = kAbsent;
    return false;
  }
  const uint64_t position = sizeof(Header) + static_cast<uint64_t>(header().records) * sizeof(Entry) + begin;
  if (!bytes.empty()) std::memcpy(static_cast<uint8_t*>(begin_) + position, bytes.data(), bytes.size());
  target.bytes = bytes.size();
  target.begin.store(position, std::memory_order_release);
  ++header().kept;
  return true;
}

std::vector<uint8_t> CachedSource::Read(int64_t index) const {
  if (auto found = cache_->Find(first_ + index)) return std::move(*found);
  std::vector<uint8_t> bytes = whole_->Read(index);
  if (!cache_->Keep(first_ + index, bytes) && cache_->FirstToFindItFull()) {
    char text[200];
    std::snprintf(
        text, sizeof text,
        "--cache=ram: %.1f GiB hold %lld records and are full; the others are read from storage in every epoch "
        "(pack the images resized, or use more machines)",
        static_cast<double>(cache_->capacity()) / (1 << 30), static_cast<long long>(cache_->records_kept()));
    note_(text);
  }
  return bytes;
}

}  // namespace dtrain::data
