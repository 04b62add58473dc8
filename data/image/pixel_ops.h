// The pixel operators of augmentation. Their results are Pillow's (bit for bit where integers allow it), so that
// recipes tuned with torchvision mean the same here. All of them change the image in place and none is random:
// augment_policy.h and photometric.h draw.
#pragma once

#include <array>
#include <cstdint>

namespace dtrain::data {

// 8-bit RGB, interleaved, no gaps between rows. Does not own the pixels.
struct PixelView {
  uint8_t* pixels = nullptr;
  int width = 0, height = 0;
  int count() const { return width * height; }
};

// Replaces each value by what its channel's table says.
void MapValues(PixelView image, const std::array<std::array<uint8_t, 256>, 3>& tables);

// Blend the image with black (brightness), its mean grey (contrast), its grey tones (saturation) or its smoothed copy
// (sharpness). Factor 1 leaves the image unchanged, 0 gives the other image, and above 1 the difference grows.
void AdjustBrightness(PixelView image, double factor);
void AdjustContrast(PixelView image, double factor);
void AdjustSaturation(PixelView image, double factor);
void AdjustSharpness(PixelView image, double factor);

// Rotates the hue by `turns` of the colour wheel, −0.5 to 0.5.
void AdjustHue(PixelView image, double turns);

void Posterize(PixelView image, int bits);         // keeps the highest `bits` bits of each value
void Solarize(PixelView image, double threshold);  // inverts values that are at least `threshold`
void SolarizeAdd(PixelView image, int added);      // adds to values below 128
void AutoContrast(PixelView image);                // stretches each channel to 0…255
void Equalize(PixelView image);                    // flattens each channel's histogram
void Invert(PixelView image);

using Colour = std::array<uint8_t, 3>;

// How to find a value between pixels: the nearest pixel, the bilinear mean of the four neighbours, or the bicubic one
// of sixteen (a = −1), truncated to a byte.
enum class Between { kNearest, kBilinear, kBicubic };

// The result's pixel (x, y) is the source's at (a·x + b·y + c, d·x + e·y + f). Coordinates are pixels from the upper
// left corner of the image, so that pixel centres lie at halves. Places outside the image get the colour `outside`.
struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};
void Transform(PixelView image, const AffineMap& map, Between between, const Colour& outside = {});
// Counter-clockwise, about the centre.
void Rotate(PixelView image, double degrees, Between between, const Colour& outside = {});

// torchvision's gaussian_blur: a kernel of `size` (odd) by `size`, edges reflected, results rounded to whole values.
void GaussianBlur(PixelView image, int size, double sigma);

}  // namespace dtrain::data
