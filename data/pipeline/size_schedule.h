// Progressive resizing: small images in the first epochs, larger ones later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

// From the beginning of `epoch` (counted from 0) on, images have `size` pixels a side.
struct SizeChange {
  int64_t epoch = 0;
  int64_t size = 0;
  bool operator==(const SizeChange&) const = default;
};

// Epochs ascend from 0. Empty: one size throughout, the decoder's own.
using SizeSchedule = std::vector<SizeChange>;

// "0:160,6:192": 160 pixels in the epochs 0 to 5, 192 from then on; "" is empty. nullopt for anything else: words,
// epochs that do not ascend from 0, sizes outside of 1 to 8192.
std::optional<SizeSchedule> ParseSizeSchedule(const std::string& text);

// The size in an epoch; 0 where the schedule is empty.
int64_t SizeAt(const SizeSchedule& schedule, int64_t epoch);

}  // namespace dtrain::data
