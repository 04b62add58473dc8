// torchvision's defaults are those of references/classification/train.py as of release 0.26. What is not listed is the
// same here (momentum 0.9, decay 1e-4, 90 epochs, the filter), or cannot change a number.
#include <algorithm>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kOwnTransforms = "dtrain has its own transforms";

Translation StartOfWarmup(const std::string& value, const ForeignCommand& command) {
  const auto part = NumberFrom(value), peak = NumberFrom(command.Value({"lr"}, "0.1"));
  if (!part || !peak) return {.refused = "it and --lr must be numbers"};
  return {{"--warmup_start_lr=" + ToText(*part * *peak)}};
}

std::vector<std::string> DefaultsOfTorchvision(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags("--model=resnet18 --lr=0.1 --lr_schedule=step --lr_decay_epochs=30 --lr_per_epoch=true", flags);
  if (!command.Has({"global_batch_size"})) flags.insert(flags.begin(), "--batch_size=32");
  if (command.Number({"lr_warmup_epochs"}, 0) > 0) {
    const Translation start = StartOfWarmup("0.01", command);
    flags.insert(flags.end(), start.flags.begin(), start.flags.end());
  }
  // What its constructors of these models have.
  const std::string model = command.Value({"model"}, "resnet18");
  if (model == "convnext_tiny") flags.push_back("--drop_path=0.1");
  if (model == "convnext_small") flags.push_back("--drop_path=0.4");
  if (model == "convnext_base" || model == "convnext_large") flags.push_back("--drop_path=0.5");
  AddFlags("--image_size=224 --eval_image_size=224 --eval_resize=256 --log_interval=10", flags);
  return flags;
}

// Their warmup is constant unless it is called linear.
Translation Warmup(const std::string& value, const ForeignCommand& command) {
  const bool is_linear = command.Value({"lr_warmup_method"}, "constant") == "linear";
  if (is_linear || NumberFrom(value) == 0.0) return {{"--warmup_epochs=" + value}};
  return {.refused =
              "torchvision's warmup is constant by default, here it is linear, as with --lr-warmup-method linear"};
}

bool HasSteps(const ForeignCommand& command) { return command.Value({"lr_scheduler"}, "steplr") == "steplr"; }

bool RepeatsSamples(const ForeignCommand& command) { return command.Has({"ra_sampler"}); }

Translation DecayOfNorms(const std::string& value, const ForeignCommand& command) {
  const std::string whole = command.Value({"weight_decay", "wd"}, "1e-4");
  if (NumberFrom(value) == NumberFrom(whole)) return {};
  if (NumberFrom(value) != 0.0) return {.refused = "norms have no decay (0), or that of all weights"};
  const std::string model = command.Value({"model"}, "resnet18");
  Translation translation{{"--decay_norm_and_bias=false"}};
  if (NumberFrom(command.Value({"bias_weight_decay"}, whole)) != 0.0) {
    translation.note =
        "the biases of convolutions and of the classifier have no decay either, as with "
        "--bias-weight-decay 0, nor have a ConvNeXt's layer_scale and a ViT's class token and positions";
  } else if (model.starts_with("vit") || model.starts_with("convnext")) {
    translation.note = "a ConvNeXt's layer_scale and a ViT's class token and positions have no decay either";
  }
  return translation;
}

Translation DecayOfTokens(const std::string& value, const ForeignCommand& command) {
  const std::string whole = command.Value({"weight_decay", "wd"}, "1e-4");
  const bool has_tokens = command.Value({"model"}, "resnet18").starts_with("vit");
  if (!has_tokens || NumberFrom(value) == NumberFrom(command.Value({"norm_weight_decay"}, whole))) return {};
  return {.refused = "class token and positions have the same decay as norms here (--norm-weight-decay)"};
}

Translation DecayOfBiases(const std::string& value, const ForeignCommand& command) {
  const std::string whole = command.Value({"weight_decay", "wd"}, "1e-4");
  const bool norms_have_none = NumberFrom(command.Value({"norm_weight_decay"}, whole)) == 0.0;
  if (NumberFrom(value) == 0.0 ? norms_have_none : !norms_have_none && NumberFrom(value) == NumberFrom(whole))
    return {};
  return {.refused =
              "biases and norms have the same decay here; --norm-weight-decay 0 --bias-weight-decay 0 is possible"};
}

// Theirs updates the average at the first step of each epoch, and so on from there; ours at each multiple of the steps.
Translation ScaledAverage(const std::string&, const ForeignCommand& command) {
  return {{"--ema_decay=" + command.Value({"model_ema_decay"}, "0.99998"),
           "--ema_every=" + command.Value({"model_ema_steps"}, "32"), "--ema_start=torchvision",
           "--ema_scaling=torchvision"}};
}

// DeiT's program, and others that are made of it, name the data's folder so, too, but train with timm's settings.
Translation DataFolder(const std::string& value, const ForeignCommand& command) {
  const std::string model = command.Value({"model"}, "");
  const bool is_of_deit =
      command.Script().starts_with("main") || model.starts_with("deit") ||
      command.Has({"distillation_type", "teacher_path", "unscale_lr", "repeated_aug", "drop_path", "layer_decay"});
  if (!is_of_deit || command.Has({"defaults_of", "lr_scheduler"})) return {{"--data_dir=" + value}};
  const bool has_recipe = !model.starts_with("convnext") && !model.starts_with("vit");
  return {.refused =
              "main.py of DeiT, ConvNeXt and MAE has this flag as torchvision's train.py has, and trains otherwise: " +
              (has_recipe ? "--flagfile=scripts/recipes/deit_small.flags --data_dir=" + value + " has DeiT's settings"
                          : "give its settings as flags of ours, with --data_dir=" + value) +
              "; --defaults_of=torchvision keeps torchvision's"};
}

// Theirs are names of weights, ours the choice among a run's.
Translation Weights(const std::string& value, const ForeignCommand& /*command*/) {
  const auto& ours = FindFlag("weights")->limits.choices;
  const bool is_ours = std::ranges::find(ours, value) != ours.end();
  return {{(is_ours ? "--weights=" : "--init_weights=") + value}};
}

}  // namespace

const ForeignProgram& TorchvisionProgram() {
  static const ForeignProgram program = {
      .name = "torchvision",
      .called = "torchvision's train.py",
      .signatures = {{"lr_scheduler", "steplr"},
                     {"lr_scheduler", "cosineannealinglr"},
                     {"lr_scheduler", "exponentiallr"},
                     {"weights", "IMAGENET1K"}},
      .defaults = DefaultsOfTorchvision,
      .rows = Together(
          {Switches("pretrained=--init_weights=IMAGENET1K_V1"),
           Renamed("lr_min=end_lr lr_gamma=lr_decay_factor mixup_alpha=mixup cutmix_alpha=cutmix "
                   "random_erase=random_erasing val_resize_size=eval_resize train_crop_size=image_size "
                   "val_crop_size=eval_image_size clip_grad_norm=clip_norm"),
           Switches("ra_sampler=--repeated_augmentation=3 test_only=--mode=eval "
                    "use_deterministic_algorithms=--deterministic=run"),
           OnlyTaken("ra_magnitude=9", "randaugment has a magnitude of 9"),
           OnlyTaken("augmix_severity=3", "dtrain has no AugMix"),
           WithoutEffect("indexes are kept beside the data anyway", "", "cache_dataset"),
           WithoutEffect(kOwnTransforms, "", "use_v2"),
           Translated(OfAnother, "model_ema_steps model_ema_decay"),
           {{.name = "data_path", .translate = DataFolder},
            {.name = "weights", .translate = Weights},
            {.name = "transformer_embedding_decay", .translate = DecayOfTokens},
            {.name = "opt",
             .flag = "optimizer",
             .words = {{"sgd", "sgd"},
                       {"sgd_nesterov", "sgd", "--nesterov"},
                       {"rmsprop", "rmsprop", "--rmsprop_eps=0.0316 --rmsprop_alpha=0.9"},
                       {"adamw", "adamw"}}},
            // Their ExponentialLR decays at each epoch.
            {.name = "lr_scheduler",
             .flag = "lr_schedule",
             .words = {{"steplr", "step"},
                       {"cosineannealinglr", "cosine"},
                       {"exponentiallr", "exponential", "--lr_decay_epochs=1"}}},
            {.name = "lr_warmup_epochs", .translate = Warmup},
            {.name = "lr_warmup_method", .words = {{"linear", ""}, {"constant", ""}}},  // Warmup refuses a constant one
            {.name = "lr_warmup_decay", .translate = StartOfWarmup},
            {.name = "lr_step_size", .flag = "lr_decay_epochs", .counts = HasSteps},
            {.name = "norm_weight_decay", .translate = DecayOfNorms},
            {.name = "bias_weight_decay", .translate = DecayOfBiases},
            {.name = "auto_augment",
             .flag = "augment",
             .words = {{"ta_wide", "trivialaugment"}, {"ra", "randaugment"}, {"imagenet", "autoaugment"}},
             .implied = "--augment_interpolation=bilinear"},
            {.name = "ra_reps", .flag = "repeated_augmentation", .counts = RepeatsSamples},
            {.name = "backend",
             .flag = "backend",
             .words = {{"pil", "", "", kOwnTransforms}, {"tensor", "", "", kOwnTransforms}},
             .other_words_pass = true},
            {.name = "model_ema", .takes_value = false, .translate = ScaledAverage}}})};
  return program;
}

}  // namespace dtrain::config
