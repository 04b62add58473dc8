// Mixup and CutMix of a batch on its device. The host draws how to mix (data/image/mix.h), and its numbers travel with
// the batch, so that a recorded step (trainer/loop/step_graph.h) mixes each batch as was drawn for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "data/image/mix.h"
#include "data/pipeline/batch.h"
#include "trainer/config/config.h"

namespace dtrain::tasks {

data::MixOptions MixOptionsOf(const config::ImageConfig& image);

// Returns what draws the mix of each training batch and adds it (DataSplit::collate); null without --mixup and
// --cutmix. The draws depend on the part of the step, not on the rank that computes it. `samples` are those of an
// epoch, for --mix_epochs.
std::function<void(data::Batch& batch)> MixBatches(const config::Config& config, int64_t samples = 0);

// Adds `mix` to a batch on the host.
void AddMix(data::Batch& batch, const data::Mix& mix);

// Mixes each of `images` (N×3×H×W) with the one before it in the batch, as torchvision does, and returns them in the
// same type and memory format. AddMix was called for `batch`; `options` are those with which its mix was drawn.
at::Tensor MixedImages(const at::Tensor& images, const data::Batch& batch, const data::MixOptions& options);

// Returns the shares of the images' own labels and of those of the images before them, float32 scalars on the device.
std::pair<at::Tensor, at::Tensor> LabelShares(const data::Batch& batch);

}  // namespace dtrain::tasks
