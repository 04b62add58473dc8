// --init_weights: copies weights from a file into a model.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "models/family.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/config.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::weights {

// Reads the file of --init_weights and translates its names to those of this program's models. Throws as FindWeights
// and ReadWeightsFile (weight_files.h) do, and UsageError if the names contradict --weights_naming.
checkpoint::SafetensorsContent ReadInitialWeights(const config::Config& config);

// Returns `model` as this training builds it: with --bn_eps, if it is given and the model is that of --model. Weights
// under timm's names may be of another epsilon (Model::timm_norm_epsilon).
models::Model AsBuilt(models::Model model, const config::ModelConfig& config);

// Returns `weights` under the names of this program's model `config.name`, whatever naming they had. `origin` is for
// messages.
checkpoint::NamedTensors WithOwnNames(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                      const std::string& origin);

// Leaves heads other than `head` out of weights with the names that WithOwnNames gives (logged). Throws UsageError if
// they are of another task, or if `head` guesses words and its decoder is not tied to their embeddings.
checkpoint::NamedTensors WithOneHead(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                     const std::string& head, const std::string& origin);

// Returns the rows of the classifier in `weights`, or 0 if they have no classifier of `model`.
int64_t NumClassesOf(const checkpoint::NamedTensors& weights, const std::string& model);

// What is known of the classes where a training begins with given weights.
struct KnownHeads {
  data::Classes of_weights, of_data;
  NumberScale scale_of_weights = {}, scale_of_data = {};
};

// Copies `weights` into the parameters and buffers of the same names. Heads of other tasks are left out (logged), but
// throws UsageError if they stand in place of one that cannot begin anew. If tensors are missing, superfluous or of
// another shape, throws UsageError listing them with --strict_weights, else names them in a warning and leaves those of
// the model as they are. Always throws UsageError if no tensor fits. `num_batches_tracked` may be missing, because
// older files lack it.
//
// With `classes`, for training: if weights and data name the same classes, the classifier's rows follow the names, and
// numbers that it predicts are put on the data's scale. The classifier
// keeps its random weights if it is missing, as in weights of another task or a backbone's, if it is for another number
// of classes, or if these have other names. All of this is logged.
void ApplyInitialWeights(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                         torch::nn::Module& module, const std::optional<KnownHeads>& classes = std::nullopt);

// Returns `weights`, with the names that WithOwnNames gives, without those of other tasks' parts, in the order of a
// state_dict of PyTorch's, by which people compare files. Throws as ApplyInitialWeights does unless they are all of the
// model that `make` returns, but for a missing head.
checkpoint::NamedTensors WholeWeights(const checkpoint::NamedTensors& weights, const config::ModelConfig& config,
                                      const std::function<std::shared_ptr<torch::nn::Module>()>& make,
                                      const std::string& origin);

// Begins a training with the weights of --init_weights, as ReadInitialWeights and ApplyInitialWeights say.
void BeginWithInitialWeights(const config::Config& config, const data::Classes& classes, const NumberScale& scale,
                             torch::nn::Module& module);

}  // namespace dtrain::weights
