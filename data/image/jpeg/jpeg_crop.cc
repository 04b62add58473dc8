// First the blocks under the crop become planes (ITU T.81, annex F.2; a unit, MCU, is the smallest group of blocks with
// all components): blocks outside of it are skipped in the bit stream, nothing below it is read. Then the planes are
// resized, and converted to RGB last, when only side × side pixels are left.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "data/image/jpeg/baseline_header.h"
#include "data/image/jpeg/blocks.h"
#include "data/image/resample.h"

namespace dtrain::data {
namespace {

// ---- Planes ---------------------------------------------------------------------------------------------------------

// One decoded component, stored by column: sample (x, y) is samples[(x - left)·stride + (y - top)].
struct Plane {
  int left = 0, top = 0, width = 0, height = 0;  // the decoded part, in samples of this plane
  int stride = 0;
  double scale_x = 1, scale_y = 1;  // samples per pixel: 1, or 0.5 for subsampled colour
  std::vector<uint8_t> samples;
};

struct Planes {
  int count = 0;  // 1: grey; 3: Y, Cb, Cr
  Plane plane[3];
};

int DivideUp(int value, int divisor) { return (value + divisor - 1) / divisor; }

// The units from `begin` to before `end`.
struct Range {
  int begin = 0, end = 0;
  bool Has(int i) const { return i >= begin && i < end; }
};

// Memory that a thread reuses for its next image.
struct DecoderMemory {
  EntropyTables tables;
  std::vector<ScanPiece> pieces;
  std::vector<uint8_t> clean;
};

class PlanesDecoder {
 public:
  PlanesDecoder(const BaselineHeader& header, const CropBox& box, Planes& planes, DecoderMemory& memory)
      : header_(header), planes_(planes), memory_(memory), across_(header.units_across()) {
    unit_width_ = kBlockSide * header.component[0].across;
    unit_height_ = kBlockSide * header.component[0].down;
    // One pixel more on each side, because colour at the edge of the box is interpolated with its neighbours.
    columns_ = {std::max(0, (box.x - 1) / unit_width_),
                std::min(across_, DivideUp(box.x + box.width + 1, unit_width_))};
    rows_ = {std::max(0, (box.y - 1) / unit_height_),
             std::min(header.units_down(), DivideUp(box.y + box.height + 1, unit_height_))};
  }

  bool Decode() {
    if (!memory_.tables.Use(header_) || !CutScan(header_, memory_.pieces)) return false;
    PreparePlanes();
    const std::vector<ScanPiece>& pieces = memory_.pieces;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const int64_t end = EndOfWanted(pieces[i]);
      if (end == 0) continue;
      const bool is_whole = end == pieces[i].end;
      if (!DecodePiece(pieces[i], end)) return false;
      if (!is_whole) continue;
      // The bits left in the last byte belong to the next piece or are padding.
      if (reader_.left() >= 8) return false;
      if (header_.seek_points && i + 1 < pieces.size() && last_dc_ != pieces[i + 1].dc) return false;
    }
    return true;
  }

 private:
  void PreparePlanes() {
    planes_.count = header_.components;
    for (int i = 0; i < header_.components; ++i) {
      const JpegComponent& component = header_.component[static_cast<size_t>(i)];
      scales_[i] = MakeIdctScales(header_.quantisation[static_cast<size_t>(component.quantisation)]);
      Plane& plane = planes_.plane[i];
      const int block_width = kBlockSide * component.across, block_height = kBlockSide * component.down;
      plane.left = columns_.begin * block_width;
      plane.top = rows_.begin * block_height;
      plane.stride = (rows_.end - rows_.begin) * block_height;
      plane.scale_x = static_cast<double>(block_width) / unit_width_;
      plane.scale_y = static_cast<double>(block_height) / unit_height_;
      // The last blocks may reach beyond the image; those samples do not count.
      const int image_width = DivideUp(header_.size.width * block_width, unit_width_);
      const int image_height = DivideUp(header_.size.height * block_height, unit_height_);
      plane.width = std::min((columns_.end - columns_.begin) * block_width, image_width - plane.left);
      plane.height = std::min(plane.stride, image_height - plane.top);
      const size_t samples = static_cast<size_t>(columns_.end - columns_.begin) * block_width * plane.stride;
      if (plane.samples.size() < samples) plane.samples.resize(samples);
    }
  }

  // Returns the end of the units of the piece that are wanted, or 0 if none is wanted.
  int64_t EndOfWanted(const ScanPiece& piece) const {
    const int64_t first_row = piece.begin / across_, last_row = (piece.end - 1) / across_;
    if (last_row < rows_.begin || first_row >= rows_.end) return 0;
    const int64_t row = std::min<int64_t>(last_row, rows_.end - 1);
    const int64_t end = std::min(piece.end, row * across_ + columns_.end);
    if (first_row == last_row && piece.end <= row * across_ + columns_.begin) return 0;
    return end > piece.begin ? end : 0;
  }

  bool DecodePiece(const ScanPiece& piece, int64_t end) {
    reader_ = BitReader(WithoutStuffing(piece.bytes, BitReader::kPadding, memory_.clean), piece.first_bit);
    last_dc_ = piece.dc;
    auto row = static_cast<int>(piece.begin / across_), column = static_cast<int>(piece.begin % across_);
    for (int64_t unit = piece.begin; unit < end; ++unit) {
      const bool wanted = rows_.Has(row) && columns_.Has(column);
      if (!(wanted ? DecodeUnit(row, column) : memory_.tables.SkipUnit(reader_, last_dc_))) return false;
      if (++column < across_) continue;
      column = 0;
      ++row;
    }
    return true;
  }

  bool DecodeUnit(int row, int column) {
    for (int i = 0; i < header_.components; ++i) {
      const JpegComponent& component = header_.component[static_cast<size_t>(i)];
      for (int y = 0; y < component.down; ++y) {
        for (int x = 0; x < component.across; ++x) {
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
        plane.samples.data() + ptrdiff_t{kBlockSide} * block_column * plane.stride + ptrdiff_t{kBlockSide} * block_row;
    const int used = memory_.tables.Read(reader_, i, last_dc_, block_);
    if (used == 1) {
      InverseDctOfDc(block_, scales_[i], pixels, plane.stride);
    } else {
      InverseDct(block_, scales_[i], pixels, plane.stride);
    }
    return used > 0;
  }

  const BaselineHeader& header_;
  Planes& planes_;
  DecoderMemory& memory_;
  BitReader reader_;
  std::array<int, 3> last_dc_{};
  alignas(32) int16_t block_[64] = {};  // all zeros between two blocks
  IdctScales scales_[3];
  int unit_width_ = 0, unit_height_ = 0;  // pixels
  const int across_;                      // width of the image in units
  Range columns_, rows_;                  // units that are wanted
};

// Decodes at least `box` (inside the image) into `planes`, whose memory is reused. Returns false if the data are not as
// they should be; libjpeg-turbo must then decode the image or report what is wrong.
bool DecodePlanes(const BaselineHeader& header, const CropBox& box, Planes& planes) {
  static thread_local DecoderMemory memory;
  return PlanesDecoder(header, box, planes, memory).Decode();
}

// ---- From planes to pixels ------------------------------------------------------------------------------------------

// Memory that a thread reuses for its next image, because the system would have to clear fresh memory each time.
struct Scratch {
  Planes planes;
  std::vector<uint8_t> narrow, turned;
  std::vector<uint8_t> resized[3];
};

uint8_t* AtLeast(std::vector<uint8_t>& memory, size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

// How planes of one shape are resized. The two colour planes share it.
struct PlaneResize {
  int first_row = 0, rows = 0;  // the plane's rows that belong to the box
  ResampleWeights across, down;
};

PlaneResize MakePlaneResize(const Plane& plane, const CropBox& box, bool flip, Interpolation interpolation, int side) {
  PlaneResize resize;
  const double top = box.y * plane.scale_y - plane.top, height = box.height * plane.scale_y;
  resize.first_row = static_cast<int>(std::floor(top));
  resize.rows = std::min(plane.height, static_cast<int>(std::ceil(top + height))) - resize.first_row;
  resize.across = MakeResampleWeights(box.x * plane.scale_x - plane.left, box.width * plane.scale_x, plane.width, side,
                                      interpolation, flip, plane.scale_x);
  resize.down =
      MakeResampleWeights(top - resize.first_row, height, resize.rows, side, interpolation, false, plane.scale_y);
  return resize;
}

// Resizes the part of `plane` that belongs to the box to side rows of side samples.
void ResizePlane(const Plane& plane, const PlaneResize& resize, int side, Scratch& scratch, uint8_t* to) {
  const int rows = resize.rows;
  const auto pixels = static_cast<size_t>(side) * rows;
  uint8_t* narrow = AtLeast(scratch.narrow, pixels);  // side columns of `rows` samples
  ResampleRows(plane.samples.data() + resize.first_row, plane.width, plane.stride, rows, resize.across, narrow, rows);
  uint8_t* turned = AtLeast(scratch.turned, pixels);
  TransposeBytes(narrow, side, rows, rows, turned, side);
  ResampleRows(turned, rows, side, side, resize.down, to, side);
}

// Converts YCbCr to RGB as in ITU T.871: full range, in units of 2^-16.
DTRAIN_WITH_AVX2
void ToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int pixels, uint8_t* rgb) {
  constexpr int kHalf = 1 << 15;
  for (ptrdiff_t i = 0; i < pixels; ++i) {
    const int light = (y[i] << 16) + kHalf, blue = cb[i] - 128, red = cr[i] - 128;
    const int r = (light + 91881 * red) >> 16;
    const int g = (light - 22554 * blue - 46802 * red) >> 16;
    const int b = (light + 116130 * blue) >> 16;
    rgb[3 * i] = static_cast<uint8_t>(std::min(std::max(r, 0), 255));
    rgb[3 * i + 1] = static_cast<uint8_t>(std::min(std::max(g, 0), 255));
    rgb[3 * i + 2] = static_cast<uint8_t>(std::min(std::max(b, 0), 255));
  }
}

}  // namespace

bool CropBaselineJpeg(const BaselineHeader& header, const CropBox& box, bool flip, Interpolation interpolation,
                      int side, uint8_t* row) {
  static thread_local Scratch scratch;
  if (!DecodePlanes(header, box, scratch.planes)) return false;
  const int pixels = side * side;
  const uint8_t* planes[3];
  PlaneResize resize;
  for (int i = 0; i < scratch.planes.count; ++i) {
    uint8_t* to = AtLeast(scratch.resized[i], static_cast<size_t>(pixels));
    if (i < 2) resize = MakePlaneResize(scratch.planes.plane[i], box, flip, interpolation, side);
    ResizePlane(scratch.planes.plane[i], resize, side, scratch, to);
    planes[i] = to;
  }
  if (scratch.planes.count == 3) {
    ToRgb(planes[0], planes[1], planes[2], pixels, row);
  } else {
    for (int i = 0; i < pixels; ++i) std::memset(row + ptrdiff_t{3} * i, planes[0][i], 3);
  }
  // A few huge images are not to fill the memory of every thread for the rest of a run.
  constexpr size_t kMostKept = size_t{32} << 20;
  if (scratch.planes.plane[0].samples.size() > kMostKept) scratch = {};
  return true;
}

}  // namespace dtrain::data
