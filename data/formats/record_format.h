// The interface of one format of record files: where a record ends, what its label is, which of its bytes are the
// image, and how records and their files are written and named. Indexing, reading, resynchronising and packing are
// written once on top of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/error.h"
#include "data/formats/record_index.h"
#include "data/record_source.h"
#include "data/storage.h"

namespace dtrain::data {

// The largest record, above the size of any image that would be decoded. A length above it is taken for damage.
inline constexpr uint64_t kMostRecordBytes = uint64_t{1} << 28;

// "00003"
inline std::string WithZeros(int64_t number, size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

// Thrown for bytes that are not those that were written. That record counts as bad, but the records after it may be
// good. Any other DataError means that intact bytes have unexpected content (another schema): then the whole set is
// refused.
class DamagedRecord : public DataError {
 public:
  // `end` is the offset of the next record in the file, if the damage has left that readable.
  explicit DamagedRecord(const std::string& what, std::optional<uint64_t> end = std::nullopt)
      : DataError(what), end_(end) {}
  std::optional<uint64_t> end() const { return end_; }

 private:
  std::optional<uint64_t> end_;
};

// One record as the index needs it: all bytes from `begin` to `end`.
struct ScannedRecord {
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t label = 0;  // the class as stored, counted from 0 or from 1; the first of several; -1 if it is none
  // What the label says if it is several classes (as stored) or numbers; may be empty if it is one class.
  std::vector<double> values = {};
};

// A record to be written.
struct PackedImage {
  std::span<const uint8_t> bytes;
  int64_t label = 0;            // from 0
  int64_t index = 0;            // position in the split; becomes the record's id or key
  std::string class_name = {};  // may be empty
  std::string file_name = {};   // may be empty
  LabelKind kind = LabelKind::kClass;
  std::vector<float> values = {};  // in place of the label: kSeveral: classes, from 0; kNumbers: the numbers
};

// Where a record was written.
struct PlacedRecord {
  int64_t index = 0;    // of the PackedImage
  uint64_t offset = 0;  // bytes
};

// Stateless; safe to call from many threads.
class RecordFormat {
 public:
  virtual ~RecordFormat() = default;

  virtual std::string name() const = 0;         // its name in --data_format
  virtual std::string description() const = 0;  // for people
  // The extensions of its files, with the dot; the first one is usual.
  virtual std::vector<std::string> extensions() const = 0;
  // Whether a set of files may be numbered in TensorFlow's way, without an extension: train-00000-of-00010.
  virtual bool is_numbered() const { return false; }

  // Whether records can have labels of this kind.
  virtual bool Holds(LabelKind kind) const { return kind == LabelKind::kClass; }

  // Returns the first record at or after `offset`, which must be the beginning of a record (or, in a tar, of other
  // members before it); empty if no record follows. Throws DamagedRecord, and DataError for an intact record without
  // image or label. Messages do not name the file.
  virtual std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const = 0;

  // How records are found again behind damage: they begin at multiples of `alignment`, with as many bytes that MayBegin
  // tells from others; for certain if they have a checksum. Without such bytes the rest of a damaged file is lost.
  struct Beginning {
    uint64_t bytes = 0, alignment = 1;
    bool is_certain = false;
  };
  virtual Beginning beginning() const { return {}; }
  virtual bool MayBegin(const uint8_t* /*bytes*/) const { return false; }

  // Whether a file may end where its last record ends, at `offset`. Without what marks the end of a file, it may have
  // been cut between two records.
  virtual bool MayEnd(const ReadableBytes& /*file*/, uint64_t /*offset*/) const { return true; }

  // Returns the bytes of the image, given all bytes of a record. Makes all checks that the format allows and throws as
  // Scan does.
  virtual std::vector<uint8_t> Image(std::vector<uint8_t> record) const = 0;

  // Returns the path of the format's own index beside a file, if other readers need one; else an empty text.
  virtual std::string IndexBeside(const std::string& /*path*/) const { return ""; }

  // Returns where the records of a file begin according to the text of such an index, in file order and without labels;
  // empty if it does not fit. It only helps to find records in damaged files, because dtrain's index is made from the
  // records themselves; so a missing or outdated one does no harm, and nothing is thrown.
  virtual std::vector<IndexEntry> KnownRecords(std::string_view /*index*/, uint64_t /*bytes*/) const { return {}; }

  // --- Writing ---

  // The label of the first class.
  virtual int64_t first_label() const { return 0; }
  // Returns the name of file `number` of `count` of a split, without its folder.
  virtual std::string FileName(const std::string& split, int64_t number, int64_t /*count*/) const {
    return split + "-" + WithZeros(number, 5) + extensions().front();
  }
  // Returns the bytes of a record, whose label, or labels, count from first_label(). Its kind is one that it Holds.
  virtual std::string Frame(const PackedImage& image) const = 0;
  // Returns what ends a file.
  virtual std::string FileEnd() const { return ""; }
  // Returns the text of the format's own index for a file.
  virtual std::string MakeIndex(std::span<const PlacedRecord> /*records*/) const { return ""; }

  // Returns the offset of the first intact record at or after `from`, also of one that Scan refuses for what it lacks
  // if its beginning is certain; the file's size if there is none.
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const;

 protected:
  // Returns `size` bytes of a record from `begin` on, in its own memory.
  static std::vector<uint8_t> PartOf(std::vector<uint8_t> record, uint64_t begin, uint64_t size) {
    record.resize(begin + size);
    record.erase(record.begin(), record.begin() + static_cast<ptrdiff_t>(begin));
    return record;
  }
};

// Returns all formats. The objects live until the process ends.
const std::vector<const RecordFormat*>& RecordFormats();

// Returns the one of this name, or null.
const RecordFormat* FindRecordFormat(const std::string& name);

// The record files of a split, its shards: `train-00000-of-00010`, `train-000000.tar` and the like, or files of the
// format in a folder `train/`.
struct RecordFiles {
  std::string split;               // the name found on disk, such as `validation` for `val`
  std::vector<std::string> names;  // relative to data_dir, sorted; empty if there are none
};

inline constexpr char kCopyShards[] =
    "copy the missing ones, or choose some by the beginning of their numbers, as with --train_split=train-0000";

// Returns the name of a compressed file without the compressor's ending, as gunzip does; other names as they are.
std::string Decompressed(const std::string& name);

// Throws DataError if files of a numbered set are missing, unless `split` goes into their numbers, or if some files are
// compressed and others are not.
RecordFiles FindRecordFiles(const std::string& data_dir, const std::string& split, const RecordFormat& format);

// The same, but throws DataError, which names the patterns that were tried, if there are none.
RecordFiles RequireRecordFiles(const std::string& data_dir, const std::string& split, const RecordFormat& format);

// Returns the name of a file that is missing between two of `names`, which are sorted, by their numbers with leading
// zeros; empty if none is.
std::string MissingShard(const std::vector<std::string>& names, const RecordFormat& format);

}  // namespace dtrain::data
