// The source of records: one random-access interface for all formats, so that sampler, loader, quarantine and resume
// are written once; and what decodes a record into a row of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/folder_names.h"

namespace dtrain::data {

enum class RecordKind {
  kEncodedImage,  // the content of a JPEG, PNG, … file
  kPixels,        // the pixels of an image in the layout of RawRows
  kTokens,        // a block of token ids
};

// What a record's label is.
enum class LabelKind {
  kClass,    // one of several classes
  kSeveral,  // any number of several classes
  kNumbers,  // one number or several, to be predicted
};

enum class ElementType { kUInt8, kInt32, kInt64, kFloat32 };

// The layout of a record of pixels.
struct RawRows {
  ElementType type = ElementType::kUInt8;  // kUInt8 or kFloat32
  int64_t height = 0, width = 0;           // pixels; three channels, RGB
  bool planar = false;                     // 3×H×W rather than H×W×3

  int64_t bytes() const { return 3 * height * width * (type == ElementType::kFloat32 ? 4 : 1); }
  bool operator==(const RawRows&) const = default;
};

// The meaning of a data set's labels, and what they are labels of. The training split defines it. The other splits and
// programs that use the model later receive it, because a part of a data set need not contain every class.
struct Classes {
  std::vector<std::string> names = {};       // in label order; empty if classes have only numbers
  int64_t count = 0;                         // every label is below it; 0 if unknown
  std::optional<int64_t> label_offset = {};  // the number that the files give the first class; empty if unknown
  std::optional<bool> pairs = {};            // whether each sample is two texts; empty if unknown, or no text
  bool operator==(const Classes&) const = default;
};

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

  // How many numbers the label of each record is if it is not one class: for kSeveral one for each class, 1 where it
  // holds, else 0; for kNumbers those to be predicted. 0: Label() has the class. class_names() are then the names of
  // the classes, or of the numbers.
  virtual int64_t num_targets() const { return 0; }
  // Writes them, all finite, into `targets`, which has num_targets() places.
  virtual void Targets(int64_t /*index*/, std::span<float> /*targets*/) const {}
  // Whether they can be written: not of a record that is known to be damaged, of which Targets throws DataError.
  virtual bool HasTargets(int64_t /*index*/) const { return true; }

  // Returns the bytes of a record. Throws DataError if they cannot be read.
  virtual std::vector<uint8_t> Read(int64_t index) const = 0;

  // Whether Read takes all from memory.
  virtual bool is_in_memory() const { return false; }

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
  Classes classes() const { return {.names = class_names(), .count = num_classes(), .label_offset = label_offset()}; }

  // The files beside the records that are not data, counted by kind.
  virtual IgnoredFiles ignored() const { return {}; }

  // A hex digest that identifies the data, usually over the names and sizes of its files and never over their times, so
  // that a copy has the same one. Empty for sources that no run resumes with (ImageFiles).
  virtual std::string fingerprint() const = 0;
};

// The records of another source: all of them, unless PositionOf and size say which.
class SourceView : public RecordSource {
 public:
  explicit SourceView(std::shared_ptr<const RecordSource> whole) : whole_(std::move(whole)) {}

  // Returns the position in the whole.
  virtual int64_t PositionOf(int64_t index) const { return index; }

  int64_t size() const override { return whole_->size(); }
  RecordKind kind() const override { return whole_->kind(); }
  RawRows rows() const override { return whole_->rows(); }
  int64_t Label(int64_t index) const override { return whole_->Label(PositionOf(index)); }
  int64_t num_targets() const override { return whole_->num_targets(); }
  void Targets(int64_t index, std::span<float> targets) const override { whole_->Targets(PositionOf(index), targets); }
  bool HasTargets(int64_t index) const override { return whole_->HasTargets(PositionOf(index)); }
  std::vector<uint8_t> Read(int64_t index) const override { return whole_->Read(PositionOf(index)); }
  bool is_in_memory() const override { return whole_->is_in_memory(); }
  RecordPlace Place(int64_t index) const override { return whole_->Place(PositionOf(index)); }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  int64_t num_classes() const override { return whole_->num_classes(); }
  std::optional<int64_t> label_offset() const override { return whole_->label_offset(); }
  IgnoredFiles ignored() const override { return whole_->ignored(); }
  std::string fingerprint() const override { return whole_->fingerprint(); }

 protected:
  const std::shared_ptr<const RecordSource> whole_;
};

// ---- Decoding ----

// One tensor of a batch. Every row has this type and shape.
struct Field {
  std::string name;
  ElementType type;
  std::vector<int64_t> row_shape;
  bool on_host = false;  // for messages and files alone: never copied to a device
};

// One sample of a batch, as chosen by the sampler.
struct SampleRef {
  int64_t index = 0;   // position in the RecordSource
  int64_t epoch = 0;   // number of passes over the data before this one; part of the key of random draws
  int64_t repeat = 0;  // number of the copy under repeated augmentation; each copy has its own random draws
  int64_t size = 0;    // pixels per side, or tokens, of the row; 0: the decoder's own size
  bool operator==(const SampleRef&) const = default;
};

// Decodes records of one format. Decoders are pure: the same bytes and the same SampleRef give the same rows on any
// rank and thread.
class SampleDecoder {
 public:
  virtual ~SampleDecoder() = default;

  // Returns the tensors that this decoder fills for samples of `size` (SampleRef::size). The loader adds `index`
  // (int64, one element per row), and `labels` (likewise, from RecordSource::Label) unless the decoder fills it.
  virtual std::vector<Field> fields(int64_t size) const = 0;

  // Writes one row of each field; rows[i] belongs to fields(sample.size)[i]. Throws DataError if the bytes cannot be
  // decoded; rows may then be partly written. Safe to call from many threads at once.
  virtual void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
                      std::span<const std::span<std::byte>> rows) const = 0;
};

}  // namespace dtrain::data
