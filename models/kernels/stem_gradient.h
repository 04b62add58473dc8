// The weight's gradient of a ResNet's first convolution in the form that space_to_depth.h makes of it. cuDNN's kernels
// for it take several times as long as reading the tensors does: their tiles are too wide for so few channels. Here
// each block keeps the sums of the whole weight in its registers, on tensor cores, and reads each row of pixels once.
// The blocks' sums are added in the order of their numbers.
#pragma once

#include <cstdint>

#include "models/kernels/space_to_depth.h"

namespace dtrain::models::kernels {

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
