// Models by name, as --model has them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/image_model.h"

namespace dtrain::models {

struct ImageModelOptions {
  int64_t num_classes = 1000;
  bool zero_init_residual = false;       // ResNets only: see TakesZeroInitResidual
  std::optional<double> dropout = {};    // EfficientNets only: see TakesDropout; their own where it is not said
  std::optional<double> drop_path = {};  // the same
};

// All names that MakeImageModel knows.
std::vector<std::string> ModelNames();

// The state_dict's name of the last layer's weight (classes, features) of a model in ModelNames().
std::string ClassifierWeightName(const std::string& model);

// Which options a model in ModelNames() has a use for.
bool TakesZeroInitResidual(const std::string& model);
bool TakesDropout(const std::string& model);

// The side in pixels of the images that a model in ModelNames() was made for.
int64_t NativeImageSize(const std::string& model);

// Draws its weights from torch's default generator. Throws std::out_of_range for a name not in ModelNames().
std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options);

}  // namespace dtrain::models
