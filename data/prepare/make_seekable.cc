#include "data/prepare/make_seekable.h"

#include "data/error.h"
#include "data/image/decode.h"
#include "data/image/exif_orientation.h"
#include "data/image/jpeg/baseline_header.h"
#include "data/image/jpeg/seek_points.h"
#include "data/prepare/jpeg_writer.h"

namespace dtrain::data {

std::vector<uint8_t> MakeSeekable(std::vector<uint8_t> encoded) {
  const bool is_jpeg = encoded.size() > 2 && encoded[0] == 0xFF && encoded[1] == 0xD8;
  if (!is_jpeg) return encoded;
  if (!ReadBaselineHeader(encoded)) {
    try {
      ReadImageSize(encoded);  // throws if decoding would need too much memory
      std::vector<uint8_t> baseline = WithOrientationOf(encoded, RewriteAsBaseline(encoded));
      if (ReadBaselineHeader(baseline)) encoded = std::move(baseline);
    } catch (const DataError&) {
      return encoded;  // decoding it later reports the damage
    }
  }
  return AddSeekPoints(std::move(encoded));
}

}  // namespace dtrain::data
