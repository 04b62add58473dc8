// WebDataset: a tar in which neighbouring members with the same name up to the first dot form one sample: an image,
// such as KEY.jpg, with its label in KEY.cls (a number as text) or KEY.json, which has several classes or numbers, too.
#pragma once

#include <string>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

class WebDatasetFormat : public RecordFormat {
 public:
  std::string name() const override { return "webdataset"; }
  std::string description() const override { return "tar files of WebDataset"; }
  std::vector<std::string> extensions() const override { return {".tar"}; }
  bool Holds(LabelKind /*kind*/) const override { return true; }
  std::optional<ScannedRecord> Scan(const ReadableBytes& file, uint64_t offset) const override;
  uint64_t FindRecord(const ReadableBytes& file, uint64_t from) const override;
  std::vector<uint8_t> Image(std::vector<uint8_t> record) const override;

  std::string FileName(const std::string& split, int64_t number, int64_t /*count*/) const override {
    return split + "-" + WithZeros(number, 6) + ".tar";
  }
  std::string Frame(const PackedImage& image) const override;  // the key is the index
  std::string FileEnd() const override;
};

}  // namespace dtrain::data
