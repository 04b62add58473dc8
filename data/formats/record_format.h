// What is particular to one format of record files: where a record ends, what its label is, which of its bytes are the
// image. Everything else (index, reading, resynchronising) is written once on top of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/formats/readable_bytes.h"

namespace dtrain::data {

// A larger record is taken for damage: more than any image that would be decoded.
inline constexpr uint64_t kMostRecordBytes = uint64_t{1} << 28;

// Bytes that are not what was written. The record counts as bad; the ones after it may be good. Other DataErrors mean
// that intact bytes say something else than expected (another schema): the whole set is then refused.
class DamagedRecord : public DataError {
 public:
  // `end`: where the next record begins, if the damage has left that readable.
  explicit DamagedRecord(const std::string& what, std::optional<uint64_t> end = std::nullopt)
      : DataError(what), end_(end) {}
  std::optional<uint64_t> end() const { return end_; }

 private:
  std::optional<uint64_t> end_;
};

// One record as the index needs it. It covers all bytes from where it begins up to `end`.
struct ScannedRecord {
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t label = 0;  // as it is stored, from 0 or from 1
};

// Stateless; safe to call from many threads.
class RecordFormat {
 public:
  virtual ~RecordFormat() = default;

  virtual std::string name() const = 0;  // as --data_format has it

  // The first record at or after `offset`, where one begins (or, in a tar, other members before it); nullopt if there
  // is no other one. Throws DamagedRecord, or DataError for a record without an image or a label. Messages do not name
  // the file.
  virtual std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const = 0;

  // Where the next intact record after damage begins: an offset ≥ `from`, the file's size if there is none.
  virtual uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const = 0;

  // The image's bytes, from all bytes of a record. Checks what the format allows to check; throws like Scan.
  virtual std::vector<uint8_t> Image(std::vector<uint8_t> record) const = 0;
};

// The format of this name: tfrecord, recordio or webdataset; null for any other.
const RecordFormat* FindRecordFormat(const std::string& name);

}  // namespace dtrain::data
