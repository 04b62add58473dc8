// The headers of a plain baseline JPEG: what the fast decoder (baseline_jpeg.h) needs to know. Whatever is not plain
// (progressive, arithmetic, CMYK, several scans, odd sampling, anything damaged) is left to libjpeg-turbo.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "data/image/crop.h"
#include "data/image/jpeg/seek_points.h"

namespace dtrain::data {

constexpr int kBlockSide = 8;  // pixels

// As in the DHT segment.
struct HuffmanCodes {
  bool defined = false;
  std::array<uint8_t, 17> count{};     // [n]: codes of n bits
  std::array<uint8_t, 256> symbols{};  // in the order of the codes
  bool operator==(const HuffmanCodes&) const = default;
};

struct JpegComponent {
  int id = 0;
  int across = 1, down = 1;  // blocks a unit (MCU): 1 or 2; both 1 for colour
  int quantisation = 0, dc = 0, ac = 0;
};

struct BaselineHeader {
  ImageSize size;
  int components = 0;  // 1: grey; 3: Y, Cb, Cr
  std::array<JpegComponent, 3> component;
  std::array<std::array<uint16_t, 64>, 4> quantisation{};  // in zigzag order
  std::array<HuffmanCodes, 4> dc, ac;
  int restart_interval = 0;            // units; 0: no restart markers
  std::span<const uint8_t> scan = {};  // entropy-coded data, up to and including the EOI marker
  size_t scan_header = 0;              // where in the file the SOS marker is, which is before them
  std::optional<SeekPoints> seek_points = {};

  // Units of the image.
  int units_across() const { return DivideUp(size.width, kBlockSide * component[0].across); }
  int units_down() const { return DivideUp(size.height, kBlockSide * component[0].down); }

 private:
  static int DivideUp(int value, int divisor) { return (value + divisor - 1) / divisor; }
};

// nullopt: leave it to libjpeg-turbo. Never reads beyond `bytes`.
std::optional<BaselineHeader> ReadBaselineHeader(std::span<const uint8_t> bytes);

}  // namespace dtrain::data
