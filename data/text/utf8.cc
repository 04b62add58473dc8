#include "data/text/utf8.h"

#include <algorithm>
#include <cstring>

namespace dtrain::data {
namespace {

// The characters that a first byte may begin (Unicode 16, table 3-7): their length, and the limits of the second byte.
// The length is 0 if no character begins with it.
struct Beginning {
  size_t bytes = 0;
  uint8_t lowest_second = 0x80, highest_second = 0xBF;
};

Beginning BeginningOf(uint8_t first) {
  if (first < 0x80) return {.bytes = 1};
  if (first < 0xC2) return {};
  if (first < 0xE0) return {.bytes = 2};
  if (first == 0xE0) return {.bytes = 3, .lowest_second = 0xA0};
  if (first == 0xED) return {.bytes = 3, .highest_second = 0x9F};
  if (first < 0xF0) return {.bytes = 3};
  if (first == 0xF0) return {.bytes = 4, .lowest_second = 0x90};
  if (first < 0xF4) return {.bytes = 4};
  if (first == 0xF4) return {.bytes = 4, .highest_second = 0x8F};
  return {};
}

// The bytes at the front that are a character, or could have begun one (at least 1).
struct Scanned {
  size_t bytes = 1;
  bool valid = false;
};

Scanned ScanCharacter(std::string_view text) {
  const Beginning beginning = BeginningOf(static_cast<uint8_t>(text[0]));
  if (beginning.bytes == 0) return {};
  Scanned scanned;
  while (scanned.bytes < std::min(beginning.bytes, text.size())) {
    const auto byte = static_cast<uint8_t>(text[scanned.bytes]);
    const uint8_t lowest = scanned.bytes == 1 ? beginning.lowest_second : 0x80;
    const uint8_t highest = scanned.bytes == 1 ? beginning.highest_second : 0xBF;
    if (byte < lowest || byte > highest) return scanned;
    ++scanned.bytes;
  }
  scanned.valid = scanned.bytes == beginning.bytes;
  return scanned;
}

// Returns the length of the longest valid beginning.
size_t ValidBytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const Scanned scanned = ScanCharacter(text.substr(at));
    if (!scanned.valid) break;
    at += scanned.bytes;
  }
  return at;
}

}  // namespace

bool IsUtf8(std::string_view text) { return ValidBytes(text) == text.size(); }

std::string ReplaceInvalidUtf8(std::string_view text, int64_t& replaced) {
  std::string valid;
  while (true) {
    const size_t bytes = ValidBytes(text);
    valid.append(text.substr(0, bytes));
    text.remove_prefix(bytes);
    if (text.empty()) return valid;
    valid.append("\xEF\xBF\xBD");
    ++replaced;
    text.remove_prefix(ScanCharacter(text).bytes);
  }
}

}  // namespace dtrain::data
