#include "data/formats/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dtrain::data {
namespace {

// Test vectors of RFC 3720, B.4.
TEST(Crc32c, TestVectors) {
  EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283U);
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF').data(), 32), 0x62A8AB43U);
  EXPECT_EQ(Crc32c("", 0), 0U);
}

TEST(Crc32c, PiecesAddUp) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32c(text.data(), cut);
    EXPECT_EQ(Crc32c(text.data() + cut, text.size() - cut, first), Crc32c(text.data(), text.size()));
  }
}

}  // namespace
}  // namespace dtrain::data
