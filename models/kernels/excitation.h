// Squeeze-and-excitation of y = SiLU(u), u = norm(x): z = y · s, where the factors s (images × channels) are made of
// the means of y over each image's pixels. y is never stored. A pass over x finds the means, the forward kernel of
// norm.h writes z. In the backward pass, du = (dz · s + dmean / pixels) · SiLU'(u) is linear in s and in the gradient
// of the means, which depends on the sums over dz. So one pass over dz and x finds five sums for each image and
// channel, from which all of the norm's sums follow, and the backward kernel of norm.h writes dx.
#pragma once

#include "models/kernels/norm.h"

namespace dtrain::models::kernels {

// x is as in norm.h.
struct SqueezeArguments {
  const void* x;
  NormOfChannels norm;
  int64_t images, pixels, channels;
  int parts;     // blocks that share the pixels of an image
  float* means;  // parts × images × channels; the sum over the parts is the mean of SiLU(norm(x))
};

enum ImageSum { kDyY, kDySlope, kDySlopeCentred, kSlope, kSlopeCentred, kImageSums };

// For each image and channel: Σ dz · y (the gradient of s), Σ dz · SiLU'(u), Σ dz · SiLU'(u) · (x − mean), and the last
// two without dz.
struct ImageSumsArguments {
  GradientArguments of;  // dy is the gradient of z; `aside`, `more_dy`, `dmeans` and the factors are not used
  int parts;
  float* sums;  // parts × kImageSums × images × channels
};

// Adds them up to the sums of SumArguments.
struct AddImagesArguments {
  GradientArguments of;  // dy and x are not used
  int parts;
  const float* image_sums;  // of ImageSumsArguments
  SumsMemory sums;
  float *dbias, *dweight;
};

inline DTRAIN_HOST_DEVICE int64_t ImagesOf(const GradientArguments& of) { return of.rows / of.scale.pixels; }

// A block works on kChannelsOfBlock channels in one of the parts of one image. Blocks are numbered through.
struct ImageBlock {
  int64_t column, image, part;

  DTRAIN_HOST_DEVICE ImageBlock(int64_t block, int64_t channels, int parts)
      : column(block % NumColumns(channels)),
        image(block / NumColumns(channels) / parts),
        part(block / NumColumns(channels) % parts) {}
};

inline DTRAIN_HOST_DEVICE int64_t NumImageBlocks(int64_t images, int64_t channels, int parts) {
  return images * parts * NumColumns(channels);
}

// The sums of one thread for its eight channels, and what the threads of a block share.
template <int kSums>
struct ThreadSums {
  float of[kSums][kWidth];
};

template <int kSums>
struct ImageMemory {
  float sums[kRowsOfBlock][kSums][kChannelsOfBlock];
};

// The sums of a thread over its pixels. Several loads are on their way at once.
template <typename T>
DTRAIN_HOST_DEVICE ThreadSums<1> SqueezeThread(const SqueezeArguments& arguments, const ImageBlock& block,
                                               const Place& place) {
  ThreadSums<1> sums = {};
  if (place.channel >= arguments.channels) return sums;
  const Affine norm(arguments.norm, place.channel);
  const int64_t first = block.image * arguments.pixels * arguments.channels + place.channel;
  const auto load = [&](int64_t pixel) { return LoadEight<T>(arguments.x, first + pixel * arguments.channels); };
  const auto add = [&](const Eight<T>& x) {
    for (int i = 0; i < kWidth; ++i) {
      const float u = norm(i, static_cast<float>(x.values[i]));
      sums.of[0][i] += u * Sigmoid<T>(u);
    }
  };
  constexpr int kAtOnce = 4;
  int64_t pixel = place.first_row;
  for (; pixel + (kAtOnce - 1) * place.row_step < arguments.pixels; pixel += kAtOnce * place.row_step) {
    Eight<T> x[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) x[i] = load(pixel + i * place.row_step);
    for (int i = 0; i < kAtOnce; ++i) add(x[i]);
  }
  for (; pixel < arguments.pixels; pixel += place.row_step) add(load(pixel));
  return sums;
}

template <typename T>
DTRAIN_HOST_DEVICE ThreadSums<kImageSums> ImageSumsThread(const ImageSumsArguments& arguments, const ImageBlock& block,
                                                          const Place& place) {
  const GradientArguments& of = arguments.of;
  ThreadSums<kImageSums> sums = {};
  if (place.channel >= of.channels) return sums;
  const Affine norm(of.norm, place.channel);
  const int64_t pixels = of.scale.pixels, first = block.image * pixels * of.channels + place.channel;
  const auto add = [&](const Eight<T>& dz, const Eight<T>& x) {
    for (int i = 0; i < kWidth; ++i) {
      const auto gradient = static_cast<float>(dz.values[i]), value = static_cast<float>(x.values[i]);
      const float u = norm(i, value), sigmoid = Sigmoid<T>(u), y = u * sigmoid;
      const float slope = sigmoid + y * (1.0F - sigmoid), centred = slope * (value - norm.mean[i]);
      sums.of[kDyY][i] += gradient * y;
      sums.of[kDySlope][i] += gradient * slope;
      sums.of[kDySlopeCentred][i] += gradient * centred;
      sums.of[kSlope][i] += slope;
      sums.of[kSlopeCentred][i] += centred;
    }
  };
  constexpr int kAtOnce = 2;
  int64_t pixel = place.first_row;
  for (; pixel + (kAtOnce - 1) * place.row_step < pixels; pixel += kAtOnce * place.row_step) {
    Eight<T> dz[kAtOnce], x[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t at = first + (pixel + i * place.row_step) * of.channels;
      dz[i] = LoadEight<T>(of.dy, at);
      x[i] = LoadEight<T>(of.x, at);
    }
    for (int i = 0; i < kAtOnce; ++i) add(dz[i], x[i]);
  }
  for (; pixel < pixels; pixel += place.row_step) {
    const int64_t at = first + pixel * of.channels;
    add(LoadEight<T>(of.dy, at), LoadEight<T>(of.x, at));
  }
  return sums;
}

// Step 1 for each thread of a block.
template <int kSums>
DTRAIN_HOST_DEVICE void KeepSums(const Place& place, const ThreadSums<kSums>& sums, ImageMemory<kSums>& memory) {
  for (int which = 0; which < kSums; ++which) {
    for (int i = 0; i < kWidth; ++i) memory.sums[place.row][which][place.group * kWidth + i] = sums.of[which][i];
  }
}

// Step 2 for each thread: writes the block's sums, times `factor`.
template <int kSums>
DTRAIN_HOST_DEVICE void WriteImageSums(const ImageMemory<kSums>& memory, const ImageBlock& block, int64_t images,
                                       int64_t channels, int thread, float factor, float* sums) {
  for (int i = thread; i < kSums * kChannelsOfBlock; i += kThreadsOfBlock) {
    const int which = i / kChannelsOfBlock, of_block = i % kChannelsOfBlock;
    const int64_t channel = block.column * kChannelsOfBlock + of_block;
    if (channel >= channels) continue;
    float total = 0;
    for (int row = 0; row < kRowsOfBlock; ++row) total += memory.sums[row][which][of_block];
    sums[((block.part * kSums + which) * images + block.image) * channels + channel] = total * factor;
  }
}

// The sums of a thread over its images, for the steps of channel_sums.h.
template <typename T>
DTRAIN_HOST_DEVICE ChannelSums AddImagesThread(const AddImagesArguments& arguments, const Place& place) {
  const GradientArguments& of = arguments.of;
  ChannelSums sums = {};
  if (place.channel >= of.channels) return sums;
  const int64_t images = ImagesOf(of);
  const float per_pixel = 1.0F / static_cast<float>(of.scale.pixels);
  for (int64_t image = place.first_row; image < images; image += place.row_step) {
    const int64_t at = image * of.channels + place.channel;
    const Eight<T> factors = LoadEight<T>(of.scale.factors, at), dmeans = LoadEight<T>(of.dmeans, at);
    for (int part = 0; part < arguments.parts; ++part) {
      const auto load = [&](ImageSum which) {
        return LoadEight<float>(arguments.image_sums, (part * kImageSums + which) * images * of.channels + at);
      };
      const Eight<float> dy_slope = load(kDySlope), dy_centred = load(kDySlopeCentred), slope = load(kSlope),
                         centred = load(kSlopeCentred);
      for (int i = 0; i < kWidth; ++i) {
        const float factor = static_cast<float>(factors.values[i]);
        const float of_mean = static_cast<float>(dmeans.values[i]) * per_pixel;
        sums.first[i] += factor * dy_slope.values[i] + of_mean * slope.values[i];
        sums.second[i] += factor * dy_centred.values[i] + of_mean * centred.values[i];
      }
    }
  }
  return sums;
}

// Returns in how many parts the pixels of an image are cut for LaunchSqueeze and LaunchImageSums, on the current
// device. The same for every launch on it.
int NumImageParts(int64_t images, int64_t pixels, int64_t channels);

// Start a kernel on `stream` (a cudaStream_t) of the current device. Return a cudaError_t.
int LaunchSqueeze(const SqueezeArguments& arguments, Element element, void* stream);
int LaunchImageSums(const ImageSumsArguments& arguments, Element element, void* stream);
int LaunchAddImages(const AddImagesArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
