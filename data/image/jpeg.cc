// JPEG through libjpeg-turbo. Throwing through it is safe: it is compiled with unwind tables, and the objects on the
// way are destroyed by RAII.
#include <algorithm>
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

[[noreturn]] void ThrowError(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  (*jpeg->err->format_message)(jpeg, message);
  throw DataError(std::string(jpeg->is_decompressor != 0 ? "JPEG: " : "cannot be written as JPEG: ") + message);
}

// What a reader does about messages, of which -1 is the level of warnings; the others are traces.
void ThrowAtDamage(j_common_ptr jpeg, int level) {
  if (level == -1) ThrowError(jpeg);
}

// Whether libjpeg reads on behind a marker of this kind.
bool IsKnownMarker(int marker) {
  constexpr int kTem = 0x01, kDht = 0xC4, kDac = 0xCC, kSos = 0xDA, kDri = 0xDD, kApp15 = 0xEF;
  return marker <= kTem || marker == kDht || marker == kDac || (marker >= JPEG_RST0 && marker <= JPEG_RST0 + 7) ||
         marker == JPEG_EOI || (marker >= kSos && marker <= kDri) || (marker >= JPEG_APP0 && marker <= kApp15) ||
         marker == JPEG_COM;
}

// After other warnings (stray bytes before a marker, a resynchronised restart) the image is one that Pillow accepts,
// too. Without restarts, a marker that libjpeg would not read on behind is damage within the rows.
void ThrowAtEnd(j_common_ptr jpeg, int level) {
  if (level != -1) return;
  if (jpeg->err->msg_code == JWRN_JPEG_EOF) throw DataError("JPEG: the file is truncated");
  if (jpeg->is_decompressor == 0 || jpeg->err->msg_code != JWRN_HIT_MARKER) return;
  const auto* const from = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (from->restart_interval == 0 && !IsKnownMarker(from->unread_marker)) {
    throw DataError("JPEG: it is damaged: there is an unknown marker among its rows");
  }
}

void LimitScans(j_common_ptr jpeg) {
  if (jpeg->is_decompressor == 0 || reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
  throw DataError("JPEG: more than " + std::to_string(kMostScans) + " scans");
}

class Decompressor : public jpeg_decompress_struct {
 public:
  Decompressor(Bytes jpeg, void (*on_message)(j_common_ptr jpeg, int level)) : jpeg_decompress_struct{} {
    err = jpeg_std_error(&errors_);
    errors_.error_exit = ThrowError;
    errors_.emit_message = on_message;
    progress_.progress_monitor = LimitScans;
    jpeg_create_decompress(this);
    progress = &progress_;
    jpeg_mem_src(this, jpeg.data(), static_cast<unsigned long>(jpeg.size()));
  }
  ~Decompressor() { jpeg_destroy_decompress(this); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

 private:
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
};

class Compressor : public jpeg_compress_struct {
 public:
  Compressor() : jpeg_compress_struct{} {
    err = jpeg_std_error(&errors_);
    errors_.error_exit = ThrowError;
    jpeg_create_compress(this);
    jpeg_mem_dest(this, &buffer_, &bytes_);
  }
  ~Compressor() {
    jpeg_destroy_compress(this);
    std::free(buffer_);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg's
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  std::vector<uint8_t> Finish() {
    jpeg_finish_compress(this);
    return {buffer_, buffer_ + bytes_};
  }

 private:
  jpeg_error_mgr errors_{};
  unsigned char* buffer_ = nullptr;
  unsigned long bytes_ = 0;
};

class JpegReader {
 public:
  explicit JpegReader(Bytes bytes) : bytes_(bytes), jpeg_(bytes, ThrowAtEnd) {
    jpeg_read_header(&jpeg_, TRUE);
    if (jpeg_.data_precision != 8) {
      throw DataError("a JPEG of " + std::to_string(jpeg_.data_precision) + " bits a sample is not supported");
    }
  }

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
  void Start(int divisor) {
    // libjpeg-turbo converts grey to RGB and YCCK to CMYK; CmykRowToRgb converts CMYK to RGB.
    jpeg_.out_color_space = jpeg_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_.scale_num = 1;
    jpeg_.scale_denom = static_cast<unsigned>(divisor);
    jpeg_start_decompress(&jpeg_);
  }

  // Limits decoding to columns around [left, right). Returns the column with which each decoded row begins.
  int CropColumns(int left, int right) {
    const int first = std::max(0, left - kMargin);
    const int end = std::min(right + kMargin, static_cast<int>(jpeg_.output_width));
    if (first == 0 && end == static_cast<int>(jpeg_.output_width)) return 0;
    JDIMENSION offset = static_cast<JDIMENSION>(first), width = static_cast<JDIMENSION>(end - first);
    jpeg_crop_scanline(&jpeg_, &offset, &width);
    return static_cast<int>(offset);
  }

  void ReadRows(int top, int column, cv::Mat& image) {
    const bool cmyk = jpeg_.out_color_space == JCS_CMYK;
    std::vector<uint8_t> line(size_t{jpeg_.output_width} * static_cast<size_t>(jpeg_.output_components));
    JSAMPROW line_start = line.data();
    const uint8_t* wanted = line.data() + ptrdiff_t{column} * jpeg_.output_components;
    const bool check_end = !EndsWithMarker();
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
    // Behind the last row there may be more than the end: what Pillow refuses, too.
    if (jpeg_.output_scanline == jpeg_.output_height) jpeg_finish_decompress(&jpeg_);
  }

  bool EndsWithMarker() const {
    return bytes_.size() >= 2 && bytes_[bytes_.size() - 2] == 0xFF && bytes_.back() == JPEG_EOI;
  }

  const Bytes bytes_;
  Decompressor jpeg_;
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

std::vector<uint8_t> WriteJpeg(const cv::Mat& image, int quality) {
  Compressor to;
  to.image_width = static_cast<JDIMENSION>(image.cols);
  to.image_height = static_cast<JDIMENSION>(image.rows);
  to.input_components = 3;
  to.in_color_space = JCS_RGB;
  jpeg_set_defaults(&to);
  jpeg_set_quality(&to, quality, TRUE);
  to.optimize_coding = TRUE;  // a few percent smaller, decoded as fast
  jpeg_start_compress(&to, TRUE);
  while (to.next_scanline < to.image_height) {
    auto* row = const_cast<JSAMPLE*>(image.ptr<uint8_t>(static_cast<int>(to.next_scanline)));
    jpeg_write_scanlines(&to, &row, 1);
  }
  return to.Finish();
}

std::vector<uint8_t> RewriteAsBaseline(Bytes jpeg) {
  Decompressor from(jpeg, ThrowAtDamage);
  jpeg_read_header(&from, TRUE);
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&from);
  Compressor to;
  jpeg_copy_critical_parameters(&from, &to);
  to.optimize_coding = TRUE;
  jpeg_write_coefficients(&to, coefficients);
  return to.Finish();
}

}  // namespace dtrain::data
