// One shard of packed records: written under another name, read back, and only then given its own. A shard that is
// there is whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/formats/record_format.h"

namespace dtrain::data {

struct PackedImage {
  std::span<const uint8_t> bytes;
  int64_t label = 0;       // 0-based
  int64_t index = 0;       // in the split: the record's id or key
  std::string class_name;  // may be empty
  std::string file_name;   // may be empty
};

class ShardWriter {
 public:
  // `path`: the shard's own name. Throws Error (exit code 5) as all methods do.
  ShardWriter(const RecordFormat& format, std::string path);
  // An unfinished shard is removed.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  void Add(const PackedImage& image);

  // Ends the shard, reads each record back and compares it, and publishes.
  void Finish();

 private:
  struct Written {
    uint64_t offset = 0;
    uint32_t crc = 0;  // of the image
    int64_t stored_label = 0, id = 0;
  };
  void Append(const std::string& bytes);
  void ReadBack() const;
  void WriteOffsets() const;

  const RecordFormat& format_;
  const std::string path_, partial_path_;
  int descriptor_;
  uint64_t bytes_ = 0;
  std::vector<Written> written_;
};

// The name of shard `number` of `count`: train-00003-of-00010, train-00003.rec or train-000003.tar.
std::string ShardName(const std::string& format, const std::string& split, int64_t number, int64_t count);

// What the first class is called in files of this format: TensorFlow's ImageNet scripts count from 1.
int64_t FirstLabel(const std::string& format);

}  // namespace dtrain::data
