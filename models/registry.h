// Models by name, as --model has them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/image_model.h"
#include "models/weight_names.h"

namespace dtrain::models {

struct ImageModelOptions {
  int64_t num_classes = 1000;
  bool zero_init_residual = false;       // ResNets only: see TakesZeroInitResidual
  std::optional<double> dropout = {};    // EfficientNets only: see TakesDropout; their own where it is not said
  std::optional<double> drop_path = {};  // the same
};

// All names that --model may be: those that MakeImageModel knows, and RoBERTa's.
std::vector<std::string> ModelNames();

// What it is, for people: "ResNet of 50 layers, for images of 224 pixels".
std::string Description(const std::string& model);

// Whether a name means a RoBERTa (roberta_options.h): one of a known shape, or `roberta`, whose config.json says it.
bool IsRoberta(const std::string& name);

// The state_dict's name of the last layer's weight (classes, features) of a model in ModelNames().
std::string ClassifierWeightName(const std::string& model);

// Its module that tells the classes apart, or guesses the words: `fc`, `classifier.1`, `lm_head`. All else is backbone.
std::string ClassifierName(const std::string& model);

// Which options a model in ModelNames() has a use for.
bool TakesZeroInitResidual(const std::string& model);
bool TakesDropout(const std::string& model);

// ε of its BatchNorm, for a model of images in ModelNames().
double NormEpsilon(const std::string& model);

// The image model that has weights of these names (torchvision's) and shapes, whatever its classes; empty: none here.
std::string RecognisedModel(const NamedWeights& weights);

// The side in pixels of the images that a model in ModelNames() was made for.
int64_t NativeImageSize(const std::string& model);

// Draws its weights from torch's default generator. Throws std::out_of_range for a name that is no image model's.
std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options);

}  // namespace dtrain::models
