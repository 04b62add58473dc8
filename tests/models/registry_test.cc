#include "models/registry.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/layers.h"
#include "models/text_model.h"

namespace dtrain::models {
namespace {

// The smallest model of a family of text that has a shape of its own, with few words and a single layer.
TextOptions SmallText(const Family& family) {
  const auto named = std::ranges::find_if(family.models, [](const Model& model) { return model.text != nullptr; });
  nlohmann::json config = named->text({}).ToJson();
  for (const char* layers : {"num_hidden_layers", "n_layers"})
    if (config.contains(layers)) config[layers] = 2;
  config["vocab_size"] = 30;
  config["pad_token_id"] = 1;
  TextOptions options = family.text.from_json(config, {});
  options.shape.longest_sequence = 8;
  return options;
}

// As in torchvision's table of models: parameters, and billions of multiply-adds at a size in pixels.
TEST(Registry, ImageModelsHaveTorchvisionsSizes) {
  struct Size {
    const char* name;
    int64_t parameters;
    double giga_multiply_adds;
    int64_t image_size = 224;
  };
  for (const auto& [name, parameters, giga_multiply_adds, image_size] :
       {Size{"resnet18", 11'689'512, 1.814},
        Size{"resnet34", 21'797'672, 3.664},
        Size{"resnet50", 25'557'032, 4.089},
        Size{"resnet50_v1", 25'557'032, 3.858},
        Size{"resnet101", 44'549'160, 7.801},
        Size{"resnet152", 60'192'808, 11.514},
        Size{"efficientnet_b0", 5'288'548, 0.386},
        Size{"efficientnet_b1", 7'794'184, 0.687, 240},
        Size{"efficientnet_b3", 12'233'232, 1.827, 300},
        Size{"efficientnet_b5", 30'389'784, 10.266, 456},
        Size{"efficientnet_b7", 66'347'960, 37.746, 600},
        Size{"vit_base_patch16_224", 86'567'656, 17.564},
        Size{"convnext_tiny", 28'589'128, 4.456},
        Size{"convnext_large", 197'767'336, 34.361},
        Size{"efficientnetv2_s", 21'458'488, 8.366, 384},
        Size{"efficientnetv2_m", 54'139'356, 24.582, 480},
        Size{"efficientnetv2_l", 118'515'272, 56.08, 480},
        Size{"vit_large_patch32_224", 306'535'400, 15.378},
        Size{"vit_huge_patch14_224", 632'045'800, 167.295},
        Size{"resnet18_v2", 11'691'947, 1.827},
        Size{"resnet50_v2", 25'549'483, 4.089}}) {
    const ShapesAlone alone;
    const auto model = MakeImageModel(name, {});
    int64_t count = 0;
    for (const auto& parameter : model->parameters()) count += parameter.numel();
    EXPECT_EQ(count, parameters) << name;
    const double tolerance = name[0] == 'r' ? 0.01 : 0.01 * giga_multiply_adds;
    EXPECT_NEAR(static_cast<double>(model->Cost(image_size).multiply_adds) * 1e-9, giga_multiply_adds, tolerance)
        << name;
  }
}

TEST(Registry, EachNameHasOneModel) {
  const std::vector<std::string> names = ModelNames();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    EXPECT_EQ(FindModel(name)->name, name);
    EXPECT_EQ(FindModel(name)->make != nullptr, FamilyOf(name).input == Input::kImages) << name;
    EXPECT_EQ(ReadsText(name), FamilyOf(name).input == Input::kText) << name;
  }
  for (const char* name : {"", "resnet", "no_such_model"}) {
    EXPECT_FALSE(ReadsText(name));
    EXPECT_EQ(FindFamily(name), nullptr);
    EXPECT_THROW(FamilyOf(name), std::out_of_range);
    EXPECT_THROW(MakeImageModel(name, {}), std::out_of_range);
  }
  EXPECT_THROW(MakeImageModel("roberta", {}), std::out_of_range);
  EXPECT_EQ(TextModelOfType("resnet"), "");
}

TEST(Registry, ModelsAreDescribed) {
  EXPECT_EQ(Description("resnet50"), "ResNet of 50 layers, for images of 224 pixels");
  EXPECT_EQ(Description("efficientnet_b5"), "EfficientNet of width 1.6 and depth 2.2, for images of 456 pixels");
  EXPECT_EQ(Description("roberta_base"), "RoBERTa of 12 layers, 768 wide, with 12 heads, for text");
}

// Numbers of 24 bits are rarely that end of their range for which the inverse of erf is infinite.
TEST(ModernBert, InitialWeightsAreWithinTheCutOffWhateverIsDrawn) {
  const nlohmann::json config = {
      {"vocab_size", 1 << 18},  {"hidden_size", 128}, {"num_attention_heads", 2},  {"num_hidden_layers", 1},
      {"intermediate_size", 2}, {"pad_token_id", 0},  {"initializer_range", 0.02}, {"initializer_cutoff_factor", 6}};
  at::manual_seed(1);
  const auto model = FamilyOf("modernbert").text.from_json(config, {}).Make({.kind = HeadKind::kNone});
  const at::Tensor words = model->named_parameters()["model.embeddings.tok_embeddings.weight"];
  EXPECT_LE(words.abs().max().item<double>(), 6 * 0.02 + 1e-6);
}

// What the trainer takes for granted.
TEST(Registry, EveryFamilyOfTextDescribesItsModels) {
  const TextHead words, three = {HeadKind::kClasses, {"a", "b", "c"}}, of_tokens = {HeadKind::kTokens, three.labels};
  for (const Family& family : Families()) {
    if (family.input != Input::kText) continue;
    const TextFamily& text = family.text;
    const Model& any = family.models.front();
    EXPECT_FALSE(any.text);
    const TextOptions options = SmallText(family);
    for (const TextHead& head : {words, three, of_tokens}) {
      SCOPED_TRACE(family.name + FactsOf(head.kind).ending);
      const auto model = options.Make(head);
      EXPECT_EQ(model->outputs(), head.outputs());
      const Head& own_head = HeadIn(any.name, *model);
      EXPECT_EQ(own_head.output_weight.empty(), head.labels.empty());
      EXPECT_EQ(own_head.module, HeadName(any.name, head.kind));
      WeightShapes shapes;
      for (const auto& item : model->named_parameters()) {
        EXPECT_TRUE(item.key().starts_with(text.backbone + ".") || own_head.Has(item.key())) << item.key();
        shapes[item.key()] = item.value().sizes().vec();
      }
      EXPECT_TRUE(any.fits(shapes));
      const bool is_told = head.kind != HeadKind::kTokens || family.name != "ModernBERT";
      EXPECT_EQ(ShownHead(shapes, any.name).kind, is_told ? head.kind : HeadKind::kClasses);
      EXPECT_EQ(ShownHead(shapes, any.name).outputs(), model->outputs());
      WeightShapes bare;  // as weights without a wrapper
      const std::string prefix = text.backbone + ".";
      for (const auto& [name, shape] : shapes) {
        bare[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = shape;
      }
      EXPECT_EQ(ShownHead(bare, any.name).kind, ShownHead(shapes, any.name).kind);
      EXPECT_TRUE(shapes.contains(text.word_rows.front()));
      for (const std::string& name : text.word_rows)
        EXPECT_TRUE(!shapes.contains(name) || shapes[name][0] == 30) << name;
      const nlohmann::json config = options.ToJson(head);
      EXPECT_EQ(TextModelOfType(config.at("model_type")), family.models.front().name);
      EXPECT_EQ(text.from_json(config, shapes).ToJson(head).dump(), options.ToJson(head).dump());
      EXPECT_EQ(HeadFromJson(config, text.classes).has_value(), !head.labels.empty());
      for (const char* field : text.unseen_fields) EXPECT_TRUE(config.contains(field)) << field;
    }
  }
}

// Outside of the head, what timm's groups leave to it, and the last norm of ModernBERT.
TEST(Registry, LayersAreCountedFromTheHead) {
  const ShapesAlone alone;
  std::set<std::string> with_head;
  const auto count = [&](const std::string& model, const torch::nn::Module& module, int64_t layers) {
    const Head& head = HeadIn(model, module);
    std::set<int64_t> places;
    for (const auto& [name, place] : LayersBelowHead(model, module)) {
      places.insert(place);
      EXPECT_TRUE(place == 0 || !head.Has(name)) << name;
      if (place == 0 && !head.Has(name)) with_head.insert(name);
    }
    EXPECT_EQ(std::ssize(places), layers + 1) << model;
    EXPECT_EQ(*places.rbegin(), layers) << model;
  };
  count("vit_small_patch14_reg4_dinov2", *MakeImageModel("vit_small_patch14_reg4_dinov2", {}), 13);
  count("convnext_atto", *MakeImageModel("convnext_atto", {}), 13);
  for (const Family& family : Families()) {
    if (family.input != Input::kText) continue;
    for (const HeadKind kind : {HeadKind::kWords, HeadKind::kClasses, HeadKind::kTokens}) {
      const TextHead head = {kind, kind == HeadKind::kWords ? std::vector<std::string>() : NumberedLabels(3)};
      count(family.models.front().name, *SmallText(family).Make(head), 3);
    }
  }
  EXPECT_EQ(with_head,
            (std::set<std::string>{"head.norm.bias", "head.norm.weight", "model.final_norm.weight", "reg_token"}));
  for (const auto& [name, place] : LayersBelowHead("resnet18", *MakeImageModel("resnet18", {}))) EXPECT_EQ(place, 0);
}

// Values of transformers' create_sinusoidal_embeddings.
TEST(DistilBert, PositionsMayBeginAsSines) {
  nlohmann::json config = {{"vocab_size", 30}, {"dim", 6}, {"n_heads", 2}, {"n_layers", 1}, {"hidden_dim", 8}};
  config["sinusoidal_pos_embds"] = true;
  const TextOptions options = FamilyOf("distilbert").text.from_json(config, {});
  EXPECT_EQ(options.ToJson()["sinusoidal_pos_embds"], true);
  const at::Tensor positions = options.Make()->named_parameters()["distilbert.embeddings.position_embeddings.weight"];
  EXPECT_TRUE(positions.requires_grad());
  const at::Tensor third = at::tensor({0.141120, -0.989992, 0.138798, 0.990321, 0.006463, 0.999979});
  EXPECT_TRUE(positions[3].allclose(third.to(at::kFloat), 0, 1e-6)) << positions[3];
  const ShapesAlone alone;
  EXPECT_TRUE(options.Make()->parameters().front().is_meta());
}

TEST(Registry, ATextModelIsRecognisedInAnyNaming) {
  EXPECT_EQ(RecognisedModel(WeightShapes{{"module.bert.embeddings.word_embeddings.weight", {5, 8}}}), "bert");
  EXPECT_EQ(RecognisedModel(WeightShapes{{"distilbert.embeddings.word_embeddings.weight", {5, 8}}}), "distilbert");
  EXPECT_EQ(RecognisedModel(WeightShapes{{"model.embeddings.tok_embeddings.weight", {5, 8}}}), "modernbert");
  // Without the name of the encoder.
  const std::string words = "embeddings.word_embeddings.weight", types = "embeddings.token_type_embeddings.weight";
  const std::string layer = "layer.0.output.bias";
  EXPECT_EQ(RecognisedModel(WeightShapes{{words, {5, 8}}, {types, {2, 8}}, {"encoder." + layer, {8}}}), "bert");
  EXPECT_EQ(RecognisedModel(WeightShapes{{words, {5, 8}}, {types, {1, 8}}, {"encoder." + layer, {8}}}), "roberta");
  EXPECT_EQ(RecognisedModel(WeightShapes{{words, {5, 8}}, {"transformer." + layer, {8}}}), "distilbert");
  EXPECT_EQ(RecognisedModel(WeightShapes{{words, {5, 8}}, {types, {}}, {"encoder." + layer, {8}}}), "roberta");
  EXPECT_EQ(RecognisedModel(WeightShapes{{"module." + words, {5, 8}}, {"module.encoder." + layer, {8}}}), "roberta");
  EXPECT_EQ(RecognisedModel(WeightShapes{{"other." + words, {5, 8}}, {"other.encoder." + layer, {8}}}), "");

  EXPECT_EQ(RecognisedModel(WeightShapes{{"module.roberta.embeddings.word_embeddings.weight", {5, 8}}}), "roberta");
  EXPECT_EQ(RecognisedModel(WeightShapes{{"decoder.sentence_encoder.embed_tokens.weight", {5, 8}}}), "roberta");
  EXPECT_EQ(RecognisedModel(WeightShapes{{"embed_tokens.weight", {5, 8}}}), "");
}

TEST(ModernBert, ItsHeadHasNoDropoutUnlessItIsSaid) {
  const TextOptions options = FamilyOf("modernbert").text.from_json({{"mlp_dropout", 0.3}}, {});
  EXPECT_EQ(options.ToJson({HeadKind::kClasses, {"a", "b"}})["classifier_dropout"], 0);
  EXPECT_EQ(options.ToJson({HeadKind::kClasses, {"a", "b"}, 0.2})["classifier_dropout"], 0.2);
}

TEST(ModernBert, ItsTokensMayBeNull) {
  const auto from_json = FamilyOf("modernbert").text.from_json;
  nlohmann::json said = from_json({{"bos_token_id", nullptr}, {"eos_token_id", 7}}, {}).ToJson();
  EXPECT_EQ(said["bos_token_id"], nullptr);
  EXPECT_EQ(said["cls_token_id"], nullptr);
  EXPECT_EQ(said["eos_token_id"], 7);
  EXPECT_EQ(nlohmann::json(from_json(said, {}).ToJson()), said);
  EXPECT_EQ(from_json(nlohmann::json::object(), {}).ToJson()["bos_token_id"], 50'281);
  EXPECT_THROW(from_json({{"eos_token_id", "7"}}, {}), std::invalid_argument);
}

// Returns the shapes of a model's tensors, all of which must have values, or none.
WeightShapes ShapesOfModel(const std::string& name, const torch::nn::Module& model, bool is_drawn) {
  NamedWeights weights;
  for (const auto& list : {model.named_parameters(), model.named_buffers()}) {
    for (const auto& item : list) {
      EXPECT_EQ(item.value().is_meta(), !is_drawn) << name << " " << item.key();
      EXPECT_TRUE(!is_drawn || item.value().isfinite().all().item<bool>()) << name << " does not draw " << item.key();
      weights.emplace_back(item.key(), item.value());
    }
  }
  return ShapesOf(weights);
}

// Returns the shapes that a model has without its weights.
template <typename Make>
WeightShapes ShapesAloneOf(const std::string& name, const Make& make) {
  const ShapesAlone alone;
  return ShapesOfModel(name, *make(), /*is_drawn=*/false);
}

// The names of weights without the numbers of layers.
std::set<std::string> KindsOf(const WeightShapes& shapes) {
  std::set<std::string> kinds;
  for (const auto& [name, shape] : shapes) {
    std::string kind = name;
    std::erase_if(kind, [](unsigned char c) { return std::isdigit(c); });
    kinds.insert(kind);
  }
  return kinds;
}

// Whoever adds a model forgets neither to draw a weight, nor to refuse the weights of the others. Models that differ in
// nothing that weights show, such as in their padding, fit each other's, and those that differ in their images' size
// alone. One of those with the same kinds of weights is drawn, unless it is large.
TEST(Registry, EveryWeightIsDrawnAndFitsItsModelAlone) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);  // fills memory that nobody fills with NaN
  ASSERT_TRUE(at::empty({1}).isnan().item<bool>());
  std::vector<std::pair<std::string, WeightShapes>> known = {
      {"none", {}},
      {"none", {{"fc.weight", {10, 512}}, {"fc.bias", {10}}}},
      {"none", {{"conv_proj.weight", {768, 3, 16, 16}}, {"heads.head.weight", {1000, 768}}}}};
  constexpr int64_t kMostDrawn = 62'000'000;
  std::set<std::set<std::string>> drawn;
  for (const std::string& name : ModelNames()) {
    if (!FindModel(name)->make) continue;
    const auto make = [&] { return MakeImageModel(name, {}); };
    const WeightShapes shapes = known.emplace_back(name, ShapesAloneOf(name, make)).second;
    int64_t numbers = 0;
    for (const auto& [weight, shape] : shapes) numbers += c10::multiply_integers(shape);
    if (numbers > kMostDrawn || !drawn.insert(KindsOf(shapes)).second) continue;
    EXPECT_EQ(ShapesOfModel(name, *make(), /*is_drawn=*/true), shapes) << name;
  }
  const TextHead words, three = {HeadKind::kClasses, {"a", "b", "c"}};
  for (const Family& family : Families()) {
    if (family.input != Input::kText) continue;
    for (const TextHead& head : {words, three}) {
      const auto make = [&] { return SmallText(family).Make(head); };
      const WeightShapes shapes = known.emplace_back(family.text.backbone, ShapesAloneOf(family.name, make)).second;
      EXPECT_EQ(ShapesOfModel(family.name, *make(), /*is_drawn=*/true), shapes) << family.name;
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
  const std::map<std::string, WeightShapes> own(known.begin(), known.end());
  const auto but_positions = [](WeightShapes weights) {
    weights.erase("pos_embed");
    return weights;
  };
  for (const auto& [owner, weights] : known) {
    for (const std::string& name : ModelNames()) {
      // Families that share the encoder's name fit each other's weights.
      const bool is_own = ReadsText(name) ? owner == FamilyOf(name).text.backbone
                                          : but_positions(own.at(name)) == but_positions(weights);
      EXPECT_EQ(FindModel(name)->fits(weights), is_own) << "weights of " << owner << " for " << name;
    }
  }
}

}  // namespace
}  // namespace dtrain::models
