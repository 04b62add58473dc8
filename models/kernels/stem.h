// Rearranges images for the first convolution of a network, which has three input channels, a large kernel and stride
// 2: the four pixels of each 2×2 square become channels of one pixel. The same convolution then has stride 1, half the
// kernel's size and 16 channels, for which GPUs have much faster kernels. (MLPerf's submissions call it
// space-to-depth.)
#pragma once

#include <cstdint>

#include "models/kernels/channels_last.h"

namespace dtrain::models::kernels {

// Channel c of the pixel in row dy and column dx of a square becomes channel (2 dy + dx) · 4 + c.
constexpr int kImageChannels = 3, kSquareChannels = 4, kSquare = 2;
constexpr int kDepthChannels = kSquare * kSquare * kSquareChannels;

struct SpaceToDepthArguments {
  const void* from;  // images × height × width × kImageChannels
  void* to;  // images × Height() × Width() × kDepthChannels, aligned to 16 bytes; channels without a pixel are zero
  int64_t images;
  int height, width;
  int taps;  // height and width of the new kernel

  // There are zeros around the squares, as many as the convolution reads beyond the image.
  DTRAIN_HOST_DEVICE int Before() const { return taps / 2; }
  DTRAIN_HOST_DEVICE int Height() const { return (height + 1) / kSquare + taps - 1; }
  DTRAIN_HOST_DEVICE int Width() const { return (width + 1) / kSquare + taps - 1; }
  DTRAIN_HOST_DEVICE int64_t Threads() const { return images * Height() * Width(); }
};

// Each thread writes one pixel of the result.
template <typename T>
DTRAIN_HOST_DEVICE void SpaceToDepthThread(const SpaceToDepthArguments& arguments, int64_t thread) {
  if (thread >= arguments.Threads()) return;
  const auto number = static_cast<unsigned>(thread), width = static_cast<unsigned>(arguments.Width());
  const unsigned line = number / width, height = static_cast<unsigned>(arguments.Height());
  const int column = static_cast<int>(number - line * width) - arguments.Before();
  const int64_t image = line / height;
  const int row = static_cast<int>(line % height) - arguments.Before();
  const T* const from = static_cast<const T*>(arguments.from);
  for (int dy = 0; dy < kSquare; ++dy) {
    Eight<T> pixels;
    const int y = kSquare * row + dy;
    for (int dx = 0; dx < kSquare; ++dx) {
      const int x = kSquare * column + dx;
      const bool inside = y >= 0 && y < arguments.height && x >= 0 && x < arguments.width;
      const int64_t at = ((image * arguments.height + y) * arguments.width + x) * kImageChannels;
      for (int c = 0; c < kSquareChannels; ++c) {
        pixels.values[dx * kSquareChannels + c] = inside && c < kImageChannels ? from[at + c] : static_cast<T>(0.0F);
      }
    }
    StoreEight<T>(arguments.to, thread * kDepthChannels + dy * kWidth, pixels);
  }
}

// Starts the kernel on `stream` (a cudaStream_t) of the current device. Threads() is below 2³¹. Returns a cudaError_t.
int LaunchSpaceToDepth(const SpaceToDepthArguments& arguments, Element element, void* stream);

// The weight's gradient of a ResNet's first convolution in this form. cuDNN's kernels
// for it take several times as long as reading the tensors does: their tiles are too wide for so few channels. Here
// each block keeps the sums of the whole weight in its registers, on tensor cores, and reads each row of pixels once.
// The blocks' sums are added in the order of their numbers.
constexpr int kStemTaps = 4, kStemChannels = 64;  // of the only shape there is
constexpr int kStemWeights = kStemChannels * kStemTaps * kStemTaps * kDepthChannels;

// All pointers are to the device's memory and aligned to 16 bytes.
struct StemGradientArguments {
  const void* squares;  // images × (height + kStemTaps − 1) × (width + kStemTaps − 1) × kDepthChannels
  const void* dy;       // images × height × width × kStemChannels
  float* partial;       // parts × kStemWeights
  void* dweight;        // kStemChannels × kStemTaps × kStemTaps × kDepthChannels, in the type of dy
  int64_t images;
  int height, width;
  int parts;
};

// Returns how many parts the current device wants; 0 if it has no such kernel (before Ampere).
int StemGradientParts();

// Starts the kernels on `stream` (a cudaStream_t) of the current device, for a half type. Returns a cudaError_t.
int LaunchStemGradient(const StemGradientArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
