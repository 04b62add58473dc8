// Draws a training batch as one picture, for people to look at.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/report/points.h"

namespace dtrain::tasks {

// `images` is uint8 N×H×W×3 on the host. Returns at most the first 64 in rows of up to eight, with gaps of two pixels.
report::Picture PictureGrid(const at::Tensor& images);

}  // namespace dtrain::tasks
