// Our own decoder of plain baseline JPEGs: their headers, the pieces of their scan, and crops of them. Every other JPEG
// (progressive, arithmetic, CMYK, several scans, unusual sampling, anything damaged) is left to libjpeg-turbo.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/image/crop.h"
#include "data/image/resample.h"

namespace dtrain::data {

constexpr int kBlockSide = 8;  // pixels

// Seek points of a JPEG: where in the entropy-coded data some of its units (MCUs) begin, and the DC values there, so
// that a crop need not be decoded from the image's upper left corner. `dtrain_data pack --seek_points` stores them in
// an APP10 segment, which other programs skip; data/FORMAT.md describes the bytes.
struct SeekPoint {
  size_t bytes = 0;         // distance in the file from the previous point to the byte with this point's first bit
  int bit = 0;              // in that byte, 0 (the highest) to 7
  std::array<int, 3> dc{};  // DC values of the unit before, by component
};

// One point at every `units`-th unit of each row of units, except the first unit of the image. `packed` refers to the
// segment's bytes, which must outlive it.
struct SeekPoints {
  int units = 0;
  int components = 0;
  std::span<const uint8_t> packed;

  SeekPoint Get(size_t i) const;
};

constexpr uint8_t kSeekPointsMarker = 0xEA;  // APP10

// Reads the segment of an image with that many units and components, whose scan has `scan_bytes`. Returns empty if the
// segment is another program's, is damaged or belongs to another image.
std::optional<SeekPoints> ReadSeekPoints(std::span<const uint8_t> segment, int64_t units_across, int64_t units_down,
                                         int components, size_t scan_bytes);

// A Huffman table as the DHT segment stores it.
struct HuffmanCodes {
  bool defined = false;
  std::array<uint8_t, 17> count{};     // [n]: the number of codes of n bits
  std::array<uint8_t, 256> symbols{};  // in the order of their codes
  bool operator==(const HuffmanCodes&) const = default;
};

struct JpegComponent {
  int id = 0;
  int across = 1, down = 1;  // blocks in a unit (MCU), 1 or 2; both 1 for colour
  int quantisation = 0, dc = 0, ac = 0;
};

struct BaselineHeader {
  ImageSize size;
  int components = 0;  // 1: grey; 3: Y, Cb, Cr
  std::array<JpegComponent, 3> component;
  std::array<std::array<uint16_t, 64>, 4> quantisation{};  // in zigzag order
  std::array<HuffmanCodes, 4> dc, ac;
  int restart_interval = 0;            // units; 0: no restart markers
  std::span<const uint8_t> scan = {};  // entropy-coded data in the file's bytes, up to and including the EOI marker
  size_t scan_header = 0;              // offset of the SOS marker in the file, bytes
  std::optional<SeekPoints> seek_points = {};

  // The image's size in units.
  int units_across() const { return DivideUp(size.width, kBlockSide * component[0].across); }
  int units_down() const { return DivideUp(size.height, kBlockSide * component[0].down); }

 private:
  static int DivideUp(int value, int divisor) { return (value + divisor - 1) / divisor; }
};

// Returns empty if libjpeg-turbo must decode the image. Never reads beyond `bytes`, which must outlive the result.
std::optional<BaselineHeader> ReadBaselineHeader(std::span<const uint8_t> bytes);

// A range of units (MCUs) in the order of the file, and its bits. The entropy-coded data is cut into such pieces where
// decoding can begin: at restart markers, or at seek points; without either there is one. Pieces that a crop does not
// need are not even read.
struct ScanPiece {
  int64_t begin = 0, end = 0;      // units
  std::span<const uint8_t> bytes;  // as in the file, with stuffing; the last byte may also belong to the next piece
  int first_bit = 0;               // in the first byte, 0 (the highest) to 7
  std::array<int, 3> dc{};         // DC values of the unit before, by component
};

// Cuts header.scan into `pieces`, which cover all units in order. Returns false if the restart markers are not as the
// header says.
bool CutScan(const BaselineHeader& header, std::vector<ScanPiece>& pieces);

// Copies `bytes` up to their first marker into `memory`, without the zeros that are stuffed after FF. `memory` only
// grows, and `padding` bytes can be read after the returned ones.
std::span<const uint8_t> WithoutStuffing(std::span<const uint8_t> bytes, size_t padding, std::vector<uint8_t>& memory);

// Returns a plain baseline JPEG with seek points, and any other JPEG unchanged. A JPEG that has seek points or restart
// markers already, or that is too large for one segment, is unchanged, too.
std::vector<uint8_t> AddSeekPoints(std::vector<uint8_t> jpeg);

// Decodes a crop, resized and perhaps mirrored, directly into a row of a batch: side × side RGB pixels. That takes half
// the time of decoding to RGB and resizing that: no more is decoded than the crop needs, and colour keeps its own
// resolution until it is resized. The pixels equal those of decoding, cropping and resizing up to rounding (on average
// well within 2/255). Colours outside RGB, frequent in files of very low quality, are clamped after resizing. Returns
// false if libjpeg-turbo must decode the image; `row` may then be partly written.
bool CropBaselineJpeg(const BaselineHeader& header, const CropBox& box, bool flip, Interpolation interpolation,
                      int side, uint8_t* row);

}  // namespace dtrain::data
