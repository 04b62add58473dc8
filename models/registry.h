// The models by the names that --model accepts: look-ups in a table of families (family.h). Functions that take a
// `model` throw std::out_of_range for a name that is not in ModelNames(), unless they say otherwise.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
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

// Returns the text model of any shape whose config.json has this model_type; empty if there is none.
std::string TextModelOfType(const std::string& model_type);

// Returns the one of the family's heads that `module`, a `model`, has; one without a name if it has none.
const Head& HeadIn(const std::string& model, const torch::nn::Module& module);

// Returns how many layers each parameter of `module`, a `model`, is below the head: 1 in the highest one, 0 for what
// learns as fast as the head. Frozen layers count.
std::map<std::string, int64_t> LayersBelowHead(const std::string& model, const torch::nn::Module& module);

// Returns the name of the head of a text model: `lm_head`; empty if there is none.
std::string HeadName(const std::string& model, HeadKind kind);

// Return the names of the head that classifies, and of its last weight (classes, features): `fc` and `fc.weight`.
std::string ClassifierName(const std::string& model);
std::string ClassifierWeightName(const std::string& model);

// Returns the head of a text model, with numbered labels, that weights in any naming show; if none labels anything,
// that which guesses words.
TextHead ShownHead(const WeightShapes& weights, const std::string& model);

// Returns the image model that has weights of these shapes under the names of any program that its family knows:
// `preferred` if it is one of several. Null if none has.
const Model* RecognisedImageModel(const NamedWeights& weights, const std::string& preferred);

// Returns the model that has weights of these names (of text in any naming, else those here) and shapes, for any number
// of classes, or an empty string if no model here does. For text, it is the one of any shape.
std::string RecognisedModel(const WeightShapes& weights);
std::string RecognisedModel(const NamedWeights& weights);

// Returns whose names the weights have: torchvision, timm, hf or fairseq. Empty if the names are unknown, or the same
// for all (a ResNet's).
std::string NamingIn(const WeightShapes& weights);

// Makes a model whose weights are drawn from torch's default generator. Throws std::out_of_range if the name is no
// image model's.
std::shared_ptr<ImageModel> MakeImageModel(const std::string& name, const ImageModelOptions& options);

}  // namespace dtrain::models
