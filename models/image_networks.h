// Networks for images in sizes of one's own, of which the families have the published ones.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/image_model.h"
#include "models/layers.h"

namespace dtrain::models {

struct ResNetOptions {
  bool bottleneck;
  std::array<int64_t, 4> blocks;  // per stage
  bool strides_first = false;     // a bottleneck strides in its first convolution (v1), else in its 3×3 (v1.5)
};

struct EfficientNetStage {
  int64_t expansion, kernel_size, stride, in_channels, out_channels, blocks;
  bool fused = false;  // V2: expands and filters in one convolution, and weighs no channels
};

struct EfficientNetOptions {
  std::vector<EfficientNetStage> stages;
  int64_t head_channels = 1280;  // inputs of the classifier
  double dropout = 0.2;          // before the classifier
  BatchNormOptions norm = {};
  bool pads_as_tensorflow = false;  // as Conv2dOptions
};

struct VisionTransformerOptions {
  int64_t width = 192, layers = 12, heads = 3;
  int64_t hidden = 768;  // features between the two products of a layer
  int64_t patch = 16;    // pixels a side
  int64_t grid = 14;     // patches a side that have a position of their own; others are between these
  int64_t registers = 0;
  bool averages = false;            // the classifier sees the mean of the patches; there is no class token
  bool distilled = false;           // a second token with a classifier of its own; the logits are the mean of both
  bool positions_of_tokens = true;  // whether class token and second token have positions, too
  bool qkv_bias = true;
  bool gated = false;      // SwiGLU, whose `hidden` counts both halves
  double layer_scale = 0;  // the initial value; 0: there is none

  // Tokens before those of the patches.
  int64_t prefix() const { return (averages ? 0 : distilled ? 2 : 1) + registers; }
  int64_t positions() const { return grid * grid + (positions_of_tokens ? prefix() : 0); }
};

std::shared_ptr<ImageModel> MakeResNet(const ResNetOptions& options, const ImageModelOptions& given);
std::shared_ptr<ImageModel> MakeEfficientNet(const EfficientNetOptions& options, const ImageModelOptions& given);
// The sides of images are multiples of the patch. Of a distilled model the features are those of both tokens, one after
// the other.
std::shared_ptr<ImageModel> MakeVisionTransformer(const VisionTransformerOptions& options,
                                                  const ImageModelOptions& given);

// Returns the positions of rows × columns patches from those of grid × grid, (1, grid², C): the antialiased bicubic
// filter of timm's resample_abs_pos_embed, as products with deterministic gradients.
at::Tensor ResizedPositions(const at::Tensor& positions_1LC, int64_t rows, int64_t columns);

}  // namespace dtrain::models
