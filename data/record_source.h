// Where bytes come from: one random-access interface for every format, so that sampler, loader, quarantine and resume
// are written once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

// Where a record begins.
struct RecordPlace {
  std::string file = {};               // its path
  std::optional<int64_t> offset = {};  // bytes; nothing: the record is the whole file
  bool operator==(const RecordPlace&) const = default;
};

// For people: "FILE" or "FILE at byte N".
inline std::string ToText(const RecordPlace& place) {
  return place.offset ? place.file + " at byte " + std::to_string(*place.offset) : place.file;
}

// A fixed, ordered set of records. All methods are const and safe to call from many threads at once.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // Number of records, ≥ 1: an empty set is refused when it is opened.
  virtual int64_t size() const = 0;

  // Class of record `index` in [0, size()), 0-based; -1 where the format has none.
  virtual int64_t Label(int64_t index) const = 0;

  // The encoded bytes of one record. Throws DataError when they cannot be read.
  virtual std::vector<uint8_t> Read(int64_t index) const = 0;

  virtual RecordPlace Place(int64_t index) const = 0;
  std::string Location(int64_t index) const { return ToText(Place(index)); }

  // Class names in label order; empty where the format has none.
  virtual const std::vector<std::string>& class_names() const = 0;

  // Number of classes: labels are below it. 0 where the format has no labels.
  virtual int64_t num_classes() const { return static_cast<int64_t>(class_names().size()); }

  // Hex digest over the names and sizes of the files (not their times): equal data, equal fingerprint.
  virtual std::string fingerprint() const = 0;
};

}  // namespace dtrain::data
