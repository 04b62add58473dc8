// Floors and ceilings of products and quotients of numbers that people write with a few decimals. In floating point
// 0.29 · 100 and 55 / (1.1 · 25) are slightly below 29 and 2. So a value within a few rounding errors of a whole number
// counts as that number. The tolerance is relative, so that it suits short runs and long ones.
#pragma once

#include <cmath>

namespace dtrain::optim {

// The relative tolerance. Four rounded operations are off by 4.5e-16 at most, and a quotient of realistic numbers of
// samples that is no whole number is much farther away from one than 2e-15.
inline constexpr double kTolerance = 2e-15;

inline double WholePart(double value) { return std::floor(value * (1 + kTolerance)); }
inline double NextWhole(double value) { return std::ceil(value * (1 - kTolerance)); }

}  // namespace dtrain::optim
