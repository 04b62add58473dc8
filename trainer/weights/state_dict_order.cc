// The names alone tell the order, part by part, so that no model must be made for it.
#include "trainer/weights/state_dict_order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace dtrain::weights {
namespace {

// Parts of names. Of two parts at the same place in the same module, the one that stands first here comes first.
constexpr auto kParts = std::to_array<std::string_view>(
    {// every module: its own tensors, then those of its parts
     "weight", "bias", "running_mean", "running_var", "num_batches_tracked",
     // torchvision
     "conv1", "bn1", "conv2", "bn2", "conv3", "bn3", "downsample", "layer1", "layer2", "layer3", "layer4", "fc",
     "features", "roberta", "classifier",
     // Hugging Face
     "word_embeddings", "position_embeddings", "token_type_embeddings", "embeddings", "encoder", "attention",
     "intermediate", "self", "output", "query", "key", "value", "dense", "layer_norm", "LayerNorm", "decoder",
     // fairseq
     "sentence_encoder", "lm_head", "embed_tokens", "embed_positions", "layernorm_embedding", "layers", "self_attn",
     "self_attn_layer_norm", "k_proj", "v_proj", "q_proj", "out_proj", "fc1", "fc2", "final_layer_norm"});

// What two parts are compared by: numbers by their value, known parts by their place above, others by their letters.
std::pair<int64_t, std::string_view> KeyOf(std::string_view part) {
  int64_t number = 0;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == part.data() + part.size()) return {number, ""};
  const auto known = std::find(kParts.begin(), kParts.end(), part);
  return {known - kParts.begin(), known == kParts.end() ? part : ""};
}

bool ComesFirst(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view part_of_a = a.substr(0, a.find('.')), part_of_b = b.substr(0, b.find('.'));
    if (part_of_a != part_of_b) return KeyOf(part_of_a) < KeyOf(part_of_b);
    a.remove_prefix(std::min(a.size(), part_of_a.size() + 1));
    b.remove_prefix(std::min(b.size(), part_of_b.size() + 1));
  }
  return a.empty() && !b.empty();
}

}  // namespace

checkpoint::NamedTensors InStateDictOrder(checkpoint::NamedTensors tensors) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return ComesFirst(a.first, b.first); });
  return tensors;
}

}  // namespace dtrain::weights
