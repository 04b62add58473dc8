// What GPT-2's pre-tokenisation tells apart: \p{L}, \p{N}, \s (the property White_Space) and all the rest.
#pragma once

#include <array>
#include <cstdint>

namespace dtrain::data {

enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

inline constexpr uint32_t kCodePoints = 0x110000;

// By code point.
const std::array<CharacterClass, kCodePoints>& CharacterClasses();

}  // namespace dtrain::data
