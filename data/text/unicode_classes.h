// The classes of characters that GPT-2's pre-tokenisation distinguishes: \p{L}, \p{N}, \s (the property White_Space)
// and all others.
#pragma once

#include <array>
#include <cstdint>

namespace dtrain::data {

enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

inline constexpr uint32_t kCodePoints = 0x110000;

// Returns the class of every code point.
const std::array<CharacterClass, kCodePoints>& CharacterClasses();

}  // namespace dtrain::data
