// Text in UTF-8: checks and repairs it, for the tokenizers, whose other parts rely on valid text; tells classes of
// characters; and cuts it into lines as Python does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain::data {

// Whether all of `text` is valid UTF-8.
bool IsUtf8(std::string_view text);

// Returns `text` with U+FFFD in place of invalid bytes, as Python's errors="replace" does: one for each longest
// sequence that could have begun a character, and one for each byte that could not. Adds their number to `replaced`.
std::string ReplaceInvalidUtf8(std::string_view text, int64_t& replaced);

// Returns the length in bytes of the first character of `text`, which is not empty; 0 if that is not valid UTF-8.
size_t ValidCharacterBytes(std::string_view text);

// Whether a byte begins a character of valid UTF-8, rather than going on with one.
inline bool BeginsCharacter(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

// Returns the length in bytes of the character that begins with `first`. Requires valid UTF-8.
inline size_t CharacterBytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the code point of the character that begins at `next`. Requires valid UTF-8.
inline uint32_t CodePointAt(const char* next) {
  const auto byte = [next](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(next[i])); };
  const auto low = [&](size_t i) { return byte(i) & 0x3F; };
  switch (CharacterBytes(*next)) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | low(1);
    case 3:
      return (byte(0) & 0x0F) << 12 | low(1) << 6 | low(2);
    default:
      return (byte(0) & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
  }
}

// Appends the character of a code point.
inline void AppendUtf8(uint32_t code_point, std::string& text) {
  constexpr uint8_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  const unsigned more = code_point < 0x80 ? 0 : code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;  // bytes
  text += static_cast<char>(kFirst[more] | code_point >> (6 * more));
  for (unsigned i = more; i-- > 0;) text += static_cast<char>(0x80 | (code_point >> (6 * i) & 0x3F));
}

// The classes of characters that GPT-2's pre-tokenisation distinguishes: \p{L}, \p{N}, \s (the property White_Space)
// and all others.
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

inline constexpr uint32_t kCodePoints = 0x110000;

// Returns the class of every code point.
const std::array<CharacterClass, kCodePoints>& CharacterClasses();

inline bool IsSpace(uint32_t code_point) { return CharacterClasses()[code_point] == CharacterClass::kSpace; }

// ---- Lines ----

// What editors of Windows write at the beginning of a file, and by which Excel knows that a CSV file is UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

inline std::string_view WithoutByteOrderMark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

// Removes the first line from `text`, which must not be empty, and returns it without its end: \n, \r\n or \r.
std::string_view TakeLine(std::string_view& text);

// Returns the line without white space at both ends, as defined by Python's str.strip() (including U+001C to U+001F):
// fairseq's encoder strips every line. Stops at invalid UTF-8.
std::string_view Stripped(std::string_view line);

}  // namespace dtrain::data
