// Describes augmentation and optimizer in a line each, for the plan of --dry_run: people compare it with a paper.
#pragma once

#include <string>

#include "trainer/config/config.h"

namespace dtrain::config {

// Returns "crop and flip, randaugment (bilinear), mixup 0.2". `by_default` is what --augment=auto means for the data.
std::string DescribeAugmentation(const ImageConfig& image, const std::string& by_default);

// Returns "sgd, momentum 0.9 (Nesterov), weight decay 0.0001 (none on norms and biases)".
std::string DescribeOptimizer(const OptimizerConfig& optimizer);

}  // namespace dtrain::config
