// A training batch as one picture, for people.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/report/points.h"

namespace dtrain::loop {

// `images`: uint8 N×H×W×3 on the host. The first 64 of them at most, row by row, eight or fewer in a row, with a gap of
// two pixels.
report::Picture PictureGrid(const at::Tensor& images);

}  // namespace dtrain::loop
