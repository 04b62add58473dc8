// Floors and ceilings of products and quotients of numbers that people write with a few decimals. Floating point gives
// 0.3 · 1,000 a last digit too few and 55 / (1.1 · 25) one too few as well: what is within a few rounding errors of a
// whole number counts as that number. Relative, so that it holds for the steps of the shortest and the longest run.
#pragma once

#include <cmath>

namespace dtrain::optim {

// Four operations err by 4.5e-16 at most; the nearest that a fraction comes to a whole number without being it is much
// farther away, for all that counts samples in 64 bits' doubles.
inline constexpr double kHairsBreadth = 2e-15;

inline double WholePart(double value) { return std::floor(value * (1 + kHairsBreadth)); }
inline double NextWhole(double value) { return std::ceil(value * (1 - kHairsBreadth)); }

}  // namespace dtrain::optim
