// The models by the names that --model accepts: look-ups in a table of families (family.h). Functions that take a
// `model` throw std::out_of_range for a name that is not in ModelNames(), unless they say otherwise.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/family.h"
#include "models/image_model.h"
#include "models/weight_names.h"

namespace dtrain::models {

const std::vector<Family>& Families();

// Return null for an unknown name.
const Family* FindFamily(const std::string& model);
const Model* FindModel(const std::string& model);

const Family& FamilyOf(const std::string& model);

// Returns all names that --model accepts.
std::vector<std::string> ModelNames();

// Describes a model for people: "ResNet of 50 layers, for images of 224 pixels".
std::string Description(const std::string& model);

// Returns whether the name is one of a model that reads text. Unknown names are not.
bool ReadsText(const std::string& name);

// Returns whether a model uses the option, one of those in Family::options.
bool Takes(const std::string& model, std::string_view option);

// Returns the one of the family's heads that `module`, a `model`, has.
const Head& HeadIn(const std::string& model, const torch::nn::Module& module);

// Return the names of the head that classifies, and of its last weight (classes, features): `fc` and `fc.weight`.
std::string ClassifierName(const std::string& model);
std::string ClassifierWeightName(const std::string& model);

// Returns the image model that has weights of these shapes under the names of any program that its family knows:
// `preferred` if it is one of several. Null if none has.
const Model* RecognisedImageModel(const NamedWeights& weights, const std::string& preferred);

// Returns the model that has weights of these names (those here; of RoBERTa, in any naming) and shapes, for any number
// of classes, or an empty string if no model here does. A RoBERTa of any shape is `roberta`.
std::string RecognisedModel(const WeightShapes& weights);
std::string RecognisedModel(const NamedWeights& weights);

// Returns the side, in pixels, of the images for which a model was made.
int64_t NativeImageSize(const std::string& model);

// Makes a model whose weights are drawn from torch's default generator. Throws std::out_of_range if the name is no
// image model's.
std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options);

}  // namespace dtrain::models
