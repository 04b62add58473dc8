// NVIDIA's defaults are those of the ConvNets of DeepLearningExamples (PyTorch/Classification/ConvNets, of 2023):
// main.py, image_classification/optimizers.py, dataloaders.py and models/. What is not listed is the same here, or
// cannot change a number.
#include <algorithm>
#include <array>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kSaves = "--save_every_epochs and --keep_checkpoints set when to save and how many to keep";

std::string ModelOf(const ForeignCommand& command) { return command.Value({"arch", "a", "model"}, "resnet50"); }

// A row of launch.py's configs.yml.
struct OfPlatform {
  std::string_view model, platform, precision;
  int batch, optimizer_batch;
  std::string_view lr, weight_decay;
};
constexpr auto kPlatforms = std::to_array<OfPlatform>({
    {"resnet50", "DGX1V", "AMP", 256, 2048, "2.048", "3.0517578125e-05"},
    {"resnet50", "DGX1V", "FP32", 112, 896, "0.896", "6.103515625e-05"},
    {"resnet50", "DGX2V", "AMP", 256, 4096, "4.096", "3.0517578125e-05"},
    {"resnet50", "DGX2V", "FP32", 256, 4096, "4.096", "3.0517578125e-05"},
    {"resnet50", "DGXA100", "AMP", 256, 2048, "2.048", "3.0517578125e-05"},
    {"resnet50", "DGXA100", "TF32", 256, 2048, "2.048", "3.0517578125e-05"},
    {"resnet50", "T4", "AMP", 256, 2048, "2.048", "3.0517578125e-05"},
    {"resnet50", "T4", "FP32", 128, 2048, "2.048", "3.0517578125e-05"},
    {"efficientnet-b0", "T4", "AMP", 128, 4096, "0.08", "1e-05"},
    {"efficientnet-b0", "T4", "FP32", 64, 4096, "0.08", "1e-05"},
    {"efficientnet-b0", "DGX1V-16G", "AMP", 128, 4096, "0.08", "1e-05"},
    {"efficientnet-b0", "DGX1V-16G", "FP32", 64, 4096, "0.08", "1e-05"},
    {"efficientnet-b0", "DGX1V-32G", "AMP", 256, 4096, "0.08", "1e-05"},
    {"efficientnet-b0", "DGX1V-32G", "FP32", 128, 4096, "0.08", "1e-05"},
    {"efficientnet-b0", "DGXA100", "AMP", 256, 4096, "0.08", "1e-05"},
    {"efficientnet-b0", "DGXA100", "TF32", 256, 4096, "0.08", "1e-05"},
    {"efficientnet-b4", "T4", "AMP", 32, 4096, "0.16", "5e-06"},
    {"efficientnet-b4", "T4", "FP32", 16, 4096, "0.16", "5e-06"},
    {"efficientnet-b4", "DGX1V-16G", "AMP", 32, 4096, "0.16", "5e-06"},
    {"efficientnet-b4", "DGX1V-16G", "FP32", 16, 4096, "0.16", "5e-06"},
    {"efficientnet-b4", "DGX1V-32G", "AMP", 64, 4096, "0.16", "5e-06"},
    {"efficientnet-b4", "DGX1V-32G", "FP32", 32, 4096, "0.16", "5e-06"},
    {"efficientnet-b4", "DGXA100", "AMP", 128, 4096, "0.16", "5e-06"},
    {"efficientnet-b4", "DGXA100", "TF32", 64, 4096, "0.16", "5e-06"},
});

// Returns the row that a command of launch.py names; or null.
const OfPlatform* PlatformOf(const ForeignCommand& command) {
  const std::string platform = command.Value({"platform"}, "");
  const auto* const found = std::ranges::find_if(kPlatforms, [&](const OfPlatform& one) {
    const bool is_a_dgx1 = one.platform == "DGX1V" && (platform == "DGX1V-16G" || platform == "DGX1V-32G");
    return one.model == ModelOf(command) && (one.platform == platform || is_a_dgx1) &&
           one.precision == command.Value({"precision"}, "");
  });
  return found == kPlatforms.end() ? nullptr : found;
}

std::string ScheduleOf(const ForeignCommand& command) {
  return command.Value({"lr_schedule"}, PlatformOf(command) == nullptr ? "step" : "cosine");
}

void AddPlatform(const OfPlatform& platform, std::vector<std::string>& flags) {
  flags.insert(flags.end(),
               {"--batch_size=" + std::to_string(platform.batch),
                "--global_batch_size=" + std::to_string(platform.optimizer_batch), "--lr=" + std::string(platform.lr),
                "--weight_decay=" + std::string(platform.weight_decay)});
  AddFlags("--lr_schedule=cosine --label_smoothing=0.1 --mixup=0.2 --last_batch=drop", flags);
  AddFlags(platform.model == "resnet50" ? "--momentum=0.875 --warmup_epochs=8 --epochs=250"
                                        : "--optimizer=rmsprop --rmsprop_eps=0.01 --warmup_epochs=16 --epochs=400 "
                                          "--augment=autoaugment --interpolation=bicubic",
           flags);
}

// Their evaluation adds 32 pixels to the side of the crop.
void AddModel(const ForeignCommand& command, std::vector<std::string>& flags) {
  const bool is_b4 = ModelOf(command).ends_with("b4");
  const double size = command.Number({"image_size"}, is_b4 ? 380 : 224);
  if (is_b4) flags.push_back("--image_size=380");
  flags.push_back("--eval_resize=" + ToText(Value(size + 32)));
  if (!ModelOf(command).starts_with("efficientnet")) return;
  AddFlags("--bn_momentum=0.01 --bn_eps=0.001", flags);
  flags.push_back(is_b4 ? "--drop_path=0.2" : "--drop_path=0");
}

std::vector<std::string> DefaultsOfNvidia(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags("--lr_per_epoch=true --warmup_from_one=true --decay_norm_and_bias=false --log_interval=10", flags);
  if (const OfPlatform* platform = PlatformOf(command)) {
    AddPlatform(*platform, flags);
  } else {
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
  if (PlatformOf(command) != nullptr) return {};
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
  return {{"--drop_path=" + ToText(Value(1 - *part))}};
}

}  // namespace

const ForeignProgram& NvidiaProgram() {
  static const ForeignProgram program = {
      .name = "nvidia",
      .called = "NVIDIA's ConvNets",
      .signatures = {{"arch", "efficientnet-"},
                     {"a", "efficientnet-"},
                     {"model", "efficientnet-"},
                     {"mode", "convergence"},
                     {"mode", "benchmark_training"}},
      .defaults = DefaultsOfNvidia,
      .rows = {{.name = "data_backend",
                .words = {{"synthetic", "", "--data_format=synthetic"},
                          {"pytorch", "", "--last_batch=drop", "dtrain's own loader decodes the images, on the CPU"},
                          {"*", "", "",
                           "dtrain's own loader decodes the images, on the CPU, and resizes with antialiasing, as "
                           "--data-backend pytorch"}}},
               {.name = "prefetch", .flag = "prefetch_batches"},
               {.name = "run_epochs",
                .words = {{"-1", ""}},
                .refused = "--limit_train_steps ends a run early without changing its schedule"},
               {.name = "early_stopping_patience",
                .flag = "stop_after_epochs_without_gain",
                .words = {{"-1", ""}},  // never
                .other_words_pass = true},
               {.name = "optimizer_batch_size",
                .flag = "global_batch_size",
                .words = {{"-1", ""}},  // --batch-size alone decides
                .other_words_pass = true},
               {.name = "lr_schedule",
                .flag = "lr_schedule",
                .words = {{"linear", "poly", "--poly_power=1"}},
                .other_words_pass = true},
               {.name = "end_lr", .translate = EndOfRate},
               {.name = "warmup", .flag = "warmup_epochs"},
               {.name = "bn_weight_decay", .takes_value = false, .implied = "--decay_norm_and_bias"},
               {.name = "static_loss_scale", .translate = LossScale},
               {.name = "dynamic_loss_scale",
                .takes_value = false,
                .implied = "--loss_scale=dynamic --loss_scale_window=100"},
               {.name = "prof", .flag = "limit_train_steps", .words = {{"-1", ""}}, .other_words_pass = true},
               {.name = "gather_checkpoints", .reason = kSaves},
               {.name = "raport_file", .reason = "result.json and metrics.jsonl of the run directory have the numbers"},
               {.name = "training_only", .takes_value = false, .implied = "--eval_every_epochs=0"},
               {.name = "no_checkpoints", .takes_value = false, .implied = "--save_every_epochs=0"},
               {.name = "jit", .reason = "there is no Python code to compile"},
               {.name = "checkpoint_filename", .reason = "a run resumes from its own checkpoints automatically"},
               {.name = "workspace", .flag = "run_dir"},
               {.name = "memory_format", .words = {{"nhwc", "", "--channels_last"}, {"nchw", "", "--nochannels_last"}}},
               {.name = "use_ema", .translate = AverageOfNvidia},
               {.name = "augmentation", .flag = "augment", .words = {{"autoaugment", "autoaugment"}}},
               {.name = "gpu_affinity", .reason = "threads stay on the cores that the launcher grants"},
               {.name = "topk", .reason = "top-1 and top-5 are reported"},
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
               {.name = "conv_init",
                .words = {{"fan_out", ""}},
                .refused = "convolutions begin with a variance by fan-out; leave it out"},
               {.name = "bn_epsilon", .flag = "bn_eps"},
               {.name = "survival_prob", .translate = Survival}},
      .scripts = {"launch.py"}};
  return program;
}

}  // namespace dtrain::config
