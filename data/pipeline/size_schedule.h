// Progressive resizing: small images in the first epochs, larger ones later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

// From the beginning of `epoch` (from 0) on, images have `size` pixels per side.
struct SizeChange {
  int64_t epoch = 0;
  int64_t size = 0;
  bool operator==(const SizeChange&) const = default;
};

// Epochs ascend and begin with 0. Empty: the decoder's own size in all epochs.
using SizeSchedule = std::vector<SizeChange>;

// Parses "0:160,6:192": 160 pixels in epochs 0 to 5, then 192; "" gives an empty schedule. Returns an empty optional
// for anything else: other words, epochs that do not ascend from 0, sizes outside 1 to 8192.
std::optional<SizeSchedule> ParseSizeSchedule(const std::string& text);

// Returns the size in an epoch; 0 if the schedule is empty.
int64_t SizeAt(const SizeSchedule& schedule, int64_t epoch);

}  // namespace dtrain::data
