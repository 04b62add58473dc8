// The interface of one format of record files: where a record ends, what its label is, and which of its bytes are the
// image. Indexing, reading and resynchronising are written once on top of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/formats/readable_bytes.h"

namespace dtrain::data {

// The largest record, above the size of any image that would be decoded. A length above it is taken for damage.
inline constexpr uint64_t kMostRecordBytes = uint64_t{1} << 28;

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
  int64_t label = 0;  // as stored, counted from 0 or from 1
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

  // Returns the first record at or after `offset`, which must be the beginning of a record (or, in a tar, of other
  // members before it); empty if no record follows. Throws DamagedRecord, and DataError for an intact record without
  // image or label. Messages do not name the file.
  virtual std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const = 0;

  // Returns the offset of the first intact record at or after `from`, to continue after damage; the file's size if
  // there is none.
  virtual uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const = 0;

  // Returns the bytes of the image, given all bytes of a record. Makes all checks that the format allows and throws as
  // Scan does.
  virtual std::vector<uint8_t> Image(std::vector<uint8_t> record) const = 0;
};

// Returns all formats. The objects live until the process ends.
const std::vector<const RecordFormat*>& RecordFormats();

// Returns the one of this name, or null.
const RecordFormat* FindRecordFormat(const std::string& name);

}  // namespace dtrain::data
