// Where bytes come from: one random-access interface for every format, so that sampler, loader, quarantine and resume
// are written once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/classes.h"
#include "data/formats/ignored_files.h"
#include "data/record_kind.h"

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

  // What the bytes of every record are.
  virtual RecordKind kind() const { return RecordKind::kEncodedImage; }
  // How they are laid out where they are pixels (kPixels); meaningless elsewhere.
  virtual RawRows rows() const { return {}; }

  // Class of record `index` in [0, size()), 0-based; -1 where the format, or a damaged record, has none.
  virtual int64_t Label(int64_t /*index*/) const { return -1; }

  // The bytes of one record. Throws DataError when they cannot be read.
  virtual std::vector<uint8_t> Read(int64_t index) const = 0;

  virtual RecordPlace Place(int64_t index) const = 0;
  std::string Location(int64_t index) const { return ToText(Place(index)); }

  // Class names in label order; empty where the format has none.
  virtual const std::vector<std::string>& class_names() const {
    static const std::vector<std::string> none;
    return none;
  }

  // Number of classes: labels are below it. 0 where the format has no labels.
  virtual int64_t num_classes() const { return static_cast<int64_t>(class_names().size()); }

  // What was subtracted from the labels that the files hold; nullopt where they hold none, as in class folders.
  virtual std::optional<int64_t> label_offset() const { return std::nullopt; }

  // For other splits of the same set (SourceOptions::classes), and for those who use the model later.
  Classes classes() const { return {class_names(), num_classes(), label_offset()}; }

  // What lay beside the records and is none of them.
  virtual IgnoredFiles ignored() const { return {}; }

  // Hex digest over the names and sizes of the files (not their times): equal data, equal fingerprint.
  virtual std::string fingerprint() const = 0;
};

}  // namespace dtrain::data
