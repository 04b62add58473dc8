// TensorFlow's record files. A record is a uint64 length, the masked CRC-32C of the length, the data, and the masked
// CRC-32C of the data. The data is a tf.Example with `image/encoded` and `image/class/label`, as written by
// TensorFlow's ImageNet scripts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

// Returns the data with its lengths and CRCs, as one record.
std::string FrameTfRecord(std::string_view data);

constexpr size_t kTfRecordFrameBytes = 16;  // bytes of a record besides its data

// Returns the data of the record at the front of `bytes`; empty if no complete and intact record is there.
std::optional<std::string_view> UnframeTfRecord(std::string_view bytes);

struct ImageExample {
  std::optional<std::span<const uint8_t>> image;  // image/encoded; points into the parsed bytes
  std::optional<int64_t> label;                   // image/class/label, as stored; the first of several
  std::optional<std::vector<double>> values;      // all integers or floats of image/class/label; empty without it
  std::vector<std::string> features;              // all names, in file order
};

// Throws DataError if the bytes are not a tf.Example. Allocates memory only for the names and the values.
ImageExample ParseImageExample(std::span<const uint8_t> bytes);

// Returns a tf.Example with image/encoded and image/class/label, `first_label` added to its classes, and, unless empty,
// image/class/text and image/filename.
std::string MakeImageExample(const PackedImage& image, int64_t first_label);

}  // namespace dtrain::data
