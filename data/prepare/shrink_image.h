// Makes images smaller once, while they are packed, instead of in every epoch.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::data {

// Returns an encoded image whose short side exceeds `short_side` pixels as a JPEG of this quality, resized to that
// short side (antialiased); returns any other image unchanged. Throws DataError if it cannot be decoded.
std::vector<uint8_t> ShrinkImage(std::vector<uint8_t> encoded, int short_side, int quality);

// Limits LibTorch to one thread in the calling thread, because many threads resize at the same time.
void UseOneThreadEach();

}  // namespace dtrain::data
