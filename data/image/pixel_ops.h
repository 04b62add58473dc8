// What augmentation does to pixels, operator by operator, as Pillow does it (to the bit where integers allow): so that
// recipes found with torchvision mean the same here. No randomness: see augment_policy.h and photometric.h for that.
#pragma once

#include <cstdint>

namespace dtrain::data {

// RGB, interleaved, rows without gaps.
struct PixelView {
  uint8_t* pixels = nullptr;
  int width = 0, height = 0;
  int count() const { return width * height; }
};

// Factor 1 leaves the image as it is, 0 gives black, a flat grey, grey tones, or a smoothed image.
void AdjustBrightness(PixelView image, double factor);
void AdjustContrast(PixelView image, double factor);
void AdjustSaturation(PixelView image, double factor);
void AdjustSharpness(PixelView image, double factor);

// Turns the colour wheel by `turns` (−0.5 to 0.5).
void AdjustHue(PixelView image, double turns);

void Posterize(PixelView image, int bits);         // keeps the highest bits of each value
void Solarize(PixelView image, double threshold);  // inverts values from the threshold on
void AutoContrast(PixelView image);                // each channel stretched to 0…255
void Equalize(PixelView image);                    // each channel's histogram flattened
void Invert(PixelView image);

// What a pixel between pixels is: the nearest one, or the mean of its four neighbours, weighted and cut to a byte.
enum class Between { kNearest, kBilinear };

// The target's pixel (x, y) is the source's at (a·x + b·y + c, d·x + e·y + f), measured from the corner; black outside.
struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};
void Transform(PixelView image, const AffineMap& map, Between between);
void Rotate(PixelView image, double degrees, Between between);  // counter-clockwise, about the centre

// torchvision's gaussian_blur: a kernel of `size` (odd) by `size`, edges reflected; rounded to whole values.
void GaussianBlur(PixelView image, int size, double sigma);

}  // namespace dtrain::data
