// A zip archive is read from its end: the record there gives the place of the directory, and the directory gives those
// of the members.
#include "data/formats/torch_file.h"

#include <algorithm>
#include <span>
#include <vector>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/shown.h"

namespace dtrain::data {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kEnd64Place = 0x07064b50;
constexpr uint64_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                   kEnd64PlaceBytes = 20, kMostCommentBytes = 0xffff;
constexpr uint64_t kMostDirectoryBytes = 64 << 20;
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kEncrypted = 1;  // bit in an entry's flags
constexpr size_t kShownMemberBytes = 80;

class Archive {
 public:
  Archive(const ReadableBytes& bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  std::map<std::string, StoredMember> Members() {
    FindDirectory();
    const std::vector<uint8_t> directory = Bytes(directory_begin_, directory_size_);
    size_t at = 0;
    while (at < directory.size()) at += TakeEntry(std::span(directory).subspan(at));
    RequireNoOverlap();
    return std::move(members_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& reason) const {
    throw DataError(path_ + " is not a valid zip archive: " + reason,
                    "the file is damaged or incomplete: get it again");
  }

  std::vector<uint8_t> Bytes(uint64_t begin, uint64_t size) const {
    if (begin > bytes_.size() || size > bytes_.size() - begin) Refuse("it is shorter than its contents");
    return bytes_.ReadBytes(begin, size);
  }

  void FindDirectory() {
    if (bytes_.size() < kEndBytes) Refuse("it has only " + std::to_string(bytes_.size()) + " bytes");
    const uint64_t tail_size = std::min(bytes_.size(), kEndBytes + kMostCommentBytes);
    const uint64_t tail_begin = bytes_.size() - tail_size;
    const std::vector<uint8_t> tail = Bytes(tail_begin, tail_size);
    uint64_t at = tail_size - kEndBytes;
    while (LoadLittleEndian<uint32_t>(&tail[at]) != kEnd) {
      if (at == 0) Refuse("its end record is missing");
      --at;
    }
    const uint8_t* end = &tail[at];
    directory_size_ = LoadLittleEndian<uint32_t>(end + 12);
    directory_begin_ = LoadLittleEndian<uint32_t>(end + 16);
    ReadEnd64(tail_begin + at);
    if (directory_size_ > kMostDirectoryBytes) {
      Refuse("a directory of " + std::to_string(directory_size_) + " bytes");
    }
  }

  // Reads the directory's size and place from the 64-bit record of the end, if there is one.
  void ReadEnd64(uint64_t end) {
    if (end < kEnd64PlaceBytes) return;
    const std::vector<uint8_t> place = Bytes(end - kEnd64PlaceBytes, kEnd64PlaceBytes);
    if (LoadLittleEndian<uint32_t>(place.data()) != kEnd64Place) return;
    const std::vector<uint8_t> wide = Bytes(LoadLittleEndian<uint64_t>(&place[8]), kEnd64Bytes);
    if (LoadLittleEndian<uint32_t>(wide.data()) != kEnd64) Refuse("its 64-bit end record is missing");
    directory_size_ = LoadLittleEndian<uint64_t>(&wide[40]);
    directory_begin_ = LoadLittleEndian<uint64_t>(&wide[48]);
  }

  // Adds the member at the front of the directory and returns the length of its entry.
  size_t TakeEntry(std::span<const uint8_t> rest) {
    if (rest.size() < kDirectoryEntryBytes || LoadLittleEndian<uint32_t>(rest.data()) != kDirectoryEntry) {
      Refuse("a damaged directory");
    }
    const auto name_size = LoadLittleEndian<uint16_t>(&rest[28]);
    const auto extra_size = LoadLittleEndian<uint16_t>(&rest[30]);
    const size_t entry_size = kDirectoryEntryBytes + name_size + extra_size + LoadLittleEndian<uint16_t>(&rest[32]);
    if (entry_size > rest.size()) Refuse("a damaged directory");
    const std::string name(reinterpret_cast<const char*>(&rest[kDirectoryEntryBytes]), name_size);
    Sizes sizes = {LoadLittleEndian<uint32_t>(&rest[24]), LoadLittleEndian<uint32_t>(&rest[20]),
                   LoadLittleEndian<uint32_t>(&rest[42])};
    Widen(sizes, rest.subspan(kDirectoryEntryBytes + name_size, extra_size));
    const bool is_encrypted = (LoadLittleEndian<uint16_t>(&rest[8]) & kEncrypted) != 0;
    if (LoadLittleEndian<uint16_t>(&rest[10]) != 0 || sizes.plain != sizes.packed || is_encrypted) {
      throw DataError(path_ + " cannot be read as weights: '" + Shown(name, kShownMemberBytes) +
                          "' in it is compressed or encrypted, as in a TorchScript program, and never by torch.save",
                      "save what model.state_dict() returns");
    }
    const StoredMember member = {DataBegin(sizes.header), sizes.plain, LoadLittleEndian<uint32_t>(&rest[16])};
    if (member.begin > bytes_.size() || member.size > bytes_.size() - member.begin) {
      Refuse("'" + Shown(name, kShownMemberBytes) + "' lies beyond its end");
    }
    if (!members_.emplace(name, member).second) Refuse("'" + Shown(name, kShownMemberBytes) + "' is there twice");
    return entry_size;
  }

  struct Sizes {
    uint64_t plain, packed, header;  // size, compressed size, and offset of the local header; in bytes
  };

  // Numbers that do not fit into 32 bits are in an extra field, in this order; numbers that fit are not in it.
  void Widen(Sizes& sizes, std::span<const uint8_t> extra) const {
    while (extra.size() >= 4) {
      const auto kind = LoadLittleEndian<uint16_t>(extra.data());
      const auto size = LoadLittleEndian<uint16_t>(&extra[2]);
      if (size > extra.size() - 4) return;
      std::span<const uint8_t> field = extra.subspan(4, size);
      for (uint64_t* number : {&sizes.plain, &sizes.packed, &sizes.header}) {
        if (kind != kZip64Field || *number != UINT32_MAX || field.size() < 8) continue;
        *number = LoadLittleEndian<uint64_t>(field.data());
        field = field.subspan(8);
      }
      extra = extra.subspan(4 + size_t{size});
    }
  }

  // A member's bytes follow its local header, whose extra field may differ in length from the directory's.
  uint64_t DataBegin(uint64_t header_begin) const {
    const std::vector<uint8_t> header = Bytes(header_begin, kLocalHeaderBytes);
    if (LoadLittleEndian<uint32_t>(header.data()) != kLocalHeader) Refuse("a member is not where its directory says");
    return header_begin + kLocalHeaderBytes + LoadLittleEndian<uint16_t>(&header[26]) +
           LoadLittleEndian<uint16_t>(&header[28]);
  }

  // If members could share bytes, a small file could hold any number of large tensors.
  void RequireNoOverlap() const {
    std::vector<std::pair<uint64_t, uint64_t>> places;
    for (const auto& [name, member] : members_) places.emplace_back(member.begin, member.size);
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) {
      if (places[i].first - places[i - 1].first < places[i - 1].second) Refuse("members of it overlap");
    }
  }

  const ReadableBytes& bytes_;
  const std::string& path_;
  uint64_t directory_begin_ = 0, directory_size_ = 0;
  std::map<std::string, StoredMember> members_;
};

}  // namespace

std::map<std::string, StoredMember> ReadStoredZip(const ReadableBytes& bytes, const std::string& path) {
  return Archive(bytes, path).Members();
}

}  // namespace dtrain::data
