// Names of weights in other programs, and what else changes on the way. Names of images' models in programs that can be
// installed are compared in tests/interop/test_weights.py.
#include "models/weight_names.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <array>
#include <map>
#include <stdexcept>

#include "models/registry.h"
#include "tests/roberta.h"

namespace dtrain::models {
namespace {

constexpr int64_t kPaddingId = 1;

constexpr EncoderOptions kSmall = {
    {.vocab_size = 20, .hidden_size = 8, .longest_sequence = 5}, /*layers=*/2, /*heads=*/2, /*intermediate_size=*/12};

NamedWeights WeightsOf(const torch::nn::Module& model) {
  NamedWeights weights;
  for (const auto& item : model.named_parameters()) weights.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers()) weights.emplace_back(item.key(), item.value());
  return weights;
}

// As RoBERTa's family has them.
NamedWeights RobertaWeightsFrom(const NamedWeights& weights, std::vector<std::string>* left_out) {
  return FamilyOf("roberta").own_names(weights, *FindModel("roberta"), left_out);
}
NamedWeights ForRobertaHead(const NamedWeights& weights, const char* head, std::vector<std::string>* left_out) {
  return FamilyOf("roberta").for_head(weights, head, left_out);
}
NamedWeights WithTiedDecoder(const NamedWeights& weights) {
  return FamilyOf("roberta").text.with_tied_decoder(weights);
}
NamedWeights ToFairseq(const NamedWeights& weights) {
  return FamilyOf("roberta").text.fairseq_names(weights, {.padding_id = kPaddingId});
}
int64_t ClassificationHeadOutputs(const WeightShapes& weights) { return ShownHead(weights, "roberta").outputs(); }

NamedWeights SmallWeights() { return WeightsOf(RobertaForMaskedLM(kSmall)); }

NamedWeights SmallClassifier() { return WeightsOf(RobertaForSequenceClassification(kSmall, 3, 0)); }

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
  const NamedWeights fairseq = ToFairseq(weights);
  EXPECT_EQ(NamingIn(ShapesOf(weights)), "hf");
  EXPECT_EQ(NamingIn(ShapesOf(fairseq)), "fairseq");
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

TEST(WeightNames, TwoBiasesOfOneHeadAreOneIfTheyAreTheSame) {
  const NamedWeights tied = SmallWeights();
  NamedWeights weights = WithTiedDecoder(tied);
  ExpectEqual(RobertaWeightsFrom(weights, nullptr), tied);
  for (auto& [name, tensor] : weights) {
    if (name == "lm_head.decoder.bias") tensor = tensor + 1;
  }
  ExpectEqual(RobertaWeightsFrom(weights, nullptr), weights);
}

TEST(WeightNames, OlderFairseqs) {
  const at::Tensor words = at::ones({20, 8});
  const std::vector<at::Tensor> qkv = {at::full({8, 8}, 2), at::full({8, 8}, 3), at::full({8, 8}, 4)};
  const NamedWeights old = {
      {"decoder.sentence_encoder.embed_tokens.weight", words},
      {"decoder.sentence_encoder.emb_layer_norm.bias", words[0]},
      {"decoder.sentence_encoder.layers.1.self_attn.in_proj_weight", at::cat(qkv)},
      {"decoder.sentence_encoder.layers.1.self_attn.in_proj_bias", at::cat({qkv[0][0], qkv[1][0], qkv[2][0]})},
      {"decoder.lm_head.layer_norm.bias", words[1]},
      {"decoder.sentence_encoder.version", at::ones({1})}};
  NamedWeights ours = {{"roberta.embeddings.word_embeddings.weight", words},
                       {"roberta.embeddings.LayerNorm.bias", words[0]},
                       {"lm_head.layer_norm.bias", words[1]}};
  for (size_t i = 0; i < 3; ++i) {
    const std::string part =
        "roberta.encoder.layer.1.attention.self." + std::array<std::string, 3>{"query", "key", "value"}[i];
    ours.insert(ours.end(), {{part + ".weight", qkv[i]}, {part + ".bias", qkv[i][0]}});
  }
  std::vector<std::string> left_out;
  ExpectEqual(RobertaWeightsFrom(old, &left_out), ours);
  EXPECT_EQ(left_out, std::vector<std::string>{"decoder.sentence_encoder.version"});
}

// transformers 5 cuts the first product of a gated MLP in two, as long as save_pretrained does not join them.
TEST(WeightNames, HuggingFacesGatesAreJoined) {
  const char* name = "vit_giant_patch14_dinov2";
  const at::Tensor gate = at::full({2, 3}, 1), up = at::full({2, 3}, 2);
  const NamedWeights theirs = {{"dinov2.embeddings.patch_embeddings.projection.weight", at::ones({1})},
                               {"dinov2.encoder.layer.7.mlp.up_proj.weight", up},
                               {"dinov2.encoder.layer.7.mlp.gate_proj.weight", gate},
                               {"dinov2.encoder.layer.8.mlp.up_proj.weight", up},
                               {"dinov2.encoder.layer.7.mlp.down_proj.weight", up}};
  ExpectEqual(FamilyOf(name).own_names(theirs, *FindModel(name), nullptr),
              {{"patch_embed.proj.weight", at::ones({1})},
               {"blocks.7.mlp.fc1.weight", at::cat({gate, up})},
               {"blocks.7.mlp.fc2.weight", up}});
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

// Gives fairseq's head another name.
NamedWeights WithHeadNamed(NamedWeights fairseq, const std::string& head) {
  const std::string old = "sentence_classification_head";
  for (auto& [name, tensor] : fairseq) {
    if (const size_t at = name.find(old); at != std::string::npos) name.replace(at, old.size(), head);
  }
  return fairseq;
}

TEST(WeightNames, AClassifierGoesToFairseqAndBack) {
  const NamedWeights weights = SmallClassifier(), fairseq = ToFairseq(weights);
  const auto names = ByName(fairseq);
  for (const char* name :
       {"classification_heads.sentence_classification_head.dense.weight",
        "classification_heads.sentence_classification_head.out_proj.bias", "encoder.lm_head.layer_norm.weight",
        "encoder.lm_head.dense.bias", "encoder.lm_head.weight", "encoder.lm_head.bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const char* head : {"sentence_classification_head", "mnli", "dense"}) {
    std::vector<std::string> left_out;
    const NamedWeights theirs = WithHeadNamed(fairseq, head);
    EXPECT_EQ(ClassificationHeadOutputs(ShapesOf(theirs)), 3);
    const NamedWeights ours = RobertaWeightsFrom(theirs, &left_out);
    EXPECT_TRUE(left_out.empty());
    ExpectEqual(ForRobertaHead(ours, "classifier", &left_out), WithoutTokenType(weights));
    EXPECT_EQ(left_out.size(), 5U) << "the masked-LM head";
  }
  ExpectEqual(WithTiedDecoder(weights), weights);
}

TEST(WeightNames, OfSeveralHeadsTheDefaultOneIsTaken) {
  NamedWeights fairseq = ToFairseq(SmallClassifier());
  fairseq.emplace_back("classification_heads.other.out_proj.weight", at::ones({7, 8}));
  std::vector<std::string> left_out;
  EXPECT_EQ(ClassificationHeadOutputs(ShapesOf(fairseq)), 3);
  EXPECT_EQ(ByName(RobertaWeightsFrom(fairseq, &left_out)).at("classifier.out_proj.weight").size(0), 3);
  EXPECT_EQ(left_out, std::vector<std::string>{"classification_heads.other.out_proj.weight"});

  const NamedWeights unclear = WithHeadNamed(fairseq, "mnli"), ours = RobertaWeightsFrom(unclear, &left_out);
  EXPECT_EQ(ClassificationHeadOutputs(ShapesOf(unclear)), 0);
  EXPECT_EQ(ForRobertaHead(ours, "lm_head", &left_out).size(), SmallWeights().size());
  EXPECT_THAT([&] { ForRobertaHead(ours, "classifier", &left_out); },
              testing::ThrowsMessage<std::invalid_argument>(
                  testing::HasSubstr("classification_heads.mnli., classification_heads.other.")));
}

TEST(WeightNames, HeadsOfOtherTasksAreLeftOut) {
  std::vector<std::string> left_out;
  const NamedWeights words = ForRobertaHead(SmallWeights(), "classifier", &left_out);
  EXPECT_EQ(words.size(), SmallWeights().size() - 5);
  EXPECT_EQ(left_out.size(), 5U);
  EXPECT_EQ(ClassificationHeadOutputs(ShapesOf(SmallWeights())), 0);
  EXPECT_EQ(ClassificationHeadOutputs({{"module.classifier.out_proj.weight", {2, 8}}}), 2);
  EXPECT_THROW(ForRobertaHead(SmallClassifier(), "lm_head", &left_out), std::invalid_argument);

  left_out.clear();
  const NamedWeights of_tokens = {{"roberta.embeddings.word_embeddings.weight", at::ones({20, 8})},
                                  {"classifier.weight", at::ones({2, 8})},
                                  {"classifier.bias", at::ones({2})}};
  EXPECT_EQ(RobertaWeightsFrom(of_tokens, &left_out).size(), 3U);  // a head for tokens
  EXPECT_TRUE(left_out.empty());

  for (const Family& family : Families()) {  // of transformers' …ForQuestionAnswering
    if (family.input != Input::kText) continue;
    const NamedWeights theirs = {{family.text.word_rows.front(), at::ones({20, 8})},
                                 {"qa_outputs.weight", at::ones({2, 8})},
                                 {"qa_outputs.bias", at::ones({2})}};
    left_out.clear();
    EXPECT_EQ(family.own_names(theirs, family.models.front(), &left_out).size(), 1U) << family.name;
    EXPECT_EQ(left_out, (std::vector<std::string>{"qa_outputs.weight", "qa_outputs.bias"})) << family.name;
  }
}

TEST(WeightNames, AnUntiedDecoderStaysInTheHeadOfWords) {
  NamedWeights weights = SmallWeights();
  weights.emplace_back(FamilyOf("roberta").text.decoder + ".weight", at::ones({20, 8}));
  std::vector<std::string> left_out;
  ExpectEqual(RobertaWeightsFrom(weights, &left_out), weights);
  EXPECT_EQ(ForRobertaHead(weights, "classifier", &left_out).size(), SmallWeights().size() - 5);
}

TEST(WeightNames, HostileNamesPassAsTheyAre) {
  const NamedWeights weights = {{"encoder.sentence_encoder.layers.", at::ones({1})},
                                {"encoder.sentence_encoder.layers.7", at::ones({1})},
                                {"self_attn.in_proj_", at::ones({})},
                                {"classification_heads.", at::ones({1})},
                                {"classification_heads.x", at::ones({})},
                                {"", at::ones({1})}};
  std::vector<std::string> left_out;
  EXPECT_EQ(RobertaWeightsFrom(weights, &left_out).size(), weights.size());
  const NamedWeights of_resnets = {
      {"encoder.stages.0", at::ones({1})},
      {"encoder.stages.99999999999999999999.layers.0.layer.0.normalization.bias", at::ones({1})},
      {"encoder.stages.-1.layers.0.layer.0.normalization.bias", at::ones({1})},
      {"encoder.stages.0.layers.0.layer.0.other.weight", at::ones({1})}};
  ExpectEqual(FamilyOf("resnet18").own_names(of_resnets, *FindModel("resnet18"), nullptr), of_resnets);
}

TEST(EfficientNetNames, ATensorOfAnotherProgramKeepsItsName) {
  const NamedWeights weights = {{"classifier.1.weight", at::ones({1, 1})}, {"step", at::ones({1})}};
  const NamedWeights theirs = FamilyOf("efficientnet_b0").names_of(weights, *FindModel("efficientnet_b0"), "timm");
  ASSERT_EQ(theirs.size(), 2);
  EXPECT_EQ(theirs[0].first, "classifier.weight");
  EXPECT_EQ(theirs[1].first, "step");
}

}  // namespace
}  // namespace dtrain::models
