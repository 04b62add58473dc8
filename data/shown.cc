#include "data/shown.h"

#include <cstdint>
#include <cstdio>

namespace dtrain {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 for invalid UTF-8 (overlong, a surrogate, cut off, or a stray byte)
};

Character First(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 && lead <= 0xf4  ? 4
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xc2 && lead < 0xe0 ? 2
                                                     : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  uint32_t code = lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool too_long = code < (bytes == 3 ? 0x800U : bytes == 4 ? 0x10000U : 0U);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return too_long || surrogate || code > 0x10ffff ? Character{} : Character{code, bytes};
}

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
    const Character character = First(text.substr(at));
    const bool kept = character.bytes > 0 &&
                      (IsHarmless(character.code) || (character.code == '\n' && line_feeds == LineFeeds::kKept));
    if (kept) {
      shown += text.substr(at, character.bytes);
    } else if (character.bytes > 0) {
      shown += Escaped(character.code);
    } else {
      char byte[8];
      std::snprintf(byte, sizeof byte, "\\x%02x", static_cast<unsigned char>(text[at]));
      shown += byte;
    }
    at += character.bytes > 0 ? character.bytes : 1;
  }
  if (at < text.size()) shown += "... (" + std::to_string(text.size()) + " bytes)";
  return shown;
}

}  // namespace dtrain
