// Reads and writes the part of tf.Example that image classification needs, with a small protobuf reader: libprotobuf
// would be a large dependency for three messages, and would allocate whatever size a hostile length gives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

struct ImageExample {
  std::optional<std::span<const uint8_t>> image;  // image/encoded; points into the parsed bytes
  std::optional<int64_t> label;                   // image/class/label, as stored
  std::vector<std::string> features;              // all names, in file order
};

// Throws DataError if the bytes are not a tf.Example. Allocates memory only for the names.
ImageExample ParseImageExample(std::span<const uint8_t> bytes);

// Returns a tf.Example with image/encoded and image/class/label and, unless empty, image/class/text and image/filename.
std::string MakeImageExample(std::string_view image, int64_t label, const std::string& class_name,
                             const std::string& file_name);

}  // namespace dtrain::data
