// Writes one shard of packed records under a temporary name, reads it back, and only then gives it its own name. So a
// shard that exists is complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/formats/record_format.h"
#include "data/prepare/partial_file.h"

namespace dtrain::data {

struct PackedImage {
  std::span<const uint8_t> bytes;
  int64_t label = 0;       // 0-based
  int64_t index = 0;       // position in the split; becomes the record's id or key
  std::string class_name;  // may be empty
  std::string file_name;   // may be empty
};

class ShardWriter {
 public:
  // `path` is the shard's final name. All methods throw Error (exit code 5) if they cannot write.
  ShardWriter(const RecordFormat& format, const std::string& path);

  void Add(const PackedImage& image);

  // Ends the shard, reads each record back and compares it, and renames the file. Also throws DataError if the records
  // that it reads back cannot be parsed.
  void Finish();

 private:
  struct Written {
    uint64_t offset = 0;
    uint32_t crc = 0;  // CRC-32C of the image
    int64_t stored_label = 0, id = 0;
  };
  void ReadBack() const;
  void WriteOffsets() const;

  const RecordFormat& format_;
  const std::string path_;
  PartialFile file_;
  std::vector<Written> written_;
};

// Returns the name of shard `number` of `count`: train-00003-of-00010, train-00003.rec or train-000003.tar.
std::string ShardName(const std::string& format, const std::string& split, int64_t number, int64_t count);

// Returns the label of the first class in files of this format: 1 for TFRecord, as in TensorFlow's ImageNet scripts,
// else 0.
int64_t FirstLabel(const std::string& format);

}  // namespace dtrain::data
