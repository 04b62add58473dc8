#include "data/text/text_lines.h"

#include <algorithm>

#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kFirstStep = 1 << 16;

// Returns the offset behind the first \n at or after `from`; `limit` if there is none before it.
uint64_t BehindLineEnd(const ReadableBytes& file, uint64_t from, uint64_t limit) {
  uint64_t step = kFirstStep;
  std::string bytes;
  while (from < limit) {
    bytes.resize(std::min(step, limit - from));
    file.Read(from, bytes.size(), bytes.data());
    if (const size_t end = bytes.find('\n'); end != std::string::npos) return from + end + 1;
    from += bytes.size();
    step = std::min<uint64_t>(2 * step, uint64_t{1} << 24);
  }
  return limit;
}

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

std::string LinesBeginningIn(const ReadableBytes& file, uint64_t begin, uint64_t bytes) {
  const uint64_t limit = std::min(file.size(), begin + bytes);
  // A line begins at the start of the file and behind each \n.
  const uint64_t first = begin == 0 ? 0 : BehindLineEnd(file, begin - 1, limit);
  if (first >= limit) return "";
  const uint64_t end = BehindLineEnd(file, limit - 1, file.size());
  std::string lines(end - first, '\0');
  file.Read(first, lines.size(), lines.data());
  return lines;
}

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
