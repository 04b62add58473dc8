// The models by the names that --model accepts.
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
  bool zero_init_residual = false;       // ResNets only, see TakesZeroInitResidual
  std::optional<double> dropout = {};    // EfficientNets only, see TakesDropout; empty: the model's own
  std::optional<double> drop_path = {};  // likewise
};

// Returns all names that --model accepts: the image models and RoBERTa's.
std::vector<std::string> ModelNames();

// Describes a model for people: "ResNet of 50 layers, for images of 224 pixels".
std::string Description(const std::string& model);

// Returns whether the name is a RoBERTa's (roberta_options.h): one of a known shape, or `roberta`, whose shape comes
// from a config.json.
bool IsRoberta(const std::string& name);

// Returns the state_dict's name of the last layer's weight (classes, features) of an image model in ModelNames().
std::string ClassifierWeightName(const std::string& model);

// Returns the name of the module that classifies images or predicts words: `fc`, `classifier.1` or `lm_head`.
// Everything else is the backbone.
std::string ClassifierName(const std::string& model);

// Return whether a model in ModelNames() uses the option.
bool TakesZeroInitResidual(const std::string& model);
bool TakesDropout(const std::string& model);

// Returns the ε of the BatchNorm of an image model in ModelNames().
double NormEpsilon(const std::string& model);

// Returns the image model that has weights of these names (torchvision's) and shapes, for any number of classes, or an
// empty string if no model here does.
std::string RecognisedModel(const NamedWeights& weights);

// Returns the side, in pixels, of the images for which a model in ModelNames() was made.
int64_t NativeImageSize(const std::string& model);

// Makes a model whose weights are drawn from torch's default generator. Throws std::out_of_range if the name is no
// image model's.
std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options);

}  // namespace dtrain::models
