// Tests sizes and names against transformers' classes. Logits and steps of padded and packed sequences are compared in
// tests/interop, such as test_text_families.py and test_fine_tuning.py.
#include "tests/roberta.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "models/registry.h"
#include "tests/models/text_stand_in.h"

namespace dtrain::models {
namespace {

EncoderOptions Small() { return SmallRoberta(/*dropout=*/0.1, /*width=*/16); }

std::vector<at::Tensor> TakeGradients(torch::nn::Module& model) {
  std::vector<at::Tensor> gradients;
  for (auto& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::zeros_like(parameter));
    parameter.mutable_grad().reset();
  }
  return gradients;
}

// Makes no weights.
int64_t CountParameters(const char* name, const TextHead& head) {
  const ShapesAlone alone;
  int64_t sum = 0;
  for (const auto& parameter : FindModel(name)->text({}).Make(head)->parameters()) sum += parameter.numel();
  return sum;
}

TEST(Roberta, SizesAreHuggingFaces) {
  EXPECT_EQ(CountParameters("roberta_base", {}), 124'697'433);
  EXPECT_EQ(CountParameters("roberta_large", {}), 355'412'057);
  EXPECT_EQ(CountParameters("roberta_base", {HeadKind::kClasses, {"a", "b", "c"}}), 124'647'939);
}

TEST(Roberta, InitialWeights) {
  EncoderOptions options = SmallRoberta(/*dropout=*/0, /*width=*/768);
  options.vocab_size = 1000;
  const RobertaForMaskedLM model(options);
  const auto parameters = model.named_parameters();
  const at::Tensor words = parameters["roberta.embeddings.word_embeddings.weight"];
  EXPECT_NEAR(words.std().item<double>(), 0.02, 1e-4);
  EXPECT_EQ(words[kPadding].abs().sum().item<double>(), 0);
  EXPECT_EQ(parameters["roberta.embeddings.position_embeddings.weight"][kPadding].abs().sum().item<double>(), 0);
  EXPECT_FALSE(parameters["roberta.embeddings.token_type_embeddings.weight"].any().item<bool>());
  EXPECT_EQ(parameters["roberta.encoder.layer.0.attention.self.query.bias"].abs().sum().item<double>(), 0);
  EXPECT_EQ(parameters["roberta.encoder.layer.0.output.LayerNorm.weight"].mean().item<double>(), 1);
  EXPECT_EQ(parameters["lm_head.layer_norm.bias"].abs().sum().item<double>(), 0);
}

TEST(Sequences, PositionsSkipPaddingUnlessTheyArePlaces) {
  const at::Tensor ids = at::tensor({5, 6, 1, 7, 1}, at::kLong).unsqueeze(0);
  EXPECT_TRUE(PositionsOf(ids, kRobertaShape).equal(at::tensor({2, 3, 1, 4, 1}, at::kLong).unsqueeze(0)));
  const TextShape from_0 = {.padding_id = kPadding, .first_position = 0, .longest_sequence = 4};  // as BERT's
  EXPECT_TRUE(PositionsOf(ids, from_0).equal(at::tensor({0, 1, 2, 3, 3}, at::kLong).unsqueeze(0)));
}

// One sequence is longer than several blocks of AttendInBlocks, one shorter than the window.
TEST(Sequences, AWindowLeavesOutDistantTokens) {
  constexpr int64_t kHeads = 2, kWindow = 3;
  at::manual_seed(1);
  at::Tensor attended = at::ones({2, 200}, at::kBool), kept;
  attended[1].slice(0, kWindow).fill_(false);
  const at::Tensor ids = attended.to(at::kLong) + 4;
  const Sequences padded = Padded(ids, attended, kRobertaShape), packed = Packed(ids, attended, kRobertaShape, &kept);
  std::vector<at::Tensor> qkv;
  for (int i = 0; i < 3; ++i) qkv.push_back(at::randn({400, 8}));
  const auto part = [&](size_t i) { return qkv[i].index_select(0, kept); };
  const at::Tensor found = Attend(part(0), part(1), part(2), kHeads, packed, 0, kWindow);
  const at::Tensor of_padded = Attend(qkv[0], qkv[1], qkv[2], kHeads, padded, 0, kWindow);
  EXPECT_TRUE(of_padded.isfinite().all().item<bool>());
  EXPECT_TRUE(of_padded.index_select(0, kept).allclose(found, 1e-4, 1e-5));
  constexpr double kNothing = 1e-12;  // dropout that drops nothing
  EXPECT_TRUE(Attend(qkv[0], qkv[1], qkv[2], kHeads, padded, kNothing, kWindow).allclose(of_padded, 1e-4, 1e-5));
  EXPECT_TRUE(Attend(part(0), part(1), part(2), kHeads, packed, kNothing, kWindow).allclose(found, 1e-4, 1e-5));
  EXPECT_FALSE(Attend(qkv[0], qkv[1], qkv[2], kHeads, padded, 0.5, kWindow).allclose(of_padded, 1e-4, 1e-5));
  // The formula, for one token in the middle of the first sequence.
  constexpr int64_t kToken = 131;
  const auto near = [&](size_t i) {
    return qkv[i].slice(0, kToken - kWindow, kToken + kWindow + 1).view({-1, kHeads, 4}).transpose(0, 1);
  };
  const at::Tensor scores = near(1).matmul(qkv[0][kToken].view({kHeads, 4, 1})) / 2;
  const at::Tensor expected = (near(2) * scores.softmax(1)).sum(1).flatten();
  EXPECT_TRUE(found[kToken].allclose(expected, 1e-4, 1e-5));
}

TEST(Sequences, ListsOfAboutAsManyTokensAreFilledUpToOneLength) {
  for (const int64_t most : {2, 3, 12, 128, 512}) {
    std::map<int64_t, std::set<int64_t>> fillers;
    for (int64_t tokens = 1; tokens <= 3000; ++tokens) {
      Sequences packed;
      packed.ids = packed.positions = at::zeros({tokens}, at::kLong);
      FillUp(packed, most, kRobertaShape);
      ASSERT_EQ(packed.ids.numel(), FilledLength(tokens, most));
      ASSERT_EQ(packed.ids.numel(), tokens + packed.offsets[-1].item<int64_t>());
      ASSERT_EQ(packed.offsets.numel(), packed.fillers + 1);
      for (const int64_t length : packed.lengths) ASSERT_TRUE(1 <= length && length <= most) << tokens << " " << length;
      if (most >= 128 && tokens > 256) {
        ASSERT_LE(packed.ids.numel(), tokens + tokens / 7);
      }
      fillers[packed.ids.numel()].insert(packed.fillers);
    }
    if (most >= 128) {
      EXPECT_LE(fillers.size(), 60U);
    }
  }
}

TEST(Roberta, CheckpointedActivationsGiveTheSameGradients) {
  const at::Tensor ids = RobertaIds();
  for (const bool with_kernels : {false, true}) {
    std::vector<std::vector<at::Tensor>> gradients;
    std::vector<at::Tensor> drawn_afterwards;
    for (const bool checkpointed : {false, true}) {
      EncoderOptions options = SmallRoberta(/*dropout=*/0.2);
      options.checkpoint_activations = checkpointed;
      at::manual_seed(1);
      RobertaForMaskedLM model(options);
      if (with_kernels) UseKernels(model, {.text = &stand_in::kTextKernels});
      model.named_parameters()["roberta.encoder.layer.0.attention.self.query.weight"].set_requires_grad(false);
      const at::Tensor hidden =
          model.Encode(Padded(ids, ids.ne(kPadding), kRobertaShape), at::tensor({20, 3, 0}, at::kLong));
      drawn_afterwards.push_back(at::rand({4}));
      at::manual_seed(99);  // draws between the two passes must not matter
      model.Scores(hidden).log_softmax(1).slice(1, 0, 1).sum().backward();
      drawn_afterwards.push_back(at::rand({4}));
      gradients.push_back(TakeGradients(model));
    }
    EXPECT_TRUE(drawn_afterwards[0].equal(drawn_afterwards[2]));
    EXPECT_TRUE(drawn_afterwards[1].equal(drawn_afterwards[3]));  // a backward pass leaves the generator where it was
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      EXPECT_TRUE(gradients[1][i].allclose(gradients[0][i], 1e-4, 1e-6)) << i;
    }
  }
}

TEST(Roberta, ColumnsThatFillUpTheVocabularyChangeNothing) {
  RobertaForMaskedLM model(Small());
  model.eval();
  const at::Tensor hidden = model.Encode(Padded(RobertaIds(), {}, kRobertaShape)).detach();
  const int64_t words = model.shape().vocab_size, columns = (words + 63) / 64 * 64;
  ASSERT_NE(words, columns);
  const at::Tensor plain = model.Scores(hidden), filled = model.Scores(hidden, 64);
  EXPECT_EQ(filled.size(1), columns);
  EXPECT_TRUE(filled.slice(1, 0, words).allclose(plain, 1e-5, 1e-6));
  EXPECT_TRUE(filled.slice(1, words).eq(-std::numeric_limits<float>::infinity()).all().item<bool>());
  const at::Tensor answers = at::arange(hidden.size(0), at::kLong) % words;
  std::vector<std::vector<at::Tensor>> gradients;
  for (const at::Tensor& logits : {plain, filled}) {
    at::nll_loss(logits.log_softmax(1), answers).backward();
    gradients.push_back(TakeGradients(model));
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_TRUE(gradients[1][i].allclose(gradients[0][i], 1e-4, 1e-7)) << i;
  }
}

TEST(Roberta, ABatchWithoutAScoredRowHasGradientsOfZero) {
  RobertaForMaskedLM model(Small());
  const at::Tensor ids = RobertaIds();
  const at::Tensor scores =
      model.Scores(model.Encode(Padded(ids, ids.ne(kPadding), kRobertaShape), at::empty({0}, at::kLong)));
  const at::Tensor loss = at::cross_entropy_loss(scores, at::empty({0}, at::kLong), {}, at::Reduction::Sum);
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().abs().sum().item<double>(), 0) << item.key();
  }
}

// Lists are filled up on GPUs alone. Logits without fillers are compared with transformers' in tests/interop.
TEST(RobertaClassifier, FillersHaveNoLogits) {
  RobertaForSequenceClassification model(Small(), 4, 0.5);
  model.eval();
  const at::Tensor ids = RobertaIds(), attended = ids.ne(kPadding);
  Sequences packed = Packed(ids, attended, kRobertaShape);
  FillUp(packed, ids.size(1), kRobertaShape);
  EXPECT_TRUE(model.forward(packed).allclose(model.forward(Padded(ids, attended, kRobertaShape)), 1e-4, 1e-5));
}

TEST(RobertaClassifier, DropsInTrainingOnly) {
  EncoderOptions options = Small();
  options.dropout = options.attention_dropout = 0;
  RobertaForSequenceClassification model(options, 4, 1.0);  // in training mode: drops all inputs of the last layer
  auto bias = model.named_parameters()["classifier.out_proj.bias"];
  at::NoGradGuard no_grad;
  bias.fill_(3);
  EXPECT_TRUE(model.forward(Padded(RobertaIds(), {}, kRobertaShape)).eq(3).all().item<bool>());
  model.eval();
  EXPECT_FALSE(model.forward(Padded(RobertaIds(), {}, kRobertaShape)).eq(3).any().item<bool>());
}

// Only attention's output is not 0 here.
TEST(DistilBert, HasNoDropoutBehindAttention) {
  const std::string sizes = R"("vocab_size": 20, "max_position_embeddings": 8, )";
  const std::string bert = R"("model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1,
                              "intermediate_size": 4, "hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0})";
  const std::string distilbert = R"("model_type": "distilbert", "dim": 4, "n_layers": 1, "n_heads": 1, "hidden_dim": 4,
                                    "dropout": 0.5, "attention_dropout": 0})";
  for (const auto& [family, fields] : {std::pair("bert", bert), {"distilbert", distilbert}}) {
    const auto config = nlohmann::json::parse("{" + sizes + fields);
    const TextOptions options = FamilyOf(family).text.from_json(config, {});
    const auto model = options.Make({HeadKind::kNone});
    const at::NoGradGuard no_grad;
    for (auto& parameter : model->named_parameters()) {
      const bool is_of_attention = parameter.key().find("attention") != std::string::npos;
      parameter.value().fill_(is_of_attention && parameter.key().ends_with("bias") ? 1 : 0);
      if (parameter.key().ends_with("norm.weight") || parameter.key().ends_with("output.LayerNorm.weight")) {
        parameter.value().copy_(at::arange(4));
      }
    }
    model->train();
    const Sequences sequences = Padded(at::arange(6, at::kLong).view({1, 6}), {}, options.shape);
    const at::Tensor first = model->Encode(sequences);
    EXPECT_EQ(at::equal(first, model->Encode(sequences)), std::string(family) == "distilbert") << first;
  }
}

// RoBERTa's, with changes of its config.json.
TextOptions FromJson(const nlohmann::json& config) { return FamilyOf("roberta").text.from_json(config, {}); }

TEST(TextHead, JsonIsReadBack) {
  for (const TextHead& written :
       {TextHead{HeadKind::kClasses, {"no", "yes", "maybe"}, 0.25}, TextHead{HeadKind::kSeveral, {"no", "yes"}, 0.0},
        TextHead{HeadKind::kNumber, {"score"}}, TextHead{HeadKind::kTokens, {"O", "B-PER"}}}) {
    const nlohmann::json json = FromJson(nlohmann::json::object()).ToJson(written);
    const auto read = HeadFromJson(json, "Roberta");
    ASSERT_TRUE(read);
    EXPECT_EQ(read->kind, written.kind);
    EXPECT_EQ(read->labels, written.labels);
    EXPECT_EQ(read->dropout, written.dropout);
  }
  for (const HeadKind kind : {HeadKind::kWords, HeadKind::kNone})
    EXPECT_FALSE(HeadFromJson(FromJson(nlohmann::json::object()).ToJson({kind}), "Roberta"));
  EXPECT_EQ(TextHead{}.dropout_with(0.3), 0.3);
}

// What transformers leaves out of a config.json has its default.
TEST(TextHead, DefaultsAreThoseOfTransformers) {
  const std::string start = R"({"architectures": ["RobertaForSequenceClassification"], "classifier_dropout": null)";
  const auto read = [&](const std::string& rest) {
    return *HeadFromJson(nlohmann::json::parse(start + rest), "Roberta");
  };
  EXPECT_EQ(read("}").labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(read("}").kind, HeadKind::kClasses);
  EXPECT_EQ(read(R"(, "num_labels": 3})").labels.back(), "LABEL_2");
  EXPECT_EQ(read(R"(, "id2label": {"0": "LABEL_0"}})").kind, HeadKind::kNumber);
  EXPECT_EQ(read(R"(, "id2label": {"0": "one"}, "problem_type": "single_label_classification"})").kind,
            HeadKind::kClasses);
  EXPECT_EQ(read(R"(, "problem_type": "multi_label_classification"})").kind, HeadKind::kSeveral);
  const TextHead eleven =
      read(R"(, "id2label": {"10": "k", "2": "c", "0": "a", "1": "b", "3": "d", "4": "e", "5": "f", "6": "g",
              "7": "h", "8": "i", "9": "j"}})");
  EXPECT_EQ(eleven.labels[2], "c");
  EXPECT_EQ(eleven.labels[10], "k");
  for (const char* rest :
       {R"("id2label": {"0": "a", "2": "b"})", R"("id2label": {"00": "a"})", R"("id2label": {"0": 1})",
        R"("id2label": {"0": "a", "1": "a"})", R"("id2label": ["a", "b"])", R"("id2label": {})",
        R"("id2label": {"0": ""})", R"("num_labels": 3, "id2label": {"0": "a", "1": "b"})", R"("num_labels": 0)",
        R"("num_labels": "2")", R"("classifier_dropout": 1.5)", R"("problem_type": "regression")",
        R"("problem_type": 3)"}) {
    EXPECT_THROW(read(std::string(", ") + rest + "}"), std::invalid_argument) << rest;
  }
}

TEST(RobertaOptions, WhatIsOutOfRangeIsRefused) {
  for (const char* text :
       {R"({"hidden_size": 10, "num_attention_heads": 3})", R"({"vocab_size": "many"})", R"({"num_hidden_layers": 0})",
        R"({"hidden_dropout_prob": 2})", "[]", R"({"pad_token_id": 60000})", R"({"max_position_embeddings": 2})",
        R"({"layer_norm_eps": null})"}) {
    EXPECT_THROW(FromJson(nlohmann::json::parse(text)), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace dtrain::models
