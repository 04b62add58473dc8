// POSIX.1-2017 pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar Format".
#include "data/formats/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <stdexcept>
#include <string_view>

#include "data/formats/record_format.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostExtensionBytes = uint64_t{1} << 20;  // largest pax header or long name
constexpr int kMostExtensions = 16;                          // most extension headers before one member

// Offsets and lengths of the header's fields.
constexpr size_t kNameBytes = 100, kModeAt = 100, kSizeAt = 124, kTimeAt = 136, kChecksumAt = 148, kTypeAt = 156,
                 kMagicAt = 257, kPrefixAt = 345, kPrefixBytes = 155;

using Block = std::array<uint8_t, kTarBlock>;

std::string_view TextAt(const Block& block, size_t begin, size_t size) {
  const std::string_view field(reinterpret_cast<const char*>(&block[begin]), size);
  return field.substr(0, field.find('\0'));
}

// Parses octal digits between blanks, or GNU's base 256. Throws DamagedRecord.
uint64_t NumberAt(const uint8_t* field, size_t size) {
  if ((field[0] & 0x80) != 0) {
    uint64_t number = field[0] & 0x3F;
    for (size_t i = 1; i < size; ++i) {
      if (number >> 55 != 0 || (field[0] & 0x40) != 0) throw DamagedRecord("a tar header with an impossible size");
      number = number << 8 | field[i];
    }
    return number;
  }
  uint64_t number = 0;
  for (size_t i = 0; i < size; ++i) {
    const uint8_t c = field[i];
    if (c >= '0' && c <= '7')
      number = number << 3 | uint64_t(c - '0');
    else if (c != ' ' && c != '\0')
      throw DamagedRecord("a tar header with a malformed number");
  }
  return number;
}

bool IsZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

// Whether nothing but zeros follows, as behind the last member. Zeros before other bytes are a hole in a broken copy.
bool IsEnd(const ReadableBytes& archive, uint64_t offset) {
  constexpr uint64_t kBytesAtOnce = uint64_t{1} << 16;
  // For each sample that an index knows within a hole, the hole would be read to its end.
  const uint64_t last = std::max(offset, archive.size() - std::min(kBytesAtOnce, archive.size()));
  if (!IsZero(archive.ReadBytes(last, archive.size() - last))) return false;
  for (uint64_t bytes = 0; offset < archive.size(); offset += bytes) {
    bytes = std::min(kBytesAtOnce, archive.size() - offset);
    if (!IsZero(archive.ReadBytes(offset, bytes))) return false;
  }
  return true;
}

// The values that the extension headers before a member give it.
struct Extensions {
  std::optional<std::string> name;
  std::optional<uint64_t> bytes;
};

// "LENGTH KEY=VALUE\n", repeated; LENGTH counts the whole line.
void ParsePax(std::string_view text, Extensions& extensions) {
  while (!text.empty() && text[0] != '\0') {
    uint64_t length = 0;
    const auto number = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(number.ptr - text.data());
    if (number.ec != std::errc() || length > text.size() || length < digits + 2 || text[digits] != ' ') {
      throw DamagedRecord("a malformed pax header");
    }
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) throw DamagedRecord("a malformed pax header");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") extensions.name = value;
    if (key == "size") {
      extensions.bytes = WholeNumber<uint64_t>(value);
      if (!extensions.bytes) throw DamagedRecord("a malformed size in a pax header");
    }
    text.remove_prefix(length);
  }
}

std::string ReadText(const ReadableBytes& archive, uint64_t offset, uint64_t bytes) {
  if (bytes > kMostExtensionBytes) throw DamagedRecord("a tar extension header of " + std::to_string(bytes) + " bytes");
  return std::string(AsText(archive.ReadBytes(offset, bytes)));
}

// A header and the extent of its member, whose content lies within the archive.
struct Header {
  Block block;
  char type = '0';
  uint64_t data_begin = 0, data_bytes = 0, end = 0;
};

void SetExtent(Header& header, uint64_t data_bytes, uint64_t archive_bytes) {
  if (data_bytes > archive_bytes - header.data_begin) {
    throw DamagedRecord("truncated: a tar member of " + std::to_string(data_bytes) + " bytes, of which " +
                            std::to_string(archive_bytes - header.data_begin) + " are left",
                        archive_bytes);
  }
  header.data_bytes = data_bytes;
  header.end = std::min(header.data_begin + (data_bytes + kTarBlock - 1) / kTarBlock * kTarBlock, archive_bytes);
}

std::optional<Header> ReadHeader(const ReadableBytes& archive, uint64_t offset) {
  if (offset >= archive.size()) return std::nullopt;
  if (archive.size() - offset < kTarBlock) throw DamagedRecord("truncated: a tar header is cut off", archive.size());
  Header header;
  archive.Read(offset, kTarBlock, header.block.data());
  if (IsZero(header.block) && IsEnd(archive, offset)) return std::nullopt;
  if (IsZero(header.block)) throw DamagedRecord("zeros where a tar header should be");
  if (!IsTarHeader(header.block.data())) throw DamagedRecord("no tar header (its checksum is wrong)");
  header.type = static_cast<char>(header.block[kTypeAt]);
  header.data_begin = offset + kTarBlock;
  const bool has_data = header.type < '1' || header.type > '6';  // links, devices and folders have no data
  SetExtent(header, has_data ? NumberAt(&header.block[kSizeAt], 12) : 0, archive.size());
  return header;
}

std::string NameIn(const Block& block) {
  const std::string name(TextAt(block, 0, kNameBytes));
  // GNU's magic is "ustar  ", and its headers have no prefix.
  const bool has_prefix = TextAt(block, kMagicAt, 6) == "ustar";
  const std::string prefix(has_prefix ? TextAt(block, kPrefixAt, kPrefixBytes) : "");
  return prefix.empty() ? name : prefix + "/" + name;
}

}  // namespace

bool IsTarHeader(const uint8_t* block) {
  uint64_t sum = 8 * uint64_t{' '};  // the checksum field itself counts as blanks
  for (size_t i = 0; i < kTarBlock; ++i) {
    if (i < kChecksumAt || i >= kChecksumAt + 8) sum += block[i];
  }
  try {
    return sum == NumberAt(block + kChecksumAt, 8);
  } catch (const DamagedRecord&) {
    return false;
  }
}

std::optional<TarMember> ReadTarMember(const ReadableBytes& archive, uint64_t offset) {
  Extensions extensions;
  for (int i = 0; i < kMostExtensions; ++i) {
    std::optional<Header> header = ReadHeader(archive, offset);
    if (!header && (extensions.name || extensions.bytes)) throw DamagedRecord("truncated: a tar member is missing");
    if (!header) return std::nullopt;
    if (header->type == 'x') {
      ParsePax(ReadText(archive, header->data_begin, header->data_bytes), extensions);
    } else if (header->type == 'L') {
      const std::string text = ReadText(archive, header->data_begin, header->data_bytes);
      extensions.name = text.substr(0, text.find('\0'));
    } else if (header->type != 'g' && header->type != 'K') {
      if (extensions.bytes) SetExtent(*header, *extensions.bytes, archive.size());
      const bool is_file = header->type == '0' || header->type == '\0' || header->type == '7';
      return TarMember{extensions.name ? *extensions.name : NameIn(header->block), is_file, header->data_begin,
                       header->data_bytes, header->end};
    }
    offset = header->end;
  }
  throw DamagedRecord("too many extension headers before a tar member");
}

std::string MakeTarMember(const std::string& name, std::string_view content) {
  if (name.size() > kNameBytes) throw std::invalid_argument("a name of more than 100 bytes");
  std::string block(kTarBlock, '\0');
  const auto put = [&block](size_t at, std::string_view text) { block.replace(at, text.size(), text); };
  const auto octal = [](uint64_t number, int digits) {
    std::string text(static_cast<size_t>(digits), '0');
    for (size_t i = text.size(); i-- > 0; number >>= 3) text[i] = static_cast<char>('0' + (number & 7));
    return text;
  };
  put(0, name);
  put(kModeAt, octal(0644, 7));
  put(kModeAt + 8, octal(0, 7));   // owner
  put(kModeAt + 16, octal(0, 7));  // group
  put(kSizeAt, octal(content.size(), 11));
  put(kTimeAt, octal(0, 11));  // no time, so that equal data give equal bytes
  put(kTypeAt, "0");
  put(kMagicAt, std::string_view("ustar\0"
                                 "00",
                                 8));
  uint64_t sum = 8 * uint64_t{' '};
  for (const char c : block) sum += static_cast<uint8_t>(c);
  put(kChecksumAt, octal(sum, 6) + std::string("\0 ", 2));
  block.append(content);
  block.resize((block.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return block;
}

std::string MakeTarEnd() { return std::string(2 * kTarBlock, '\0'); }

}  // namespace dtrain::data
