// ITU T.81, annex F.2. A unit (MCU) is the smallest group of blocks with all components.
#include "data/image/jpeg/baseline_jpeg.h"

#include <algorithm>

#include "data/image/jpeg/entropy_tables.h"
#include "data/image/jpeg/idct.h"
#include "data/image/jpeg/scan_pieces.h"

namespace dtrain::data {
namespace {

int DivideUp(int value, int divisor) { return (value + divisor - 1) / divisor; }

// The units from `begin` to before `end`.
struct Range {
  int begin = 0, end = 0;
  bool Has(int i) const { return i >= begin && i < end; }
};

// Memory that a thread reuses for its next image.
struct Memory {
  EntropyTables tables;
  std::vector<ScanPiece> pieces;
  std::vector<uint8_t> clean;
};

class PlanesDecoder {
 public:
  PlanesDecoder(const BaselineHeader& header, const CropBox& box, Planes& planes, Memory& memory)
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
  Memory& memory_;
  BitReader reader_;
  std::array<int, 3> last_dc_{};
  alignas(32) int16_t block_[64] = {};  // all zeros between two blocks
  IdctScales scales_[3];
  int unit_width_ = 0, unit_height_ = 0;  // pixels
  const int across_;                      // width of the image in units
  Range columns_, rows_;                  // units that are wanted
};

}  // namespace

bool DecodePlanes(const BaselineHeader& header, const CropBox& box, Planes& planes) {
  static thread_local Memory memory;
  return PlanesDecoder(header, box, planes, memory).Decode();
}

}  // namespace dtrain::data
