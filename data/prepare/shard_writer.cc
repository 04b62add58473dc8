#include "data/prepare/shard_writer.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "data/error.h"
#include "data/formats/crc32c.h"
#include "data/formats/random_access_file.h"
#include "data/formats/recordio.h"
#include "data/formats/tar.h"
#include "data/formats/tf_example.h"
#include "data/formats/tfrecord.h"
#include "data/formats/webdataset.h"

namespace dtrain::data {
namespace {

std::string Numbered(const char* pattern, int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, pattern, static_cast<long long>(number));
  return text;
}

std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the extension of the image's name in a tar.
std::string ExtensionOf(std::span<const uint8_t> image) {
  const std::string_view text = AsText(image);
  if (text.starts_with("\x89PNG")) return "png";
  if (text.starts_with("RIFF")) return "webp";
  if (text.starts_with("II*") || text.starts_with("MM")) return "tif";
  if (text.starts_with("BM")) return "bmp";
  if (text.starts_with("P6")) return "ppm";
  if (text.starts_with("P5")) return "pgm";
  return "jpg";
}

std::string Frame(const std::string& format, const PackedImage& image, int64_t stored_label) {
  if (format == "tfrecord") {
    return FrameTfRecord(MakeImageExample(AsText(image.bytes), stored_label, image.class_name, image.file_name));
  }
  if (format == "recordio") return FrameRecordIo(image.bytes, stored_label, static_cast<uint64_t>(image.index));
  return FrameWebDataset(image.bytes, stored_label, Numbered("%09lld", image.index), ExtensionOf(image.bytes));
}

}  // namespace

std::string ShardName(const std::string& format, const std::string& split, int64_t number, int64_t count) {
  if (format == "tfrecord") return split + Numbered("-%05lld", number) + Numbered("-of-%05lld", count);
  if (format == "recordio") return split + Numbered("-%05lld.rec", number);
  return split + Numbered("-%06lld.tar", number);
}

int64_t FirstLabel(const std::string& format) { return format == "tfrecord" ? 1 : 0; }

ShardWriter::ShardWriter(const RecordFormat& format, const std::string& path)
    : format_(format), path_(path), file_(path) {}

void ShardWriter::Add(const PackedImage& image) {
  const int64_t stored_label = image.label + FirstLabel(format_.name());
  written_.push_back({file_.bytes(), Crc32c(image.bytes.data(), image.bytes.size()), stored_label, image.index});
  file_.Append(Frame(format_.name(), image, stored_label));
}

void ShardWriter::ReadBack() const {
  const RandomAccessFile file(file_.partial_path());
  for (const Written& written : written_) {
    const auto record = format_.Scan(file, written.offset);
    bool same = record && record->begin == written.offset && record->label == written.stored_label;
    if (same) {
      std::vector<uint8_t> bytes(record->end - record->begin);
      file.Read(record->begin, bytes.size(), bytes.data());
      const std::vector<uint8_t> image = format_.Image(std::move(bytes));
      same = Crc32c(image.data(), image.size()) == written.crc;
    }
    if (!same) {
      throw Error(ExitCode::kStorage,
                  "cannot write " + path_ + ": what is read back at byte " + std::to_string(written.offset) +
                      " is not what was written",
                  "choose another --output, then run the same command again");
    }
  }
}

// Writes MXNet's index beside a .rec: one "KEY<tab>OFFSET" per line.
void ShardWriter::WriteOffsets() const {
  std::string lines;
  for (const Written& written : written_) {
    lines += std::to_string(written.id) + "\t" + std::to_string(written.offset) + "\n";
  }
  PublishFile(path_.substr(0, path_.size() - 4) + ".idx", lines);
}

void ShardWriter::Finish() {
  if (format_.name() == "webdataset") file_.Append(MakeTarEnd());
  file_.Sync();
  ReadBack();
  if (format_.name() == "recordio") WriteOffsets();
  file_.Publish();
}

}  // namespace dtrain::data
