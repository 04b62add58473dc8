#include "models/weight_names.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "models/roberta.h"

namespace dtrain::models {
namespace {

constexpr int64_t kPaddingId = 1;

NamedWeights SmallWeights() {
  const RobertaForMaskedLM model(
      {.vocab_size = 20, .hidden_size = 8, .layers = 2, .heads = 2, .intermediate_size = 12, .max_positions = 7});
  NamedWeights weights;
  for (const auto& item : model.named_parameters()) weights.emplace_back(item.key(), item.value().detach());
  return weights;
}

std::map<std::string, at::Tensor> ByName(const NamedWeights& weights) { return {weights.begin(), weights.end()}; }

void ExpectEqual(const NamedWeights& found, const NamedWeights& expected) {
  const auto left = ByName(found), right = ByName(expected);
  EXPECT_EQ(left.size(), found.size()) << "a name is there twice";
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, tensor] : right) {
    ASSERT_TRUE(left.contains(name)) << name;
    EXPECT_TRUE(left.at(name).equal(tensor)) << name;
  }
}

// Folds the token type, for which fairseq has no place, into the positions.
NamedWeights WithoutTokenType(NamedWeights weights) {
  auto named = ByName(weights);
  at::Tensor positions = named.at("roberta.embeddings.position_embeddings.weight");
  at::Tensor row = named.at("roberta.embeddings.token_type_embeddings.weight")[0];
  for (int64_t i = 0; i < positions.size(0); ++i) {
    if (i != kPaddingId) positions[i] += row;
  }
  row.zero_();
  return weights;
}

TEST(WeightNames, FairseqsAndBack) {
  const NamedWeights weights = SmallWeights();
  const NamedWeights fairseq = ToFairseq(weights, kPaddingId);
  EXPECT_EQ(NamingOf(weights), WeightNaming::kHuggingFace);
  EXPECT_EQ(NamingOf(fairseq), WeightNaming::kFairseq);
  const auto names = ByName(fairseq);
  for (const char* name : {"encoder.sentence_encoder.embed_tokens.weight", "encoder.lm_head.weight",
                           "encoder.sentence_encoder.layers.1.self_attn.k_proj.bias",
                           "encoder.sentence_encoder.layers.0.self_attn_layer_norm.weight",
                           "encoder.sentence_encoder.layers.0.final_layer_norm.bias", "encoder.lm_head.bias",
                           "encoder.sentence_encoder.layers.1.fc2.weight",
                           "encoder.sentence_encoder.layernorm_embedding.weight", "encoder.lm_head.layer_norm.bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const auto& [name, tensor] : names) EXPECT_EQ(name.rfind("encoder.", 0), 0U) << name;
  std::vector<std::string> left_out;
  ExpectEqual(RobertaWeightsFrom(fairseq, &left_out), WithoutTokenType(weights));
  EXPECT_TRUE(left_out.empty());
}

TEST(WeightNames, OlderFairseqs) {
  const NamedWeights weights = WithoutTokenType(SmallWeights());
  NamedWeights old;
  const auto newer = ByName(ToFairseq(weights, kPaddingId));
  for (const auto& [name, tensor] : newer) {
    if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos) continue;
    std::string renamed = "de" + name.substr(2);
    if (const size_t at = renamed.find("layernorm_embedding"); at != std::string::npos) {
      renamed.replace(at, std::string("layernorm_embedding").size(), "emb_layer_norm");
    }
    at::Tensor value = tensor;
    if (const size_t at = renamed.find("q_proj."); at != std::string::npos) {
      renamed.replace(at, std::string("q_proj.").size(), "in_proj_");
      std::vector<at::Tensor> parts;
      for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
        std::string source = name;
        source.replace(source.find("q_proj"), std::string("q_proj").size(), part);
        parts.push_back(newer.at(source));
      }
      value = at::cat(parts);
    }
    old.emplace_back(renamed, value);
  }
  old.emplace_back("decoder.sentence_encoder.version", at::ones({1}));
  std::vector<std::string> left_out;
  ExpectEqual(RobertaWeightsFrom(old, &left_out), weights);
  EXPECT_EQ(left_out, std::vector<std::string>{"decoder.sentence_encoder.version"});
}

TEST(WeightNames, HuggingFacesVariants) {
  const NamedWeights weights = SmallWeights();
  NamedWeights theirs = WithTiedDecoder(weights);
  EXPECT_EQ(theirs.size(), weights.size() + 2);
  theirs.emplace_back("roberta.pooler.dense.weight", at::ones({8, 8}));
  theirs.emplace_back("roberta.embeddings.position_ids", at::arange(7));
  std::vector<std::string> left_out;
  ExpectEqual(RobertaWeightsFrom(theirs, &left_out), weights);
  EXPECT_EQ(left_out.size(), 2U);

  NamedWeights encoder_alone;
  for (const auto& [name, tensor] : weights) {
    const std::string prefix = "roberta.";
    if (name.rfind(prefix, 0) == 0) encoder_alone.emplace_back(name.substr(prefix.size()), tensor);
  }
  EXPECT_TRUE(ByName(RobertaWeightsFrom(encoder_alone, &left_out)).contains("roberta.embeddings.LayerNorm.bias"));
}

TEST(WeightNames, AnUntiedDecoderIsRefused) {
  NamedWeights weights = SmallWeights();
  weights.emplace_back("lm_head.decoder.weight", at::ones({20, 8}));
  std::vector<std::string> left_out;
  EXPECT_THROW(RobertaWeightsFrom(weights, &left_out), std::invalid_argument);
}

TEST(WeightNames, HostileNamesPassAsTheyAre) {
  const NamedWeights weights = {{"encoder.sentence_encoder.layers.", at::ones({1})},
                                {"encoder.sentence_encoder.layers.7", at::ones({1})},
                                {"self_attn.in_proj_", at::ones({})},
                                {"", at::ones({1})}};
  std::vector<std::string> left_out;
  EXPECT_EQ(RobertaWeightsFrom(weights, &left_out).size(), weights.size());
}

}  // namespace
}  // namespace dtrain::models
