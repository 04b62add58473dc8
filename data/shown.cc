#include "data/shown.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "data/text/utf8.h"

namespace dtrain {
namespace {

// False for control characters, line separators, and characters that reorder or hide text (Unicode's bidirectional and
// zero-width characters).
bool IsHarmless(uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0xfeff) return false;
  if ((code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e)) return false;
  return !(code >= 0x2060 && code <= 0x206f) && !(code >= 0xe0000 && code < 0xe1000);
}

std::string Escaped(uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char text[16];
  std::snprintf(text, sizeof text, code < 0x80 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
  return text;
}

}  // namespace

std::string Shown(std::string_view text, size_t max_bytes, LineFeeds line_feeds) {
  std::string shown;
  size_t at = 0;
  while (at < text.size() && at < max_bytes) {
    const size_t bytes = data::ValidCharacterBytes(text.substr(at));
    const uint32_t code = bytes == 0 ? 0 : data::CodePointAt(text.data() + at);
    if (bytes > 0 && (IsHarmless(code) || (code == '\n' && line_feeds == LineFeeds::kKept))) {
      shown += text.substr(at, bytes);
    } else if (bytes > 0) {
      shown += Escaped(code);
    } else {
      char byte[8];
      std::snprintf(byte, sizeof byte, "\\x%02x", static_cast<unsigned char>(text[at]));
      shown += byte;
    }
    at += std::max<size_t>(1, bytes);
  }
  if (at < text.size()) shown += "... (" + std::to_string(text.size()) + " bytes)";
  return shown;
}

}  // namespace dtrain
