// The factorisation of Arai, Agui and Nakajima ("A fast DCT-SQ scheme for images", Trans. IEICE, 1988): all but five
// multiplications of a pass are merged into the scales, together with the quantisation. Eight columns are done at once.
#include "data/image/jpeg/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace dtrain::data {
namespace {

using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));
using Shorts = int16_t __attribute__((vector_size(16)));

constexpr float kSqrt2 = std::numbers::sqrt2_v<float>;
constexpr float kTwoCos1 = 1.847759065F;      // 2·cos(π/8)
constexpr float kDifference1 = 1.082392200F;  // 2·(cos(π/8) − cos(3π/8))
constexpr float kSum1 = 2.613125930F;         // 2·(cos(π/8) + cos(3π/8))

// One pass over v[0…7], in place.
[[gnu::always_inline]] inline void Pass(Floats* v) {
  // Even frequencies.
  const Floats sum04 = v[0] + v[4], difference04 = v[0] - v[4];
  const Floats sum26 = v[2] + v[6], rotated26 = (v[2] - v[6]) * kSqrt2 - sum26;
  const Floats even0 = sum04 + sum26, even3 = sum04 - sum26;
  const Floats even1 = difference04 + rotated26, even2 = difference04 - rotated26;
  // Odd frequencies.
  const Floats sum17 = v[1] + v[7], difference17 = v[1] - v[7];
  const Floats sum53 = v[5] + v[3], difference53 = v[5] - v[3];
  const Floats rotation = (difference53 + difference17) * kTwoCos1;
  const Floats odd0 = sum17 + sum53;
  const Floats odd1 = rotation - difference53 * kSum1 - odd0;
  const Floats odd2 = (sum17 - sum53) * kSqrt2 - odd1;
  const Floats odd3 = rotation - difference17 * kDifference1 - odd2;
  v[0] = even0 + odd0, v[7] = even0 - odd0;
  v[1] = even1 + odd1, v[6] = even1 - odd1;
  v[2] = even2 + odd2, v[5] = even2 - odd2;
  v[3] = even3 + odd3, v[4] = even3 - odd3;
}

[[gnu::always_inline]] inline void Transpose(Floats* v) {
  Floats a[8], b[8];
  for (size_t i = 0; i < 4; ++i) {  // pairs of rows
    a[2 * i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[2 * i + 1] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {  // columns j and j + 4 of four rows
    b[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    b[i + 2] = __builtin_shufflevector(a[i + 1], a[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    b[i + 3] = __builtin_shufflevector(a[i + 1], a[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int j = 0; j < 4; ++j) {
    v[j] = __builtin_shufflevector(b[j], b[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    v[j + 4] = __builtin_shufflevector(b[j], b[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

#if defined(__SSE2__)
// Stores two columns of the block. Packing saturates, so no clamp is needed.
[[gnu::always_inline]] inline void StoreColumns(Floats first, Floats second, uint8_t* pixels, ptrdiff_t stride) {
  const auto to_shorts = [](Floats values) {
    const Ints whole = __builtin_convertvector(values + 128.5F, Ints);
    __m128i halves[2];
    std::memcpy(halves, &whole, sizeof halves);
    return _mm_packs_epi32(halves[0], halves[1]);
  };
  const __m128i bytes = _mm_packus_epi16(to_shorts(first), to_shorts(second));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(pixels), bytes);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(pixels + stride), _mm_unpackhi_epi64(bytes, bytes));
}
#else
inline void StoreColumns(Floats first, Floats second, uint8_t* pixels, ptrdiff_t stride) {
  for (int y = 0; y < 8; ++y) {
    pixels[y] = static_cast<uint8_t>(std::clamp(first[y] + 128.5F, 0.0F, 255.0F));
    pixels[stride + y] = static_cast<uint8_t>(std::clamp(second[y] + 128.5F, 0.0F, 255.0F));
  }
}
#endif

// Returns the factors of the factorisation, by column.
std::array<double, 64> MakeFactors() {
  const auto factor = [](size_t frequency) {
    return frequency == 0 ? 1.0
                          : std::numbers::sqrt2 * std::cos(static_cast<double>(frequency) * std::numbers::pi / 16);
  };
  std::array<double, 64> factors;
  for (size_t place = 0; place < 64; ++place) factors[place] = factor(place / 8) * factor(place % 8);
  return factors;
}

}  // namespace

IdctScales MakeIdctScales(const std::array<uint16_t, 64>& quantisation) {
  static const std::array<double, 64> factors = MakeFactors();
  IdctScales scales;
  for (size_t k = 0; k < 64; ++k) {
    const size_t place = kZigzagByColumn[k];
    scales[place] = static_cast<float>(quantisation[k] * factors[place] / 8);
  }
  return scales;
}

DTRAIN_WITH_AVX2
void InverseDct(int16_t* coefficients, const IdctScales& scales, uint8_t* pixels, ptrdiff_t stride) {
  Floats columns[8];  // [x]: the eight vertical frequencies of horizontal frequency x
  for (size_t x = 0; x < 8; ++x) {
    Shorts raw;
    Floats scale;
    std::memcpy(&raw, coefficients + 8 * x, sizeof raw);
    std::memcpy(&scale, scales.data() + 8 * x, sizeof scale);
    const Shorts zeros = {};
    std::memcpy(coefficients + 8 * x, &zeros, sizeof zeros);
    columns[x] = __builtin_convertvector(__builtin_convertvector(raw, Ints), Floats) * scale;
  }
  Pass(columns);  // over x: lanes are vertical frequencies
  Transpose(columns);
  Pass(columns);  // over y: lanes are x
  Transpose(columns);
  for (int x = 0; x < 8; x += 2) StoreColumns(columns[x], columns[x + 1], pixels + x * stride, stride);
}

void InverseDctOfDc(int16_t* coefficients, const IdctScales& scales, uint8_t* pixels, ptrdiff_t stride) {
  const float value = static_cast<float>(coefficients[0]) * scales[0] + 128.5F;
  coefficients[0] = 0;
  const int pixel = static_cast<int>(value < 0 ? 0 : value > 255 ? 255 : value);
  for (int x = 0; x < 8; ++x) std::memset(pixels + x * stride, pixel, 8);
}

}  // namespace dtrain::data
