// WebDataset: a tar in which neighbouring members with the same name up to the first dot form one sample: KEY.jpg
// (.jpeg, .png, …) with its label in KEY.cls (a number as text) or KEY.json (`label` or `cls`).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

class WebDatasetFormat : public RecordFormat {
 public:
  std::string name() const override { return "webdataset"; }
  std::string description() const override { return "tar files of WebDataset"; }
  std::vector<std::string> extensions() const override { return {".tar"}; }
  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override;
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const override;
  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override;
};

// Returns the tar members of one sample. `key` has no dot and at most 90 bytes; `extension` comes without a dot.
std::string FrameWebDataset(std::span<const uint8_t> image, int64_t label, const std::string& key,
                            const std::string& extension);

}  // namespace dtrain::data
