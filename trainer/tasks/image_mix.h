// Mixup and CutMix of a batch on its device. The host draws how to mix (data/image/mix.h), and its numbers travel with
// the batch, so that a recorded step (trainer/loop/step_graph.h) mixes each batch as was drawn for it.
#pragma once

#include <ATen/core/Tensor.h>

#include "data/image/mix.h"
#include "data/pipeline/batch.h"

namespace dtrain::tasks {

// Adds `mix` to a batch on the host, in pinned memory if the images are.
void AddMix(data::Batch& batch, const data::Mix& mix);

// Mixes each of `images` (N×3×H×W) with the one before it in the batch, as torchvision does, and returns them in the
// same type and memory format. AddMix was called for `batch`; `options` are those with which its mix was drawn.
at::Tensor MixedImages(const at::Tensor& images, const data::Batch& batch, const data::MixOptions& options);

// Returns the loss of mixed labels, where `own` is the loss of the images' own labels and `other` that of the labels of
// the images before them. Correct for criteria that are linear in the target.
at::Tensor MixedLoss(const at::Tensor& own, const at::Tensor& other, const data::Batch& batch);

}  // namespace dtrain::tasks
