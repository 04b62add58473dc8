// What a configuration makes of images and weights, in a line each: for plans, where people compare it with what a
// paper says.
#pragma once

#include <string>

#include "trainer/config/config.h"

namespace dtrain::config {

// "crop and flip, randaugment (bilinear), mixup 0.2"; `by_default` is what --augment=auto means for the data.
std::string DescribeAugmentation(const ImageConfig& image, const std::string& by_default);

// "sgd, momentum 0.9 (Nesterov), weight decay 0.0001 (none on norms and biases)".
std::string DescribeOptimizer(const OptimizerConfig& optimizer);

}  // namespace dtrain::config
