#include "data/image/codecs.h"

#include <algorithm>
#include <cctype>

#include "data/error.h"
#include "data/joined.h"

namespace dtrain::data {

// Each in the file of its format.
extern const Codec kJpeg, kPng, kWebp, kTiff, kBmp, kPpm, kPgm;

namespace {

constexpr int64_t kMostPixels = 178'956'970;
constexpr int64_t kMostJpegPixelsPerByte = 1024;  // one bit for each 8×8 block gives 512; doubled for unusual files

// Known, so that messages name them, but not read. HEIC and AVIF are brands of one container.
const Codec kGif = {"GIF", {".gif"}, {"GIF8"}};
const Codec kAvif = {"AVIF", {".avif"}, {"????ftypavif", "????ftypavis"}};
const Codec kHeic = {"HEIC", {".heic", ".heif"}, {"????ftyphe", "????ftypmif1", "????ftypmsf1"}};
const Codec kUnread = {"other", {".jxl", ".jp2", ".svg", ".tga", ".psd", ".ico", ".raw", ".dng", ".cr2", ".nef"}, {}};

constexpr const Codec* kCodecs[] = {
    // Those that are read, and then those that are not:
    &kJpeg, &kPng, &kWebp, &kTiff, &kBmp, &kPpm, &kPgm, &kGif, &kAvif, &kHeic, &kUnread,
};

// Returns the first of all formats for which `is_it` holds; null if there is none.
template <typename IsIt>
const Codec* FirstCodec(const IsIt& is_it) {
  const auto* const found = std::ranges::find_if(kCodecs, [&](const Codec* codec) { return is_it(*codec); });
  return found == std::end(kCodecs) ? nullptr : *found;
}

bool Fits(Bytes bytes, std::string_view pattern) {
  return bytes.size() >= pattern.size() &&
         std::equal(pattern.begin(), pattern.end(), bytes.begin(),
                    [](char a, uint8_t b) { return a == '?' || static_cast<uint8_t>(a) == b; });
}

const Codec* CodecOfName(std::string_view name) {
  const std::string extension = ExtensionOf(name);
  return FirstCodec([&](const Codec& codec) { return std::ranges::count(codec.extensions, extension) != 0; });
}

// Returns what `text_of` gives for each format that is read, with commas.
template <typename TextOf>
std::string OfThoseRead(const TextOf& text_of) {
  std::vector<std::string_view> texts;
  for (const Codec* codec : kCodecs) {
    if (codec->size != nullptr) texts.push_back(text_of(*codec));
  }
  return Joined(texts);
}

// Returns the format after checking the size in the header.
const Codec& CheckedCodec(Bytes bytes, ImageSize& size) {
  if (bytes.empty()) throw DataError("the file is empty");
  const Codec* codec = FindCodec(bytes);
  if (codec == nullptr) {
    throw DataError("not an image of a known format (" + OfThoseRead([](const Codec& of) { return of.name; }) + ")");
  }
  if (codec->size == nullptr) {
    throw DataError(std::string(codec->name) + " images are not read; convert them, as with " + kConvertImages);
  }
  size = codec->size(bytes);
  RequireSaneSize(size);
  if (codec->require_holds != nullptr) codec->require_holds(size, bytes.size());
  return *codec;
}

}  // namespace

const Codec* FindCodec(Bytes bytes) {
  return FirstCodec([&](const Codec& codec) {
    return std::ranges::any_of(codec.beginnings, [&](std::string_view pattern) { return Fits(bytes, pattern); });
  });
}

std::string ExtensionOf(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  std::string extension(name.substr(dot));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

bool IsImage(std::string_view name) {
  const Codec* codec = CodecOfName(name);
  return codec != nullptr && codec->size != nullptr;
}

bool IsUnreadImage(std::string_view name) {
  const Codec* codec = CodecOfName(name);
  return codec != nullptr && codec->size == nullptr;
}

std::vector<std::string_view> AllImageExtensions() {
  std::vector<std::string_view> extensions;
  for (const Codec* codec : kCodecs) {
    if (codec->size != nullptr) extensions.insert(extensions.end(), codec->extensions.begin(), codec->extensions.end());
  }
  return extensions;
}

std::string ImageExtensions() {
  return OfThoseRead([](const Codec& codec) { return codec.extensions.front(); });
}

void RequireSaneSize(ImageSize size) {
  const std::string text = std::to_string(size.width) + "×" + std::to_string(size.height);
  if (size.width < 1 || size.height < 1) throw DataError("an image of " + text + " pixels");
  if (size.width > kLongestSide || size.height > kLongestSide || int64_t{size.width} * size.height > kMostPixels) {
    throw DataError("an image of " + text + " pixels is too large (at most 178,956,970 pixels, 65,500 a side)");
  }
}

void RequireJpegHolds(ImageSize size, size_t bytes) {
  if (int64_t{size.width} * size.height <= kMostJpegPixelsPerByte * static_cast<int64_t>(bytes)) return;
  throw DataError("a JPEG of " + std::to_string(bytes) + " bytes cannot hold " + std::to_string(size.width) + "×" +
                  std::to_string(size.height) + " pixels");
}

ImageSize ReadImageSize(Bytes bytes) {
  ImageSize size;
  CheckedCodec(bytes, size);
  return size;
}

cv::Mat DecodeImage(Bytes bytes) {
  ImageSize size;
  return CheckedCodec(bytes, size).decode(bytes);
}

cv::Mat DecodeRegion(Bytes bytes, const CropBox& box, ImageSize target) {
  ImageSize size;
  const Codec& codec = CheckedCodec(bytes, size);
  if (codec.decode_region != nullptr) return codec.decode_region(bytes, box, target);
  return codec.decode(bytes)(cv::Rect(box.x, box.y, box.width, box.height));
}

}  // namespace dtrain::data
