// Everything in which families of models differ, so that only a family's own file knows the family.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/image_model.h"
#include "models/weight_names.h"

namespace dtrain::models {

enum class Input { kImages, kText };

// One member of a family.
struct Model {
  std::string name;         // what --model accepts
  std::string description;  // for people: "ResNet of 50 layers"

  // Of image models only: the side of the images for which it was made, in pixels, and the ε of its BatchNorm.
  int64_t image_size = 224;
  double norm_epsilon = 1e-5;
  double timm_norm_epsilon = 1e-5;  // of timm's model with this name
  // Whether it pads as TensorFlow does (Conv2dOptions), which its weights do not show.
  bool pads_as_tensorflow = false;
  // Whether Hugging Face's model, which pads each layer for the size that it was made for, pads images of this side as
  // this one does. Empty: every size.
  std::function<bool(int64_t side)> pads_as_hugging_face = {};
  // Rows of Family::config_fields by which Hugging Face tells the models of the family apart.
  std::string config_fields = "{}";
  // Makes an image model whose weights are drawn from torch's default generator. Empty for text models, whose shape is
  // not known by name alone.
  std::function<std::shared_ptr<ImageModel>(const ImageModelOptions&)> make = {};

  // Returns whether weights with these names and shapes are the model's, for any number of classes.
  std::function<bool(const WeightShapes&)> fits;
};

// The last module of a model, which classifies or predicts words. Everything else is the backbone.
struct Head {
  std::string module;              // `fc`, `classifier.1`, `lm_head`
  std::string output_weight = {};  // the name of its last weight (classes, features); empty if the data has no classes
};

struct Family {
  std::string name;  // for people
  Input input;
  std::vector<Head> heads;           // a model has one of them, by its task; one classifies
  std::vector<std::string> options;  // the flags beyond the common ones that its models take
  std::vector<Model> models;
  // The fields in Hugging Face's config.json of these models, beyond those of every model: a JSON object with a row for
  // each field, as data/known_fields.h describes them. A config.json with other fields, or other values, is refused.
  const char* config_fields = "{}";
  // Whether its networks take LibTorch's max pooling, whose gradient LibTorch lists as nondeterministic although its
  // kernels add in a fixed order (2.11, DilatedMaxPool2d.cu).
  bool pools_maxima = false;

  // Converts weights under other programs' names to those here. Names of what no model here has are appended to
  // `left_out`. Throws std::invalid_argument if the weights cannot be used. Null: there are no other names.
  NamedWeights (*own_names)(const NamedWeights& weights, const Model& model,
                            std::vector<std::string>* left_out) = nullptr;
  // Converts weights under the names here to timm's. Null: timm's are the same.
  NamedWeights (*timm_names)(const NamedWeights& weights, const Model& model) = nullptr;
  // Returns the place of a parameter from the bottom: 0 for the embeddings, n + 1 for layer n; empty for the head.
  // Null:
  // --layer_decay is not for this family.
  std::optional<int64_t> (*layer_of)(std::string_view parameter) = nullptr;
  // Leaves heads other than the one named out of weights with names as here. Throws std::invalid_argument if they are
  // of another task. Null: there is one head only.
  NamedWeights (*for_head)(NamedWeights weights, std::string_view head, std::vector<std::string>* left_out) = nullptr;
};

// For Model::fits: whether the weights have the modules STAGES1.0 to STAGES1.(blocks[0] - 1), STAGES2.0 … and no more.
bool HaveBlocks(const WeightShapes& weights, const std::string& stages, const std::vector<int64_t>& blocks);

}  // namespace dtrain::models
