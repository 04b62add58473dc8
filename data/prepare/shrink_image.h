// Images made smaller once, when they are packed, instead of at every epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// An encoded image whose short side is longer than `short_side` pixels comes back resized to it (antialiased) as a JPEG
// of this quality; any other as it is. Throws DataError where it cannot be decoded.
std::vector<uint8_t> ShrinkImage(std::vector<uint8_t> encoded, int short_side, int quality);

// Each calling thread resizes on itself alone: the callers are many already.
void UseOneThreadEach();

}  // namespace dtrain::data
