// Resizes along the rows only, so that a whole row is computed at once; the caller transposes for the other axis.
#include "data/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace dtrain::data {
namespace {

constexpr int kWeightBits = 14;
constexpr double kCubicA = -0.5;  // Keys's a, as in Pillow and torchvision's antialiased bicubic

double Filter(double x, Interpolation interpolation) {
  x = std::abs(x);
  if (interpolation == Interpolation::kBilinear) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((kCubicA + 2) * x - (kCubicA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kCubicA;
  return 0;
}

// Rounds weights so that they add up to exactly 1 and a flat area stays as it is.
void StoreWeights(const std::vector<double>& weights, int16_t* to) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  if (sum == 0) {  // the only sample lies just outside the filter
    to[0] = 1 << kWeightBits;
    return;
  }
  int left = 1 << kWeightBits;
  size_t largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto rounded = static_cast<int>(std::floor(weights[i] / sum * (1 << kWeightBits) + 0.5));
    to[i] = static_cast<int16_t>(rounded);
    left -= rounded;
    if (weights[i] > weights[largest]) largest = i;
  }
  to[largest] = static_cast<int16_t>(to[largest] + left);
}

uint8_t ToByte(int sum) {
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
}

#if defined(__SSE2__)
const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;

// Computes sixteen samples of a target row. Pairs of source rows are interleaved, so that one instruction multiplies
// and adds both.
void SixteenSamples(const uint8_t* const* rows, const int16_t* weights, int taps, int at, uint8_t* to) {
  const __m128i zero = _mm_setzero_si128();
  __m128i sum0 = _mm_set1_epi32(1 << (kWeightBits - 1)), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int t = 0; t < taps; t += 2) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[t] + at));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[t + 1] + at));
    const __m128i low = _mm_unpacklo_epi8(first, second), high = _mm_unpackhi_epi8(first, second);
    int pair = 0;
    std::memcpy(&pair, weights + t, sizeof pair);
    const __m128i weight = _mm_set1_epi32(pair);
    sum0 = _mm_add_epi32(sum0, _mm_madd_epi16(_mm_unpacklo_epi8(low, zero), weight));
    sum1 = _mm_add_epi32(sum1, _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), weight));
    sum2 = _mm_add_epi32(sum2, _mm_madd_epi16(_mm_unpacklo_epi8(high, zero), weight));
    sum3 = _mm_add_epi32(sum3, _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), weight));
  }
  const __m128i left = _mm_packs_epi32(_mm_srai_epi32(sum0, kWeightBits), _mm_srai_epi32(sum1, kWeightBits));
  const __m128i right = _mm_packs_epi32(_mm_srai_epi32(sum2, kWeightBits), _mm_srai_epi32(sum3, kWeightBits));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), _mm_packus_epi16(left, right));
}

// SixteenSamples for 32 samples. Unpacking and packing both work within each half of a register, so the order is kept.
__attribute__((target("avx2"))) void ThirtyTwoSamples(const uint8_t* const* rows, const int16_t* weights, int taps,
                                                      int at, uint8_t* to) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i sum0 = _mm256_set1_epi32(1 << (kWeightBits - 1)), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int t = 0; t < taps; t += 2) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[t] + at));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[t + 1] + at));
    const __m256i low = _mm256_unpacklo_epi8(first, second), high = _mm256_unpackhi_epi8(first, second);
    int pair = 0;
    std::memcpy(&pair, weights + t, sizeof pair);
    const __m256i weight = _mm256_set1_epi32(pair);
    sum0 = _mm256_add_epi32(sum0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weight));
    sum1 = _mm256_add_epi32(sum1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weight));
    sum2 = _mm256_add_epi32(sum2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weight));
    sum3 = _mm256_add_epi32(sum3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weight));
  }
  const __m256i left = _mm256_packs_epi32(_mm256_srai_epi32(sum0, kWeightBits), _mm256_srai_epi32(sum1, kWeightBits));
  const __m256i right = _mm256_packs_epi32(_mm256_srai_epi32(sum2, kWeightBits), _mm256_srai_epi32(sum3, kWeightBits));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), _mm256_packus_epi16(left, right));
}

void TransposeBlock(const uint8_t* from, ptrdiff_t from_stride, uint8_t* to, ptrdiff_t to_stride) {
  __m128i rows[16], next[16];
  for (int i = 0; i < 16; ++i) rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
  for (int round = 0; round < 4; ++round) {  // four perfect shuffles of sixteen rows transpose them
    for (size_t i = 0; i < 8; ++i) {
      next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
      next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
    }
    std::memcpy(rows, next, sizeof rows);
  }
  for (int i = 0; i < 16; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * to_stride), rows[i]);
}
#endif

}  // namespace

Interpolation InterpolationFromName(std::string_view name) {
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "bicubic") return Interpolation::kBicubic;
  throw std::invalid_argument("interpolation is bilinear or bicubic, not '" + std::string(name) + "'");
}

ResampleWeights MakeResampleWeights(double begin, double length, int available, int target, Interpolation interpolation,
                                    bool mirror, double density) {
  const double scale = length / target;
  // Interpolating to full density first would be a triangle filter of its own; the variances of both filters add up.
  const double widening = density < 1 ? std::hypot(1.0, std::max(scale, density)) : std::max(scale, 1.0);
  const double support = (interpolation == Interpolation::kBilinear ? 1.0 : 2.0) * widening;
  const int lowest = std::clamp(static_cast<int>(std::floor(begin)), 0, available - 1);
  const int highest = std::clamp(static_cast<int>(std::ceil(begin + length)), lowest + 1, available);

  ResampleWeights result;
  result.taps = 2 * static_cast<int>(std::ceil(support)) + 2;
  result.first.resize(static_cast<size_t>(target));
  result.weights.assign(static_cast<size_t>(target) * result.taps, 0);
  std::vector<double> weights;
  int most = 1;
  for (int i = 0; i < target; ++i) {
    const double centre = begin + (i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(centre - support + 0.5)), lowest, highest - 1);
    const int end = std::clamp(static_cast<int>(std::floor(centre + support + 0.5)), first + 1, highest);
    weights.clear();
    for (int source = first; source < end; ++source) {
      weights.push_back(Filter((source + 0.5 - centre) / widening, interpolation));
    }
    const int place = mirror ? target - 1 - i : i;
    result.first[static_cast<size_t>(place)] = first;
    StoreWeights(weights, result.weights.data() + static_cast<ptrdiff_t>(place) * result.taps);
    most = std::max(most, end - first);
  }
  const int taps = most + most % 2;
  for (int i = 0; i < target; ++i) {
    std::memmove(result.weights.data() + static_cast<ptrdiff_t>(i) * taps,
                 result.weights.data() + static_cast<ptrdiff_t>(i) * result.taps, sizeof(int16_t) * taps);
  }
  result.taps = taps;
  return result;
}

void ResampleRows(const uint8_t* from, int from_rows, ptrdiff_t from_stride, int row_length,
                  const ResampleWeights& weights, uint8_t* to, ptrdiff_t to_stride) {
  std::vector<const uint8_t*> rows(static_cast<size_t>(weights.taps));
  for (size_t i = 0; i < weights.first.size(); ++i, to += to_stride) {
    for (int t = 0; t < weights.taps; ++t) {
      // Taps beyond the last row have weight 0.
      rows[static_cast<size_t>(t)] = from + std::min(weights.first[i] + t, from_rows - 1) * from_stride;
    }
    const int16_t* row_weights = weights.weights.data() + static_cast<ptrdiff_t>(i) * weights.taps;
    int at = 0;
#if defined(__SSE2__)
    if (kHasAvx2) {
      for (; at + 32 <= row_length; at += 32) ThirtyTwoSamples(rows.data(), row_weights, weights.taps, at, to);
    }
    for (; at + 16 <= row_length; at += 16) SixteenSamples(rows.data(), row_weights, weights.taps, at, to);
    if (row_length >= 16 && at < row_length) {  // the last sixteen, some of which are computed twice
      SixteenSamples(rows.data(), row_weights, weights.taps, row_length - 16, to);
      continue;
    }
#endif
    for (; at < row_length; ++at) {
      int sum = 0;
      for (int t = 0; t < weights.taps; ++t) sum += row_weights[t] * rows[static_cast<size_t>(t)][at];
      to[at] = ToByte(sum);
    }
  }
}

void TransposeBytes(const uint8_t* from, int rows, int columns, ptrdiff_t from_stride, uint8_t* to,
                    ptrdiff_t to_stride) {
  int row = 0;
#if defined(__SSE2__)
  for (; row + 16 <= rows; row += 16) {
    int column = 0;
    for (; column + 16 <= columns; column += 16) {
      TransposeBlock(from + row * from_stride + column, from_stride, to + column * to_stride + row, to_stride);
    }
    for (; column < columns; ++column) {
      for (int i = row; i < row + 16; ++i) to[column * to_stride + i] = from[i * from_stride + column];
    }
  }
#endif
  for (; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) to[column * to_stride + row] = from[row * from_stride + column];
  }
}

}  // namespace dtrain::data
