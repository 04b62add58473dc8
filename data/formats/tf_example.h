// The part of tf.Example that image classification needs, read with a small protobuf reader of its own: libprotobuf
// would be a large dependency for three messages, and would allocate what hostile lengths ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

struct ImageExample {
  std::optional<std::span<const uint8_t>> image;  // image/encoded; inside the bytes that were parsed
  std::optional<int64_t> label;                   // image/class/label, as it is stored
  std::vector<std::string> features;              // all names, in their order
};

// Throws DataError where the bytes are no tf.Example. Allocates for the names only.
ImageExample ParseImageExample(std::span<const uint8_t> bytes);

// The same for writing: a tf.Example with these two and, unless empty, image/class/text and image/filename.
std::string MakeImageExample(std::string_view image, int64_t label, const std::string& class_name,
                             const std::string& file_name);

}  // namespace dtrain::data
