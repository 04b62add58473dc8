// The inverse discrete cosine transform of an 8×8 block, in single precision: exact to about 1e-4 of a grey level, and
// the same bits on every machine (no reordering, no fused multiply-add).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// DTRAIN_WITH_AVX2 before a function compiles it twice, with and without AVX2; the loader picks one for the processor.
// It is for functions whose results do not depend on the width of vectors.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define DTRAIN_WITH_AVX2  // ifunc resolvers run before a sanitizer is ready
#endif

namespace dtrain::data {

// The factors of the coefficients, column by column (x·8 + y).
using IdctScales = std::array<float, 64>;

// Makes the factors from a quantisation table in zigzag order.
IdctScales MakeIdctScales(const std::array<uint16_t, 64>& quantisation);

// Transforms `coefficients` (by column) and sets them to zero for the next block. Writes column x of the block, eight
// pixels from top to bottom, to pixels + x·stride.
void InverseDct(int16_t* coefficients, const IdctScales& scales, uint8_t* pixels, ptrdiff_t stride);

// InverseDct for a block in which only the first coefficient is not zero.
void InverseDctOfDc(int16_t* coefficients, const IdctScales& scales, uint8_t* pixels, ptrdiff_t stride);

}  // namespace dtrain::data
