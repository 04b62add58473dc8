// Resizing planes, antialiased as Pillow and torchvision do it: each target sample is a weighted mean of the source
// samples under its filter, widened where the image shrinks. Integers throughout: the same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/image/interpolation.h"

namespace dtrain::data {

// The weights along one axis: target sample i is the sum over t < taps of weights[i·taps + t] · source[first[i] + t],
// in units of 2^-14.
struct ResampleWeights {
  int taps = 0;  // even
  std::vector<int> first;
  std::vector<int16_t> weights;
};

// Resizes the span [begin, begin + length) of a source of `available` samples to `target` samples; begin and length
// need not be whole. `mirror` turns the result round. Samples outside of [floor(begin), ceil(begin + length)) do not
// contribute. `density` is samples a pixel: below 1 (subsampled colour) the result is as smooth as if the source had
// first been brought to the density of pixels by interpolation.
ResampleWeights MakeResampleWeights(double begin, double length, int available, int target, Interpolation interpolation,
                                    bool mirror, double density = 1);

// One axis: to[i][j] = Σ weight · from[first[i] + t][j] for j < row_length, rounded and clamped. Rows are `from_stride`
// and `to_stride` apart; a row beyond the last is never read.
void ResampleRows(const uint8_t* from, int from_rows, ptrdiff_t from_stride, int row_length,
                  const ResampleWeights& weights, uint8_t* to, ptrdiff_t to_stride);

// to[x][y] = from[y][x]
void TransposeBytes(const uint8_t* from, int rows, int columns, ptrdiff_t from_stride, uint8_t* to,
                    ptrdiff_t to_stride);

}  // namespace dtrain::data
