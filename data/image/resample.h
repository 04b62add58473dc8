// Resizes planes of bytes, antialiased as in Pillow and torchvision: each target sample is a weighted mean of the
// source samples under its filter, which is widened if the image shrinks. The arithmetic is in integers, so the bits
// are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dtrain::data {

// The filters that images are resized with.
enum class Interpolation { kBilinear, kBicubic };

// Parses --interpolation. Throws std::invalid_argument for any other word.
Interpolation InterpolationFromName(std::string_view name);  // bilinear | bicubic

// The weights along one axis: target sample i is the sum over t < taps of weights[i·taps + t] · source[first[i] + t],
// in units of 2^-14.
struct ResampleWeights {
  int taps = 0;  // even
  std::vector<int> first;
  std::vector<int16_t> weights;
};

// Returns the weights that resize the span [begin, begin + length) of a source of `available` samples to `target`
// samples; begin and length need not be whole. `mirror` reverses the result. Samples outside of [floor(begin),
// ceil(begin + length)) do not contribute. `density` is the number of samples per pixel: if it is below 1 (subsampled
// colour), the result is as smooth as if the source had first been interpolated to one sample per pixel.
ResampleWeights MakeResampleWeights(double begin, double length, int available, int target, Interpolation interpolation,
                                    bool mirror, double density = 1);

// Resizes one axis: to[i][j] = Σ weight · from[first[i] + t][j] for j < row_length, rounded and clamped. Strides are in
// bytes. Rows at or beyond from_rows are not read.
void ResampleRows(const uint8_t* from, int from_rows, ptrdiff_t from_stride, int row_length,
                  const ResampleWeights& weights, uint8_t* to, ptrdiff_t to_stride);

// to[x][y] = from[y][x]
void TransposeBytes(const uint8_t* from, int rows, int columns, ptrdiff_t from_stride, uint8_t* to,
                    ptrdiff_t to_stride);

}  // namespace dtrain::data
