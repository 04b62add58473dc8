// The kind of a data set's records, by which callers choose a decoder.
#pragma once

#include <cstdint>

namespace dtrain::data {

enum class RecordKind {
  kEncodedImage,  // the content of a JPEG, PNG, … file
  kPixels,        // the pixels of an image in the layout of RawRows
  kTokens,        // a block of token ids
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

}  // namespace dtrain::data
