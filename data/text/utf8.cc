#include "data/text/utf8.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

namespace dtrain::data {
namespace {

struct CodePointRange {
  uint32_t first, last;
};

#include "data/text/unicode_classes.inc"

using ClassTable = std::array<CharacterClass, kCodePoints>;

std::unique_ptr<const ClassTable> MakeClassTable() {
  auto table = std::make_unique<ClassTable>();
  table->fill(CharacterClass::kOther);
  const auto fill = [&table](std::span<const CodePointRange> ranges, CharacterClass kind) {
    for (const auto [first, last] : ranges) std::fill(table->begin() + first, table->begin() + last + 1, kind);
  };
  fill(kLetters, CharacterClass::kLetter);
  fill(kNumbers, CharacterClass::kNumber);
  fill(kSpaces, CharacterClass::kSpace);
  return table;
}

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
    const size_t bytes = ValidCharacterBytes(text.substr(at));
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

}  // namespace

size_t ValidCharacterBytes(std::string_view text) {
  const Scanned scanned = ScanCharacter(text);
  return scanned.valid ? scanned.bytes : 0;
}

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

const ClassTable& CharacterClasses() {
  static const std::unique_ptr<const ClassTable> table = MakeClassTable();
  return *table;
}

namespace {

// Returns the length in bytes of the white space that is the first character of a text; 0 if that is something else.
size_t PythonSpaceBytes(std::string_view text) {
  const size_t bytes = ValidCharacterBytes(text);
  const uint32_t code_point = bytes == 0 ? 0 : CodePointAt(text.data());
  return (code_point >= 0x1C && code_point <= 0x1F) || IsSpace(code_point) ? bytes : 0;
}

std::string_view LastCharacter(std::string_view text) {
  size_t bytes = 1;
  while (bytes < std::min<size_t>(4, text.size()) && !BeginsCharacter(text[text.size() - bytes])) ++bytes;
  return text.substr(text.size() - bytes);
}

}  // namespace

std::string_view TakeLine(std::string_view& text) {
  // One search for both: separate searches would run to the end of the text, line after line, if one of them never
  // occurs.
  const auto end = std::find_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; });
  const std::string_view line(text.begin(), end);
  size_t taken = line.size();
  if (taken < text.size()) taken += text.substr(taken, 2) == "\r\n" ? 2 : 1;
  text.remove_prefix(taken);
  return line;
}

std::string_view Stripped(std::string_view line) {
  for (size_t bytes = 1; !line.empty() && bytes > 0;) line.remove_prefix(bytes = PythonSpaceBytes(line));
  while (!line.empty() && PythonSpaceBytes(LastCharacter(line)) == LastCharacter(line).size()) {
    line.remove_suffix(LastCharacter(line).size());
  }
  return line;
}

}  // namespace dtrain::data
