#include "data/prepare/shard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "data/careful_open.h"
#include "data/formats/crc32c.h"
#include "data/formats/random_access_file.h"
#include "data/formats/recordio.h"
#include "data/formats/tar.h"
#include "data/formats/tf_example.h"
#include "data/formats/tfrecord.h"
#include "data/formats/webdataset.h"

namespace dtrain::data {
namespace {

[[noreturn]] void FailToWrite(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::kStorage, "cannot write " + path + ": " + reason,
              "make room or choose another --output, then run the same command again: it goes on where it was");
}

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

ShardWriter::ShardWriter(const RecordFormat& format, std::string path)
    : format_(format),
      path_(std::move(path)),
      partial_path_(path_ + ".partial"),
      descriptor_(CreateAnew(partial_path_)) {
  if (descriptor_ < 0) FailToWrite(partial_path_, std::strerror(errno));
}

ShardWriter::~ShardWriter() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(partial_path_.c_str());
}

void ShardWriter::Append(const std::string& bytes) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t count = write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) FailToWrite(partial_path_, std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(count));
  }
  bytes_ += bytes.size();
}

void ShardWriter::Add(const PackedImage& image) {
  const int64_t stored_label = image.label + FirstLabel(format_.name());
  const uint64_t offset = bytes_;
  Append(Frame(format_.name(), image, stored_label));
  written_.push_back({offset, Crc32c(image.bytes.data(), image.bytes.size()), stored_label, image.index});
}

void ShardWriter::ReadBack() const {
  const RandomAccessFile file(partial_path_);
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
      FailToWrite(partial_path_,
                  "what is read back at byte " + std::to_string(written.offset) + " is not what was written");
    }
  }
}

// Writes MXNet's index beside a .rec: one "KEY<tab>OFFSET" per line.
void ShardWriter::WriteOffsets() const {
  const std::string path = path_.substr(0, path_.size() - 4) + ".idx";
  const int descriptor = CreateAnew(path);
  std::FILE* const file = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
  if (file == nullptr) FailToWrite(path, std::strerror(errno));
  bool good = true;
  for (const Written& written : written_) {
    good = good && std::fprintf(file, "%lld\t%llu\n", static_cast<long long>(written.id),
                                static_cast<unsigned long long>(written.offset)) > 0;
  }
  good = std::fflush(file) == 0 && fsync(fileno(file)) == 0 && good;
  if (std::fclose(file) != 0 || !good) FailToWrite(path, std::strerror(errno));
}

void ShardWriter::Finish() {
  if (format_.name() == "webdataset") Append(MakeTarEnd());
  if (fsync(descriptor_) != 0) FailToWrite(partial_path_, std::strerror(errno));
  ReadBack();
  if (format_.name() == "recordio") WriteOffsets();
  if (close(std::exchange(descriptor_, -1)) != 0 || rename(partial_path_.c_str(), path_.c_str()) != 0) {
    FailToWrite(path_, std::strerror(errno));
  }
}

}  // namespace dtrain::data
