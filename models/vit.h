// Vision transformers: ViT (Dosovitskiy et al. 2020, arXiv:2010.11929), DeiT and DeiT III (Touvron et al. 2020 and
// 2022, arXiv:2012.12877 and 2204.07118), DINOv2 (Oquab et al. 2023, arXiv:2304.07193). Names, logits and the
// distribution of initial weights are timm's, but for the distilled head, which is `head.dist` here, beside the other
// one.
#pragma once

#include <cstdint>
#include <vector>

#include "models/image_model.h"
#include "models/layers.h"

namespace dtrain::models {

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
  double dropout = 0;      // before the classifier
  double drop_path = 0;    // stochastic depth, from 0 in the first layer to this in the last
  int64_t num_classes = 1000;

  // Tokens before those of the patches.
  int64_t prefix() const { return (averages ? 0 : distilled ? 2 : 1) + registers; }
  int64_t positions() const { return grid * grid + (positions_of_tokens ? prefix() : 0); }
};

// x + attention(norm(x)), then x + mlp(norm(x)), each scaled and left out for some samples. N×L×C.
class TransformerLayerImpl : public torch::nn::Module {
 public:
  TransformerLayerImpl(const VisionTransformerOptions& options, double drop_path);
  at::Tensor forward(const at::Tensor& x_NLC);

  // As timm draws them: the half that gates begins nearly open.
  void DrawGate();

 private:
  at::Tensor Add(const at::Tensor& x_NLC, at::Tensor y_NLC, LayerScale& scale) const;

  bool gated_;
  double drop_path_;
  LayerNorm norm1_{nullptr}, norm2_{nullptr};
  SelfAttention attention_{nullptr};
  LayerScale scale1_{nullptr}, scale2_{nullptr};
  Linear fc1_{nullptr}, fc2_{nullptr};
};
TORCH_MODULE(TransformerLayer);

class VisionTransformer : public ImageModel {
 public:
  explicit VisionTransformer(const VisionTransformerOptions& options);
  // The sides of images are multiples of the patch. Of a distilled model the features are those of both tokens, one
  // after the other.
  at::Tensor Features(const at::Tensor& images_NCHW) override;
  at::Tensor Classify(const at::Tensor& features_NC) override;
  std::vector<at::Tensor> ClassifyEach(const at::Tensor& features_NC) override;
  int64_t NumFeatures() const override { return options_.width * (options_.distilled ? 2 : 1); }

 private:
  void Initialize();
  // Returns the embeddings of rows × columns patches and the tokens before them, with their positions.
  at::Tensor Tokens(const at::Tensor& images_NCHW);

  const VisionTransformerOptions options_;
  at::Tensor cls_token_, dist_token_, reg_token_, pos_embed_;
  Conv2d patches_{nullptr};
  std::vector<TransformerLayer> layers_;
  LayerNorm norm_{nullptr};
  Linear head_{nullptr}, dist_head_{nullptr};
};

// Returns the positions of rows × columns patches from those of grid × grid, (1, grid², C): the antialiased bicubic
// filter of timm's resample_abs_pos_embed, as products with deterministic gradients.
at::Tensor ResizedPositions(const at::Tensor& positions_1LC, int64_t rows, int64_t columns);

}  // namespace dtrain::models
