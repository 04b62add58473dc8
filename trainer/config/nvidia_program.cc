// NVIDIA's defaults are those of the ConvNets of DeepLearningExamples (PyTorch/Classification/ConvNets, of 2023):
// main.py, image_classification/optimizers.py, dataloaders.py and models/. What is not listed is the same here, or
// cannot change a number.
#include <array>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

std::string ModelOf(const ForeignCommand& command) { return command.Value({"arch", "a", "model"}, "resnet50"); }

// Rows of launch.py's configs.yml that differ in the batch of a GPU alone.
struct OfPlatforms {
  std::string_view model, optimizer_batch, lr, weight_decay;
  std::string_view batches;  // "PLATFORM/PRECISION=BATCH"
};
constexpr auto kPlatforms = std::to_array<OfPlatforms>({
    {"resnet50", "2048", "2.048", "3.0517578125e-05",
     "DGX1V/AMP=256 DGX1V-16G/AMP=256 DGX1V-32G/AMP=256 DGXA100/AMP=256 DGXA100/TF32=256 T4/AMP=256 T4/FP32=128"},
    {"resnet50", "896", "0.896", "6.103515625e-05", "DGX1V/FP32=112 DGX1V-16G/FP32=112 DGX1V-32G/FP32=112"},
    {"resnet50", "4096", "4.096", "3.0517578125e-05", "DGX2V/AMP=256 DGX2V/FP32=256"},
    {"efficientnet-b0", "4096", "0.08", "1e-05",
     "T4/AMP=128 T4/FP32=64 DGX1V-16G/AMP=128 DGX1V-16G/FP32=64 DGX1V-32G/AMP=256 DGX1V-32G/FP32=128 DGXA100/AMP=256 "
     "DGXA100/TF32=256"},
    {"efficientnet-b4", "4096", "0.16", "5e-06",
     "T4/AMP=32 T4/FP32=16 DGX1V-16G/AMP=32 DGX1V-16G/FP32=16 DGX1V-32G/AMP=64 DGX1V-32G/FP32=32 DGXA100/AMP=128 "
     "DGXA100/TF32=64"},
});

// Returns the flags of the row that a command of launch.py names; none if there is no such row.
std::vector<std::string> FlagsOfPlatform(const ForeignCommand& command) {
  const std::string wanted = command.Value({"platform"}, "") + "/" + command.Value({"precision"}, "") + "=";
  for (const auto& [model, optimizer_batch, lr, weight_decay, batches] : kPlatforms) {
    for (const std::string_view row : WordsOf(batches)) {
      if (model != ModelOf(command) || !row.starts_with(wanted)) continue;
      std::vector<std::string> flags = {"--batch_size=" + std::string(row.substr(wanted.size())),
                                        "--global_batch_size=" + std::string(optimizer_batch),
                                        "--lr=" + std::string(lr), "--weight_decay=" + std::string(weight_decay)};
      AddFlags("--lr_schedule=cosine --label_smoothing=0.1 --mixup=0.2 --last_batch=drop", flags);
      AddFlags(model == "resnet50" ? "--momentum=0.875 --warmup_epochs=8 --epochs=250"
                                   : "--optimizer=rmsprop --rmsprop_eps=0.01 --warmup_epochs=16 --epochs=400 "
                                     "--augment=autoaugment --interpolation=bicubic",
               flags);
      return flags;
    }
  }
  return {};
}

std::string ScheduleOf(const ForeignCommand& command) {
  return command.Value({"lr_schedule"}, FlagsOfPlatform(command).empty() ? "step" : "cosine");
}

// Their evaluation adds 32 pixels to the side of the crop.
void AddModel(const ForeignCommand& command, std::vector<std::string>& flags) {
  const bool is_b4 = ModelOf(command).ends_with("b4");
  const double size = command.Number({"image_size"}, is_b4 ? 380 : 224);
  if (is_b4) flags.push_back("--image_size=380");
  flags.push_back("--eval_resize=" + ToText(size + 32));
  if (!ModelOf(command).starts_with("efficientnet")) return;
  AddFlags("--bn_momentum=0.01 --bn_eps=0.001", flags);
  flags.push_back(is_b4 ? "--drop_path=0.2" : "--drop_path=0");
}

std::vector<std::string> DefaultsOfNvidia(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags("--lr_per_epoch=true --warmup_from_one=true --decay_norm_and_bias=false --log_interval=10", flags);
  const std::vector<std::string> of_platform = FlagsOfPlatform(command);
  flags.insert(flags.end(), of_platform.begin(), of_platform.end());
  if (of_platform.empty()) {
    flags.push_back("--lr=0.1");
    if (!command.Has({"global_batch_size"})) flags.push_back("--batch_size=256");
    if (command.Value({"optimizer"}, "") == "rmsprop") flags.push_back("--rmsprop_eps=0.001");
  }
  if (ScheduleOf(command) == "step") {
    AddFlags("--lr_schedule=step --lr_decay_epochs=30,60,80 --schedule_through_warmup=true", flags);
  }
  AddModel(command, flags);
  // Their gradient scaler begins with 1 and is static, unless its flags or launch.py's --precision AMP say more.
  const bool is_launched = command.Value({"precision"}, "") == "AMP";
  if (is_launched || command.Has({"amp"})) flags.push_back(is_launched ? "--loss_scale=128" : "--loss_scale=1");
  return flags;
}

Translation Platform(const std::string&, const ForeignCommand& command) {
  if (!FlagsOfPlatform(command).empty()) return {};
  return {.refused = "configs.yml has no such --model, --platform and --precision"};
}

// The weights alone decide which are the best there.
Translation AverageOfNvidia(const std::string& value, const ForeignCommand& command) {
  if (command.Has({"optimizer_batch_size", "platform"})) {
    return {.refused =
                "with --optimizer-batch-size theirs is updated at each micro-step; --ema_decay=D "
                "--ema_start=nvidia updates it at each step"};
  }
  return {{"--ema_decay=" + value, "--ema_start=nvidia", "--best_of=raw"}};
}

Translation EndOfRate(const std::string& value, const ForeignCommand& command) {
  if (ScheduleOf(command) != "linear") return {{"--end_lr=" + value}};
  return {.note = "it counts with --lr-schedule cosine only"};
}

// Without --amp it is ignored there, and so it is beside --dynamic-loss-scale.
Translation LossScale(const std::string& value, const ForeignCommand& command) {
  if (command.Has({"dynamic_loss_scale"}) || !command.Has({"amp"})) return {};
  return {{"--loss_scale=" + value}};
}

Translation Survival(const std::string& value, const ForeignCommand&) {
  const auto part = NumberFrom(value);
  if (!part) return {.refused = "expected a number"};
  return {{"--drop_path=" + ToText(1 - *part)}};
}

}  // namespace

const ForeignProgram& NvidiaProgram() {
  // Ways to begin, until 2020.
  const std::vector<Word> kConfigs = {
      {"classic", ""}, {"fanin", "", "", "convolutions begin with a variance by fan-out, as with classic"}};
  // Of PyTorch's examples/imagenet, from which this program comes, no command has one of these.
  constexpr std::string_view kOwn =
      "amp label_smoothing mixup lr_schedule end_lr nesterov mom optimizer interpolation image_size augmentation";
  static const ForeignProgram program = {
      .name = "nvidia",
      .called = "NVIDIA's ConvNets",
      .signatures = {{"arch", "efficientnet-"},
                     {"a", "efficientnet-"},
                     {"model", "efficientnet-"},
                     {"c", "classic"},
                     {"c", "fanin"},
                     {"mode", "convergence"},
                     {"mode", "benchmark_training"}},
      .defaults = DefaultsOfNvidia,
      .rows = Together(
          {Renamed("prefetch=prefetch_batches warmup=warmup_epochs workspace=run_dir bn_epsilon=bn_eps mom=momentum "
                   "pretrained_from_file=init_weights"),
           // -1: it never stops early; --batch-size alone decides; no limit.
           RenamedUnless("-1",
                         "early_stopping_patience=stop_after_epochs_without_gain "
                         "optimizer_batch_size=global_batch_size prof=limit_train_steps"),
           Switches("bn_weight_decay=--decay_norm_and_bias training_only=--eval_every_epochs=0 "
                    "no_checkpoints=--save_every_epochs=0"),
           OnlyTaken("run_epochs=-1", "--limit_train_steps ends a run early without changing its schedule"),
           OnlyTaken("conv_init=fan_out", "convolutions begin with a variance by fan-out; leave it out"),
           WithoutEffect("--save_every_epochs and --keep_checkpoints set when to save and how many to keep",
                         "gather_checkpoints"),
           WithoutEffect("result.json and metrics.jsonl of the run directory have the numbers", "raport_file"),
           WithoutEffect(kNoPython, "jit"),
           WithoutEffect(kResumes, "checkpoint_filename"),
           WithoutEffect("threads stay on the cores that the launcher grants", "gpu_affinity"),
           WithoutEffect("top-1 and top-5 are reported", "topk"),
           {{.name = "data_backend",
             .words = {{"synthetic", "", "--data_format=synthetic"},
                       {"pytorch", "", "--last_batch=drop", "dtrain's own loader decodes the images, on the CPU"},
                       {"*", "", "",
                        "dtrain's own loader decodes the images, on the CPU, and resizes with antialiasing, as "
                        "--data-backend pytorch"}}},
            {.name = "lr_schedule",
             .flag = "lr_schedule",
             .words = {{"linear", "poly", "--poly_power=1"}},
             .other_words_pass = true},
            {.name = "end_lr", .translate = EndOfRate},
            {.name = "c", .words = kConfigs},
            {.name = "model_config", .flag = "model_config", .words = kConfigs, .other_words_pass = true},
            {.name = "static_loss_scale", .translate = LossScale},
            {.name = "dynamic_loss_scale",
             .takes_value = false,
             .implied = "--loss_scale=dynamic --loss_scale_window=100"},
            {.name = "memory_format", .words = {{"nhwc", "", "--channels_last"}, {"nchw", "", "--nochannels_last"}}},
            {.name = "use_ema", .translate = AverageOfNvidia},
            {.name = "augmentation", .flag = "augment", .words = {{"autoaugment", "autoaugment"}}},
            {.name = "mode",
             .flag = "mode",
             .words = {{"convergence", "train"}, {"benchmark_training", "train", "--eval_every_epochs=0"}},
             .other_words_pass = true},
            {.name = "platform", .translate = Platform},
            {.name = "precision",
             .flag = "precision",
             .words = {{"AMP", "amp"}, {"TF32", "tf32"}, {"FP32", "fp32"}},
             .other_words_pass = true},
            {.name = "last_bn_0_init", .words = {{"True", "", "--zero_init_residual"}}},
            {.name = "survival_prob", .translate = Survival}}}),
      .weak_signatures = {{"a", "resnet", kOwn}, {"arch", "resnet", kOwn}},
      .scripts = {"launch.py"}};
  return program;
}

}  // namespace dtrain::config
