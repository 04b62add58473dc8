// Everything in which families of models differ, so that only a family's own file knows the family.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/image_model.h"
#include "models/text_options.h"
#include "models/weight_names.h"

namespace dtrain::models {

enum class Input { kImages, kText };

// One member of a family.
struct Model {
  std::string name;         // what --model accepts
  std::string description;  // for people: "ResNet of 50 layers"

  // Of image models only: the side of the images for which it was made, in pixels, and the ε of its norms.
  int64_t image_size = 224;
  int64_t least_size = 1;     // pixels a side, below which nothing is left of an image
  int64_t size_multiple = 1;  // what divides the sides of its images: the side of a transformer's patches
  double norm_epsilon = 1e-5;
  double timm_norm_epsilon = 1e-5;  // of timm's model with this name
  const char* timm_pool = "avg";    // its pooling, global_pool in its config.json
  // Whether Hugging Face's model, which pads each layer for the size that it was made for, pads images of this side as
  // this one does. Empty: every size.
  std::function<bool(int64_t side)> pads_as_hugging_face = {};
  // Rows of Family::config_fields by which Hugging Face tells the models of the family apart.
  std::string config_fields = "{}";
  // transformers' class that classifies with weights as names_of("hf") gives them; empty: there is none.
  std::string hugging_face_class = {};
  // Makes an image model whose weights are drawn from torch's default generator. Empty for text models.
  std::function<std::shared_ptr<ImageModel>(const ImageModelOptions&)> make = {};
  // Returns the shape of a text model, with the sizes that weights of these shapes have, if there are any. Empty for
  // image models, and for a text model of any shape, which TextFamily::from_json reads.
  std::function<TextOptions(const WeightShapes&)> text = {};

  // Returns whether weights with these names and shapes are the model's, for any number of classes.
  std::function<bool(const WeightShapes&)> fits;
};

// Returns Model::config_fields in which each of these fields has the only value that it may have.
std::string FieldsWith(const std::vector<std::pair<const char*, nlohmann::json>>& values);

// The last module of a model, which classifies or predicts words. Everything else is the backbone.
struct Head {
  std::string module;              // `fc`, `classifier.1`, `lm_head`
  std::string output_weight = {};  // the name of its last weight (classes, features); empty if the data has no classes
  // Further modules, within the backbone or also another head's: `bert.pooler`. Weights of another task may have them.
  std::vector<std::string> more = {};
  // Of text: the only kind that it is for. Empty: all that label something, or, without an output_weight, that which
  // guesses words. In weights without a config.json, a head that lacks `more` is one of tokens.
  std::optional<HeadKind> kind = {};

  // Whether a parameter is in one of its modules.
  bool Has(std::string_view parameter) const {
    const auto lies_in = [parameter](const std::string& name) { return parameter.starts_with(name + "."); };
    return lies_in(module) || std::ranges::any_of(more, lies_in);
  }
};

// How a model computes something else with the same weights.
struct Unlike {
  std::string how;      // "a … model, which …; --model=… does not"
  std::string instead;  // the model that computes the same
};

// What only families of text have.
struct TextFamily {
  std::string model_type = {};                  // in a config.json
  std::string backbone = {};                    // the module that is no head: base_model_prefix of transformers
  std::string classes = {};                     // transformers' are this and HeadFacts::ending: "Bert"
  std::vector<std::string> word_rows = {};      // names of the tensors with a row for each word
  std::vector<const char*> unseen_fields = {};  // of a config.json, which shapes of weights do not show
  // Reads a config.json; weights of these shapes have the last word on sizes. Throws std::invalid_argument that names
  // what is out of range.
  std::function<TextOptions(const nlohmann::json& config, const WeightShapes& weights)> from_json = nullptr;
  // Returns the number of outputs of the head that classifies sequences under other names than those here; 0 if there
  // is none. Null: there are no other names.
  int64_t (*other_outputs)(const WeightShapes& weights) = nullptr;
  // The module under whose name own_names leaves a decoder that is not the word embedding, with the head's bias: no
  // head that guesses words may have it.
  std::string decoder = {};
  // Adds the tensors that are others under two names, for a state_dict as transformers has it. Null: there are none.
  std::function<NamedWeights(NamedWeights weights)> with_tied_decoder = nullptr;
  // Returns the config.json of weights that come from fairseq with these arguments; null if these are not fairseq's.
  // Null: it has no such model.
  nlohmann::json (*fairseq_config)(const nlohmann::json& arguments, const WeightShapes& weights) = nullptr;
  // Converts weights under the names here to fairseq's. Null: it has no such model.
  NamedWeights (*fairseq_names)(const NamedWeights& weights, const TextShape& shape) = nullptr;
};

// Of Family::layer_of: what goes with the highest layer, and what learns as fast as the head, in it or not.
constexpr int64_t kTopLayer = INT64_MAX - 1, kWithHead = INT64_MAX;

struct Family {
  std::string name;  // for people
  Input input;
  std::vector<Head> heads;           // a model has one of them, by its task; one kind's come first
  std::vector<std::string> options;  // the flags beyond the common ones, and layer_of's, that its models take
  std::vector<Model> models;         // of text, the first one has any shape
  // The fields in Hugging Face's config.json of these models, beyond those of every model: a JSON object with a row for
  // each field, as data/shallow_json.h describes them. A config.json with other fields, or other values, is refused.
  std::string config_fields = "{}";
  // Whether its networks take LibTorch's max pooling, whose gradient LibTorch lists as nondeterministic although its
  // kernels add in a fixed order (2.11, DilatedMaxPool2d.cu).
  bool pools_maxima = false;

  // Returns whose names weights have, a value of --weights_naming; empty if they are no model's of the family, or the
  // same for all. Null: there are no other names.
  std::string (*naming_of)(const WeightShapes& weights) = nullptr;
  // Converts weights under other programs' names to those here. Names of what no model here has are appended to
  // `left_out`, and sentences on what changes. Null: there are no other names.
  std::function<NamedWeights(const NamedWeights& weights, const Model& model, std::vector<std::string>* left_out)>
      own_names = nullptr;
  // Of images: converts weights under the names here to those of a program (`naming`: timm, torchvision, hf), or, if
  // it is auto, to those that the family's files usually have. Empty: the program has no such model. Null: its weights
  // have one naming.
  NamedWeights (*names_of)(const NamedWeights& weights, const Model& model, std::string_view naming) = nullptr;
  // Returns the place of a parameter that is no head's from the bottom, a number that rises from layer to layer
  // (LayersBelowHead counts them), or one of those above. Null: --layer_decay is not for this family.
  std::function<int64_t(std::string_view parameter)> layer_of = nullptr;
  // Leaves heads other than the one named out of weights with names as here. Throws std::invalid_argument if they are
  // of another task. Null: by their names alone.
  NamedWeights (*for_head)(NamedWeights weights, std::string_view head, std::vector<std::string>* left_out) = nullptr;
  // Returns whether a matrix is never decayed where norms and biases are not, such as position embeddings. Null: none.
  bool (*is_never_decayed)(std::string_view parameter) = nullptr;

  // Of images: the last batch normalisations see 1/norm_stride of the image's side; 0: there are none.
  int64_t norm_stride = 0;
  // Returns the model, or the beginning of its name, as which weights were trained, as far as their names or that of
  // their file tell; else an empty string. Null: names and shapes tell all.
  std::string (*trained_as)(const WeightShapes& weights, std::string_view file_name) = nullptr;
  // Returns how the model `trained`, named as here or in timm, is unlike `model`; empty if it is not, or no member of
  // the family. Null: names and shapes tell all.
  std::optional<Unlike> (*unlike)(std::string_view trained, const Model& model) = nullptr;

  TextFamily text = {};
};

}  // namespace dtrain::models
