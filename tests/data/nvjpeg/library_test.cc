#include "data/nvjpeg/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/message_of.h"

namespace dtrain::data::nvjpeg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NvjpegLibrary, IsOfLibTorchsCuda) {
  EXPECT_THAT(LibraryPlaces("/python/torch/lib", 13),
              ElementsAre("libnvjpeg.so.13", "/python/torch/lib/../../nvidia/cu13/lib/libnvjpeg.so.13",
                          "/python/torch/lib/../../nvidia/nvjpeg/lib/libnvjpeg.so.13"));
  EXPECT_EQ(LibraryPlaces("", 12).front(), "libnvjpeg.so.12");
}

TEST(NvjpegLibrary, WhatIsMissingIsNamed) {
  const std::string none = MessageOf([] { LoadLibrary({"/none/one.so", "/none/two.so"}); });
  EXPECT_THAT(none, HasSubstr("/none/one.so"));
  EXPECT_THAT(none, HasSubstr("/none/two.so"));
  EXPECT_THAT(MessageOf([] { LoadLibrary({"/none/one.so", "libm.so.6"}); }), HasSubstr("nvjpegCreateEx"));
}

TEST(NvjpegLibrary, TheRealOneHasAllThatIsAskedFor) {
  if (!std::filesystem::exists(NVJPEG_LIBRARY))
    GTEST_SKIP()
        << "only nvJPEG's header is here: pip install nvidia-nvjpeg, which scripts/setup.sh does where nvcc is";
  const Library library = LoadLibrary({NVJPEG_LIBRARY});
  nvjpegJpegStream_t stream = nullptr;
  EXPECT_EQ(library.JpegStreamCreate(nullptr, &stream), NVJPEG_STATUS_INVALID_PARAMETER);  // it is the real function
}

}  // namespace
}  // namespace dtrain::data::nvjpeg
