// JPEG through libjpeg-turbo. Errors leave libjpeg by longjmp, so each call into it is made in a lambda that creates no
// objects with destructors; memory is owned outside the lambdas.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// clang-format off: jpeglib.h needs size_t and FILE from <cstdio>
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include "data/error.h"
#include "data/image/codecs.h"
#include "data/image/exif_orientation.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

// A scaled IDCT loses fine detail that the resize would still have used, and moves the edges of the box to whole scaled
// pixels. If at least this many scaled pixels are left for each target pixel, and the edges move by at most this part
// of a target pixel, the mean difference to a full decode stays within 2/255 even for images with a lot of detail.
constexpr int kScaledPixelsPerTarget = 2;
constexpr double kMostShift = 1.0 / 16;

// More scans than any encoder writes; a file made of thousands of them would decode for minutes.
constexpr int kMostScans = 500;

// Rows and columns decoded beyond a region, so that chroma upsampling at its edges sees its true neighbours.
constexpr int kMargin = 2;

int DivideRounded(int value, int divisor) { return (value + divisor / 2) / divisor; }

// Returns whether a span of `length` pixels from `begin` may be decoded at 1/divisor if it is resized to `target`
// pixels.
bool MayScale(int begin, int length, int target, int divisor) {
  if (length < divisor * kScaledPixelsPerTarget * target) return false;
  const double most_shift = kMostShift * length / target;  // source pixels
  for (const int edge : {begin, begin + length}) {
    if (std::abs(DivideRounded(edge, divisor) * divisor - edge) > most_shift) return false;
  }
  return true;
}

// Returns a·b/255, rounded as Pillow does.
uint8_t MultiplyDivide255(int a, int b) {
  const int product = a * b + 128;
  return static_cast<uint8_t>(((product >> 8) + product) >> 8);
}

// The samples of an Adobe CMYK file are inverted (255: no ink). Like Pillow, treats every CMYK JPEG as such a file.
void CmykRowToRgb(const uint8_t* cmyk, int width, uint8_t* rgb) {
  for (int i = 0; i < width; ++i, cmyk += 4, rgb += 3) {
    const int light = cmyk[3];
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>(light - MultiplyDivide255(255 - cmyk[c], light));
  }
}

class JpegReader {
 public:
  explicit JpegReader(Bytes bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = OnError;
    errors_.base.emit_message = OnMessage;
    progress_.progress_monitor = OnProgress;
    Guard([this] {
      jpeg_create_decompress(&jpeg_);
      jpeg_.progress = &progress_;
      jpeg_mem_src(&jpeg_, bytes_.data(), static_cast<unsigned long>(bytes_.size()));
      jpeg_read_header(&jpeg_, TRUE);
    });
    if (jpeg_.data_precision != 8) {
      throw DataError("a JPEG of " + std::to_string(jpeg_.data_precision) + " bits a sample is not supported");
    }
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  ImageSize size() const { return {static_cast<int>(jpeg_.image_width), static_cast<int>(jpeg_.image_height)}; }

  // Returns whether crops and scaled images can be trusted. For unusual sampling factors (4×2, 1×1, 1×1, as `cjpeg
  // -sample 4x2` writes), libjpeg-turbo silently gives other pixels for some crops.
  bool IsUsuallySampled() const {
    for (int i = 0; i < jpeg_.num_components; ++i) {
      const jpeg_component_info& component = jpeg_.comp_info[i];
      const int most = i == 0 ? 2 : 1;
      if (component.h_samp_factor > most || component.v_samp_factor > most) return false;
    }
    return true;
  }

  cv::Mat Decode(const CropBox& box, int divisor) {
    Start(divisor);
    const int out_width = static_cast<int>(jpeg_.output_width), out_height = static_cast<int>(jpeg_.output_height);
    const int left = std::min(DivideRounded(box.x, divisor), out_width - 1);
    const int top = std::min(DivideRounded(box.y, divisor), out_height - 1);
    const int right = std::clamp(DivideRounded(box.x + box.width, divisor), left + 1, out_width);
    const int bottom = std::clamp(DivideRounded(box.y + box.height, divisor), top + 1, out_height);
    const int first_column = CropColumns(left, right);
    cv::Mat image(bottom - top, right - left, CV_8UC3);
    ReadRows(top, left - first_column, image);
    return image;
  }

 private:
  struct Errors {
    jpeg_error_mgr base{};
    std::jmp_buf jump{};
    char message[JMSG_LENGTH_MAX] = "";
  };

  // Frees what libjpeg allocated, also when the constructor of the reader throws.
  struct Decompressor : jpeg_decompress_struct {
    ~Decompressor() { jpeg_destroy_decompress(this); }
  };

  static void OnError(j_common_ptr jpeg) {
    auto* errors = reinterpret_cast<Errors*>(jpeg->err);
    jpeg->err->format_message(jpeg, errors->message);
    std::longjmp(errors->jump, 1);
  }
  static void OnMessage(j_common_ptr jpeg, int level) {
    if (level != -1) return;  // a trace message
    // After other warnings (stray bytes before a marker, a resynchronised restart) the image is one that Pillow
    // accepts, too.
    if (jpeg->err->msg_code == JWRN_JPEG_EOF) {
      auto* errors = reinterpret_cast<Errors*>(jpeg->err);
      std::snprintf(errors->message, sizeof errors->message, "the file is truncated");
      std::longjmp(errors->jump, 1);
    }
  }
  static void OnProgress(j_common_ptr jpeg) {
    if (!jpeg->is_decompressor || reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
    auto* errors = reinterpret_cast<Errors*>(jpeg->err);
    std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kMostScans);
    std::longjmp(errors->jump, 1);
  }

  // Runs calls into libjpeg. They must not create objects with destructors.
  template <typename Calls>
  void Guard(const Calls& calls) {
    if (setjmp(errors_.jump) != 0) Fail();
    calls();
  }
  [[noreturn]] void Fail() {
    const std::string reason = std::string("JPEG: ") + errors_.message;
    throw DataError(reason);
  }

  void Start(int divisor) {
    // libjpeg-turbo converts grey to RGB and YCCK to CMYK; CmykRowToRgb converts CMYK to RGB.
    jpeg_.out_color_space = jpeg_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_.scale_num = 1;
    jpeg_.scale_denom = static_cast<unsigned>(divisor);
    Guard([this] { jpeg_start_decompress(&jpeg_); });
  }

  // Limits decoding to columns around [left, right). Returns the column with which each decoded row begins.
  int CropColumns(int left, int right) {
    const int first = std::max(0, left - kMargin);
    const int end = std::min(right + kMargin, static_cast<int>(jpeg_.output_width));
    if (first == 0 && end == static_cast<int>(jpeg_.output_width)) return 0;
    JDIMENSION offset = static_cast<JDIMENSION>(first), width = static_cast<JDIMENSION>(end - first);
    Guard([&] { jpeg_crop_scanline(&jpeg_, &offset, &width); });
    return static_cast<int>(offset);
  }

  void ReadRows(int top, int column, cv::Mat& image) {
    const bool cmyk = jpeg_.out_color_space == JCS_CMYK;
    std::vector<uint8_t> line(size_t{jpeg_.output_width} * static_cast<size_t>(jpeg_.output_components));
    JSAMPROW line_start = line.data();
    const uint8_t* wanted = line.data() + ptrdiff_t{column} * jpeg_.output_components;
    const bool check_end = !EndsWithMarker();
    Guard([&] {
      const int first_row = std::max(0, top - kMargin);
      if (first_row > 0) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(first_row));
      for (int row = first_row - top; row < image.rows; ++row) {
        jpeg_read_scanlines(&jpeg_, &line_start, 1);
        if (row < 0) continue;
        if (cmyk) {
          CmykRowToRgb(wanted, image.cols, image.ptr<uint8_t>(row));
        } else {
          std::copy_n(wanted, 3 * image.cols, image.ptr<uint8_t>(row));
        }
      }
      // Whether a file counts as truncated must not depend on the region. If the file does not end with an EOI marker,
      // also decodes the last row (libjpeg reads nothing for rows that are skipped up to the end).
      const JDIMENSION rest = jpeg_.output_height - jpeg_.output_scanline;
      if (check_end && rest > 1) jpeg_skip_scanlines(&jpeg_, rest - 1);
      if (check_end && rest > 0) jpeg_read_scanlines(&jpeg_, &line_start, 1);
    });
  }

  bool EndsWithMarker() const {
    return bytes_.size() >= 2 && bytes_[bytes_.size() - 2] == 0xFF && bytes_.back() == JPEG_EOI;
  }

  Bytes bytes_;
  Errors errors_;
  jpeg_progress_mgr progress_{};
  Decompressor jpeg_{};
};

int JpegOrientation(Bytes bytes) {
  constexpr uint8_t kApp1 = 0xE1, kScan = 0xDA;
  for (size_t at = 2; at + 4 <= bytes.size() && bytes[at] == 0xFF && bytes[at + 1] != kScan;) {
    if (bytes[at + 1] == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    const size_t length = std::max(2, bytes[at + 2] << 8 | bytes[at + 3]);
    const Bytes segment = bytes.subspan(at + 4, std::min(length - 2, bytes.size() - at - 4));
    if (bytes[at + 1] == kApp1 && AsText(segment).starts_with(kExif)) return OrientationInExif(segment);
    at += 2 + length;
  }
  return kUpright;
}

ImageSize JpegSize(Bytes bytes) { return JpegReader(bytes).size(); }

cv::Mat DecodeJpeg(Bytes bytes) {
  JpegReader reader(bytes);
  return reader.Decode({0, 0, reader.size().width, reader.size().height}, 1);
}

cv::Mat DecodeJpegRegion(Bytes bytes, const CropBox& box, ImageSize target) {
  JpegReader reader(bytes);
  if (!reader.IsUsuallySampled()) {
    const cv::Mat whole = reader.Decode({0, 0, reader.size().width, reader.size().height}, 1);
    return whole(cv::Rect(box.x, box.y, box.width, box.height));
  }
  int divisor = 8;
  while (divisor > 1 &&
         !(MayScale(box.x, box.width, target.width, divisor) && MayScale(box.y, box.height, target.height, divisor))) {
    divisor /= 2;
  }
  return reader.Decode(box, divisor);
}

}  // namespace

extern const Codec kJpeg = {.name = "JPEG",
                            .extensions = {".jpg", ".jpeg"},
                            .beginnings = {"\xFF\xD8\xFF"},
                            .size = JpegSize,
                            .decode = DecodeJpeg,
                            .orientation = JpegOrientation,
                            .decode_region = DecodeJpegRegion,
                            .require_holds = RequireJpegHolds};

}  // namespace dtrain::data
