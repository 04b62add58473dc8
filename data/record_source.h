// The source of records: one random-access interface for all formats, so that sampler, loader, quarantine and resume
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

// The place where a record begins.
struct RecordPlace {
  std::string file = {};               // path
  std::optional<int64_t> offset = {};  // bytes; empty if the record is the whole file
  bool operator==(const RecordPlace&) const = default;
};

// Returns "FILE" or "FILE at byte N", for messages.
inline std::string ToText(const RecordPlace& place) {
  return place.offset ? place.file + " at byte " + std::to_string(*place.offset) : place.file;
}

// A fixed, ordered set of records. All methods are const and safe to call from many threads at once. An index lies in
// [0, size()).
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // Number of records, at least 1: opening an empty set throws DataError.
  virtual int64_t size() const = 0;

  // The kind of all records.
  virtual RecordKind kind() const { return RecordKind::kEncodedImage; }
  // The layout of the pixels if kind() is kPixels; meaningless otherwise.
  virtual RawRows rows() const { return {}; }

  // Returns the class of a record, from 0; -1 if the format has no labels or the record is damaged.
  virtual int64_t Label(int64_t /*index*/) const { return -1; }

  // Returns the bytes of a record. Throws DataError if they cannot be read.
  virtual std::vector<uint8_t> Read(int64_t index) const = 0;

  virtual RecordPlace Place(int64_t index) const = 0;
  std::string Location(int64_t index) const { return ToText(Place(index)); }

  // Class names in label order; empty if the format has none.
  virtual const std::vector<std::string>& class_names() const {
    static const std::vector<std::string> none;
    return none;
  }

  // Number of classes; every label is below it. 0 if the format has no labels.
  virtual int64_t num_classes() const { return static_cast<int64_t>(class_names().size()); }

  // The number that was subtracted from the labels in the files; empty if the files hold no labels (class folders,
  // text).
  virtual std::optional<int64_t> label_offset() const { return std::nullopt; }

  // The meaning of the labels, for other splits of the same set (SourceOptions::classes) and for users of the model.
  Classes classes() const { return {class_names(), num_classes(), label_offset()}; }

  // The files beside the records that are not data, counted by kind.
  virtual IgnoredFiles ignored() const { return {}; }

  // A hex digest that identifies the data, usually over the names and sizes of its files and never over their times, so
  // that a copy has the same one. Empty for sources that no run resumes with (ImageFiles).
  virtual std::string fingerprint() const = 0;
};

}  // namespace dtrain::data
