// What a fuzz target is, and what all have: cutting an input into pieces, a file that exists only in memory, and
// reporting a finding.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dtrain::fuzz {

using Target = void (*)(std::span<const uint8_t> whole);

// All targets, by name.
inline std::map<std::string, Target>& Targets() {
  static std::map<std::string, Target> targets;
  return targets;
}

// Begins the definition of a target. What it throws is a finding.
#define FUZZ_TARGET(name)                                                         \
  void Fuzz_##name(std::span<const uint8_t> whole);                               \
  const bool is_known_##name = Targets().try_emplace(#name, &Fuzz_##name).second; \
  void Fuzz_##name(std::span<const uint8_t> whole)

// Reports that an input breaks a promise of the code under test. Nothing catches the exception before libFuzzer or the
// replay test does.
inline void Require(bool promise, const char* what) {
  if (!promise) throw std::logic_error(what);
}

// Takes pieces off the front. After the end, it returns zeros and empty spans.
class FuzzInput {
 public:
  explicit FuzzInput(std::span<const uint8_t> whole) : rest_(whole) {}

  bool empty() const { return rest_.empty(); }
  std::span<const uint8_t> rest() const { return rest_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(rest_.data()), rest_.size()}; }

  std::span<const uint8_t> Take(size_t size) {
    const auto taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  uint8_t TakeByte() {
    const auto byte = Take(1);
    return byte.empty() ? uint8_t{0} : byte[0];
  }
  // Two bytes, the low one first.
  uint16_t TakeShort() {
    const uint8_t low = TakeByte();
    return static_cast<uint16_t>(low | TakeByte() << 8);
  }

 private:
  std::span<const uint8_t> rest_;
};

// A file with these bytes, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    const bool written = descriptor_ >= 0 && write(descriptor_, bytes.data(), bytes.size()) == ssize_t(bytes.size());
    if (!written) throw std::runtime_error("memfd_create or write failed");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace dtrain::fuzz
