#include "data/image/codecs.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <opencv2/core.hpp>
#include <string>

#include "data/error.h"
#include "data/formats/image_folder.h"
#include "data/formats/little_endian.h"
#include "tests/data/image/encode.h"
#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<uint8_t> BytesOf(std::string_view text) { return {text.begin(), text.end()}; }

std::string ReasonOf(const std::vector<uint8_t>& bytes) {
  return MessageOf([&] { DecodeImage(bytes); });
}

TEST(DecodeImage, CmykIsTakenAsInverted) {
  // In stored samples, 255 means no ink. K is the light, of which each ink takes its part.
  for (const bool ycck : {false, true}) {
    const cv::Mat cmyk(16, 16, CV_8UC4, cv::Scalar(255, 128, 0, 200));
    const auto pixel =
        DecodeImage(EncodeJpeg(cmyk, {.colours = ycck ? "ycck" : "cmyk", .quality = 100})).at<cv::Vec3b>(8, 8);
    EXPECT_NEAR(pixel[0], 200, 3);
    EXPECT_NEAR(pixel[1], 100, 3);
    EXPECT_NEAR(pixel[2], 0, 3);
  }
}

// Other kinds are compared with Pillow in tests/interop/test_image_preprocessing.py.
TEST(DecodeImage, PngOfEachKindIsExact) {
  struct Case {
    const char* name;
    PngOptions options;
    std::vector<uint8_t> row;  // two pixels
    cv::Vec3b first, second;
  };
  for (const Case& c : {
           Case{"RGB, interlaced", {.color_type = 2, .interlaced = true}, {1, 2, 3, 4, 5, 6}, {1, 2, 3}, {4, 5, 6}},
           Case{"16-bit grey", {.bit_depth = 16, .color_type = 0}, {7, 255, 200, 0}, {7, 7, 7}, {200, 200, 200}},
           Case{"16-bit RGB",
                {.bit_depth = 16, .color_type = 2},
                {1, 9, 2, 9, 3, 9, 4, 255, 5, 255, 6, 255},
                {1, 2, 3},
                {4, 5, 6}},
       }) {
    const auto bytes = EncodePng(2, 2, {c.row, c.row}, c.options);
    const cv::Mat image = DecodeImage(bytes);
    ASSERT_EQ(image.size(), cv::Size(2, 2)) << c.name;
    EXPECT_EQ(image.at<cv::Vec3b>(1, 0), c.first) << c.name;
    EXPECT_EQ(image.at<cv::Vec3b>(1, 1), c.second) << c.name;
    for (size_t length = 0; length < bytes.size() - 12; ++length) {  // the end chunk, 12 bytes, has no pixels
      EXPECT_THROW(DecodeImage(std::span(bytes).first(length)), DataError) << c.name << " cut to " << length;
    }
  }
}

TEST(DecodeImage, PnmAndBmp) {
  EXPECT_EQ(DecodeImage(BytesOf(std::string_view("P6 # note\n2 1\n255\nabcdef"))).at<cv::Vec3b>(0, 1),
            cv::Vec3b('d', 'e', 'f'));
  EXPECT_EQ(DecodeImage(BytesOf(std::string_view("P5\n1 2\n15\n\x05\x0f"))).at<cv::Vec3b>(0, 0), cv::Vec3b(85, 85, 85));
  EXPECT_THAT(ReasonOf(BytesOf("P6\n2 1\n255\nabcde")), HasSubstr("truncated"));
  EXPECT_THAT(ReasonOf(BytesOf("P5\n2")), HasSubstr("damaged header"));

  const unsigned char bmp[] = {'B', 'M', 62, 0, 0, 0, 0, 0,  0, 0, 54, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0,
                               0,   2,   0,  0, 0, 1, 0, 24, 0, 0, 0,  0, 0, 8, 0,  0, 0, 0, 0, 0, 0,
                               0,   0,   0,  0, 0, 0, 0, 0,  0, 0, 0,  0, 3, 2, 1,  0, 6, 5, 4, 0};  // bottom row
                                                                                                     // first, BGR
  const std::vector<uint8_t> bytes(std::begin(bmp), std::end(bmp));
  EXPECT_EQ(DecodeImage(bytes).at<cv::Vec3b>(0, 0), cv::Vec3b(4, 5, 6));
  EXPECT_EQ(DecodeImage(bytes).at<cv::Vec3b>(1, 0), cv::Vec3b(1, 2, 3));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(DecodeImage(std::span(bytes).first(length)), DataError) << length;
  }
  std::vector<uint8_t> from_the_top = bytes;  // a height of -2
  std::fill_n(from_the_top.begin() + 22, 4, 0xff);
  from_the_top[22] = 0xfe;
  EXPECT_EQ(DecodeImage(from_the_top).at<cv::Vec3b>(0, 0), cv::Vec3b(1, 2, 3));
}

TEST(DecodeImage, ABmpOfMoreThan2GiBIsRefused) {
  constexpr size_t kBytes = (size_t{1} << 31) + 1;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, "BM", 2);
  EXPECT_THAT(MessageOf([&] {
                DecodeImage({static_cast<const uint8_t*>(memory), kBytes});
              }),
              HasSubstr("more than 2 GiB"));
  munmap(memory, kBytes);
}

TEST(Codecs, AreKnownByNameAndByContent) {
  for (const char* name : {"a.jpg", "a.b.JPEG", "a.tiff", ".png"}) EXPECT_TRUE(IsImage(name)) << name;
  for (const char* name : {"a.SVG", "a.b.svg"}) EXPECT_TRUE(IsUnreadImage(name) && !IsImage(name)) << name;
  for (const char* name : {"jpg", "a.jpgx", "a.", ""}) EXPECT_FALSE(IsUnreadImage(name) || IsImage(name)) << name;
  EXPECT_EQ(FindCodec(BytesOf("P5 1 1"))->extensions.front(), ".pgm");
  EXPECT_EQ(FindCodec(BytesOf("RIFF1234WEBP"))->name, "WebP");
  EXPECT_EQ(FindCodec(BytesOf("RIFF1234WAVE")), nullptr);
}

TEST(DecodeImage, TellsWhyNot) {
  const auto jpeg = EncodeJpeg(TestPicture(64, 64));
  auto twelve_bits = jpeg;
  auto huge = jpeg, hollow = jpeg;
  for (size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0) {  // start of frame: length, precision, height, width
      twelve_bits[i + 4] = 12;
      hollow[i + 5] = hollow[i + 7] = 0x30;                                                         // 12,352
      for (size_t j = 5; j < 9; ++j) huge[i + j] = static_cast<uint8_t>(j % 2 == 1 ? 0xFF : 0xDC);  // 65,500
      break;
    }
  }
  struct Case {
    const char* name;
    std::vector<uint8_t> bytes;
    const char* reason;
  };
  for (const Case& c :
       {Case{"empty", {}, "empty"}, Case{"text", BytesOf("hello, world"), "not an image"},
        Case{"one byte", {0xFF}, "not an image"}, Case{"GIF", BytesOf("GIF89a…"), "GIF"},
        Case{"12 bits", twelve_bits, "12"}, Case{"65,500²", huge, "too large"},
        Case{"12,352²", hollow, "cannot hold 12352×12352"}, Case{"JPEG start only", {0xFF, 0xD8, 0xFF}, "JPEG"},
        Case{"TIFF start only", BytesOf(std::string_view("II*\0", 4)), "TIFF"},
        Case{"WebP start only", BytesOf(std::string_view("RIFF\0\0\0\0WEBPVP8 ", 16)), "WebP"}}) {
    EXPECT_THAT(ReasonOf(c.bytes), HasSubstr(c.reason)) << c.name;
    EXPECT_THROW(ReadImageSize(c.bytes), DataError) << c.name;
  }
}

TEST(DecodeImage, TruncatedJpegIsNoticedWhereverTheRegionLies) {
  for (const bool progressive : {false, true}) {
    const auto bytes = EncodeJpeg(TestPicture(300, 200), {.progressive = progressive});
    for (size_t length = 2; length + 40 < bytes.size(); length += 97) {
      const auto cut = std::span(bytes).first(length);
      EXPECT_THROW(DecodeImage(cut), DataError) << length;
      EXPECT_THROW(DecodeRegion(cut, {0, 0, 50, 20}, {50, 20}), DataError) << length;
    }
  }
}

// As Pillow and torchvision do: the marker is one of a JPEG that libjpeg cannot decode (SOF15).
TEST(DecodeImage, DamageAmongTheRowsOfAJpegIsNoticed) {
  const auto whole = EncodeJpeg(TestPicture(300, 200), {});
  for (const size_t at : {whole.size() / 2, whole.size() - 10}) {
    auto damaged = whole;
    damaged[at] = 0xFF;
    damaged[at + 1] = 0xCF;
    EXPECT_THAT(ReasonOf(damaged), HasSubstr("JPEG: ")) << at;
  }
  auto damaged = whole;
  damaged[whole.size() / 2] = 0xFF;
  damaged[whole.size() / 2 + 1] = 0xCF;
  EXPECT_THROW(DecodeRegion(damaged, {100, 100, 100, 80}, {50, 40}), DataError);
}

TEST(DecodeImage, PngThatCannotHoldItsPixelsIsRefusedBeforeTheyAreAllocated) {
  const std::vector<uint8_t> row(48 * 3, 77);
  auto png = EncodePng(48, 2, {row, row}, {});
  png[18] = png[22] = 0x30;  // 12,336 × 12,290; the header's CRC below
  const uint8_t crc[] = {0x11, 0xDB, 0x26, 0x38};
  std::copy(std::begin(crc), std::end(crc), png.begin() + 29);
  EXPECT_EQ(ReadImageSize(png), (ImageSize{12'336, 12'290}));
  EXPECT_THAT(ReasonOf(png), HasSubstr("truncated"));
}

// Of memory that this process has had.
int64_t MostKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// libpng would allocate and clear the chunk's memory before it reads the bytes that are there.
TEST(DecodeImage, APngChunkThatIsNotThereCostsNoMemory) {
  const std::vector<uint8_t> row(48 * 3, 77);
  const auto png = EncodePng(48, 2, {row, row}, {});
  const auto before = MostKilobytes();
  for (const char* type : {"tEXt", "zTXt", "iTXt", "sPLT", "pCAL", "iCCP", "abCd"}) {
    auto claims = png;
    const std::string chunk = std::string("\x7F\xFF\xFF\xF0", 4) + type + std::string("key\0\0some", 9);
    claims.insert(claims.begin() + 33, chunk.begin(), chunk.end());  // after the header
    EXPECT_THAT(ReasonOf(claims), HasSubstr("truncated")) << type;
  }
  EXPECT_LT(MostKilobytes() - before, 500'000);
}

// A text of fifteen million letters in fifteen thousand bytes, fifty times.
TEST(DecodeImage, TextsOfAPngAreNotInflated) {
  const std::string text(size_t{15} << 20, 'x');
  std::vector<uint8_t> packed(compressBound(text.size()));
  uLongf bytes = packed.size();
  ASSERT_EQ(compress(packed.data(), &bytes, reinterpret_cast<const Bytef*>(text.data()), text.size()), Z_OK);
  std::string body = std::string("zTXtkey\0\0", 9) + std::string(packed.begin(), packed.begin() + bytes), chunk;
  const auto append = [&chunk](uint64_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) chunk += static_cast<char>(value >> shift);
  };
  append(body.size() - 4);
  chunk += body;
  append(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  const std::vector<uint8_t> row(48 * 3, 77);
  auto png = EncodePng(48, 2, {row, row}, {});
  for (int i = 0; i < 50; ++i) png.insert(png.begin() + 33, chunk.begin(), chunk.end());
  const auto before = MostKilobytes();
  EXPECT_EQ(DecodeImage(png).at<cv::Vec3b>(1, 47), cv::Vec3b(77, 77, 77));
  EXPECT_LT(MostKilobytes() - before, 300'000);
}

// libtiff would allocate all samples of a strip, here 16 GB, for a file of 100 bytes.
TEST(DecodeImage, ATiffOfManySamplesAPixelIsRefused) {
  std::string tiff("II*\0\x08\0\0\0\x07\0", 10);
  const auto tag = [&tiff](uint16_t number, uint32_t value) {
    AppendLittleEndian(number, tiff);
    AppendLittleEndian<uint16_t>(4, tiff);  // 32 bits
    AppendLittleEndian<uint32_t>(1, tiff);
    AppendLittleEndian(value, tiff);
  };
  tag(256, 2000);  // width
  tag(257, 2000);  // height
  tag(262, 1);     // grey
  tag(273, 8);     // the strip's place
  tag(277, 4000);  // samples a pixel
  tag(278, 2000);  // rows of the strip
  tag(279, 8);     // bytes of the strip
  AppendLittleEndian<uint32_t>(0, tiff);
  EXPECT_THAT(ReasonOf(BytesOf(tiff)), HasSubstr("TIFF: 4000 samples a pixel"));
}

// A small file may hold as many scans as it likes, each over all pixels.
TEST(DecodeImage, AJpegOfThousandsOfScansIsRefused) {
  std::vector<uint8_t> bytes = EncodeJpeg(TestPicture(64, 48), {.progressive = true});
  constexpr std::array<uint8_t, 2> kStartOfScan = {0xFF, 0xDA};
  const auto last = std::find_end(bytes.begin(), bytes.end(), kStartOfScan.begin(), kStartOfScan.end());
  const std::vector<uint8_t> scan(last, bytes.end() - 2);  // up to the end marker
  for (int i = 0; i < 100; ++i) bytes.insert(bytes.end() - 2, scan.begin(), scan.end());
  EXPECT_EQ(ReasonOf(bytes), "");  // another scan of the same bits does no harm
  for (int i = 0; i < 500; ++i) bytes.insert(bytes.end() - 2, scan.begin(), scan.end());
  EXPECT_THAT(ReasonOf(bytes), HasSubstr("more than 500 scans"));
}

TEST(DecodeRegion, IsNotScaledWhereThatWouldMoveItsEdges) {
  const auto bytes = EncodeJpeg(TestPicture(1000, 800));
  EXPECT_EQ(DecodeRegion(bytes, {101, 0, 800, 800}, {200, 200}).cols, 800);  // an edge on half a pixel
  EXPECT_EQ(DecodeRegion(bytes, {101, 0, 800, 800}, {40, 40}).cols, 200);    // 1/20 of a target pixel: at 1/4
}

TEST(DecodeRegion, IsScaledOnlyWithRoomToSpare) {
  const auto bytes = EncodeJpeg(TestPicture(1000, 800));
  struct Case {
    int target;
    int width;
  };
  for (const Case& c : {Case{401, 800}, Case{201, 800}, Case{200, 400}, Case{100, 200}, Case{50, 100}, Case{10, 100}}) {
    EXPECT_EQ(DecodeRegion(bytes, {96, 0, 800, 800}, {c.target, c.target}).cols, c.width) << c.target;
  }
}

}  // namespace
}  // namespace dtrain::data
