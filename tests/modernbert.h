// A ModernBERT of three small layers, of which the first attends to all tokens.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "models/registry.h"
#include "models/text_model.h"

namespace dtrain::models {

inline std::shared_ptr<TextModel> SmallModernBert(int64_t words, int64_t longest, double dropout) {
  const nlohmann::json config = {
      {"vocab_size", words},          {"hidden_size", 32},           {"num_hidden_layers", 3},
      {"num_attention_heads", 2},     {"intermediate_size", 24},     {"max_position_embeddings", longest},
      {"local_attention", 4},         {"pad_token_id", 1},           {"mlp_dropout", dropout},
      {"attention_dropout", dropout}, {"embedding_dropout", dropout}};
  const TextOptions options = FamilyOf("modernbert").text.from_json(config, {});
  return options.Make();
}

}  // namespace dtrain::models
