// Converts to RGB last, when only side × side pixels are left.
#include "data/image/jpeg/jpeg_crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "data/image/jpeg/baseline_jpeg.h"
#include "data/image/resample.h"
#include "data/image/vector_clones.h"

namespace dtrain::data {
namespace {

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
  return true;
}

}  // namespace dtrain::data
