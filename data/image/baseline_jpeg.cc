// ITU T.81, annex F.2. A unit (MCU) is the smallest group of blocks with all components.
#include "data/image/baseline_jpeg.h"

#include <algorithm>

#include "data/image/huffman.h"
#include "data/image/idct.h"

namespace dtrain::data {
namespace {

constexpr int kBlock = 8;

int DivideUp(int value, int divisor) { return (value + divisor - 1) / divisor; }

// Units, from `begin` to before `end`.
struct Range {
  int begin = 0, end = 0;
  bool Has(int i) const { return i >= begin && i < end; }
};

class PlanesDecoder {
 public:
  PlanesDecoder(const BaselineHeader& header, const CropBox& box, Planes& planes)
      : header_(header), planes_(planes), reader_(header.scan) {
    const JpegComponent& first = header.component[0];
    unit_width_ = kBlock * first.across;
    unit_height_ = kBlock * first.down;
    across_ = DivideUp(header.size.width, unit_width_);
    down_ = DivideUp(header.size.height, unit_height_);
    // A unit more on each side: colour at the edge of the box is interpolated with its neighbours.
    columns_ = {std::max(0, (box.x - 1) / unit_width_),
                std::min(across_, DivideUp(box.x + box.width + 1, unit_width_))};
    rows_ = {std::max(0, (box.y - 1) / unit_height_), std::min(down_, DivideUp(box.y + box.height + 1, unit_height_))};
  }

  bool Decode() {
    if (!Prepare()) return false;
    for (int row = 0; row < rows_.end; ++row) {
      for (int column = 0; column < across_; ++column) {
        if (AtRestart(row, column) && !Restart(row, column)) return false;
        if (skipped_units_ > 0) {
          --skipped_units_;
        } else if (!DecodeUnit(row, column)) {
          return false;
        }
      }
      if (reader_.overrun()) return false;
    }
    return true;
  }

 private:
  bool Prepare() {
    planes_.count = header_.components;
    for (size_t i = 0; i < 4; ++i) {
      if (header_.dc[i].defined && !dc_[i].Build(header_.dc[i])) return false;
      if (header_.ac[i].defined && !ac_[i].Build(header_.ac[i])) return false;
    }
    for (int i = 0; i < header_.components; ++i) {
      const JpegComponent& component = header_.component[static_cast<size_t>(i)];
      scales_[i] = MakeIdctScales(header_.quantisation[static_cast<size_t>(component.quantisation)]);
      Plane& plane = planes_.plane[i];
      const int block_width = kBlock * component.across, block_height = kBlock * component.down;
      plane.left = columns_.begin * block_width;
      plane.top = rows_.begin * block_height;
      plane.stride = (rows_.end - rows_.begin) * block_height;
      plane.scale_x = static_cast<double>(block_width) / unit_width_;
      plane.scale_y = static_cast<double>(block_height) / unit_height_;
      // Blocks reach beyond the image; those samples do not count.
      const int image_width = DivideUp(header_.size.width * block_width, unit_width_);
      const int image_height = DivideUp(header_.size.height * block_height, unit_height_);
      plane.width = std::min((columns_.end - columns_.begin) * block_width, image_width - plane.left);
      plane.height = std::min(plane.stride, image_height - plane.top);
      const size_t samples = static_cast<size_t>(columns_.end - columns_.begin) * block_width * plane.stride;
      if (plane.samples.size() < samples) plane.samples.resize(samples);
    }
    return true;
  }

  bool AtRestart(int row, int column) const {
    return header_.restart_interval > 0 && (int64_t{row} * across_ + column) % header_.restart_interval == 0;
  }

  // Between two restart intervals; if none of the next one's units is wanted, its data are not even looked at.
  bool Restart(int row, int column) {
    const int64_t unit = int64_t{row} * across_ + column;
    const int64_t interval = unit / header_.restart_interval;
    if (unit > 0) {
      const int number = static_cast<int>((interval - 1) % 8);
      const bool passed = last_skipped_ ? reader_.SkipToRestartMarker(number) : reader_.PassRestartMarker(number);
      if (!passed) return false;
    }
    std::fill(std::begin(last_dc_), std::end(last_dc_), 0);
    last_skipped_ = !Wanted(unit, unit + header_.restart_interval);
    if (last_skipped_) skipped_units_ = header_.restart_interval;
    return true;
  }

  bool Wanted(int64_t begin, int64_t end) const {
    const int64_t first_row = begin / across_, last_row = (end - 1) / across_;
    if (last_row < rows_.begin || first_row >= rows_.end) return false;
    if (first_row != last_row) return true;
    return end - first_row * across_ > columns_.begin && begin - first_row * across_ < columns_.end;
  }

  bool DecodeUnit(int row, int column) {
    const bool wanted = rows_.Has(row) && columns_.Has(column);
    for (int i = 0; i < header_.components; ++i) {
      const JpegComponent& component = header_.component[static_cast<size_t>(i)];
      for (int y = 0; y < component.down; ++y) {
        for (int x = 0; x < component.across; ++x) {
          if (!wanted) {
            if (ReadBlock(reader_, dc_[component.dc], ac_[component.ac], last_dc_[i], nullptr) == 0) return false;
            continue;
          }
          const int block_column = (column - columns_.begin) * component.across + x;
          const int block_row = (row - rows_.begin) * component.down + y;
          if (!DecodeBlock(i, block_column, block_row)) return false;
        }
      }
    }
    return true;
  }

  bool DecodeBlock(int i, int block_column, int block_row) {
    Plane& plane = planes_.plane[i];
    uint8_t* pixels =
        plane.samples.data() + ptrdiff_t{kBlock} * block_column * plane.stride + ptrdiff_t{kBlock} * block_row;
    alignas(32) int16_t block[64] = {};
    const JpegComponent& component = header_.component[static_cast<size_t>(i)];
    const int used = ReadBlock(reader_, dc_[component.dc], ac_[component.ac], last_dc_[i], block);
    if (used == 0) return false;
    if (used == 1) {
      InverseDctOfDc(block[0], scales_[i], pixels, plane.stride);
    } else {
      InverseDct(block, scales_[i], pixels, plane.stride);
    }
    return true;
  }

  const BaselineHeader& header_;
  Planes& planes_;
  BitReader reader_;
  HuffmanTable dc_[4], ac_[4];
  IdctScales scales_[3];
  int last_dc_[3] = {};
  int unit_width_ = 0, unit_height_ = 0;  // pixels
  int across_ = 0, down_ = 0;             // units of the image
  Range columns_, rows_;                  // units that are wanted
  bool last_skipped_ = false;
  int skipped_units_ = 0;
};

}  // namespace

bool DecodePlanes(const BaselineHeader& header, const CropBox& box, Planes& planes) {
  return PlanesDecoder(header, box, planes).Decode();
}

}  // namespace dtrain::data
