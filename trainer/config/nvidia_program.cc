// NVIDIA's defaults are those of the ConvNets of DeepLearningExamples (PyTorch/Classification/ConvNets, of 2023):
// main.py, image_classification/optimizers.py, dataloaders.py and models/. What is not listed is the same here, or
// cannot change a number.
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kSaves = "--save_every_epochs and --keep_checkpoints set when to save and how many to keep";

std::string ModelOf(const ForeignCommand& command) { return command.Value({"arch", "a", "model"}, "resnet50"); }

std::string ScheduleOf(const ForeignCommand& command) { return command.Value({"lr_schedule"}, "step"); }

// Their evaluation adds 32 pixels to the side of the crop.
void AddModel(const ForeignCommand& command, std::vector<std::string>& flags) {
  const bool is_b4 = ModelOf(command).ends_with("b4");
  const double size = command.Number({"image_size"}, is_b4 ? 380 : 224);
  if (is_b4) flags.push_back("--image_size=380");
  flags.push_back("--eval_resize=" + ToText(Value(size + 32)));
  if (!ModelOf(command).starts_with("efficientnet")) return;
  flags.insert(flags.end(), {"--bn_momentum=0.01", "--bn_eps=0.001", is_b4 ? "--drop_path=0.2" : "--drop_path=0"});
}

// Their gradient scaler begins with 1 and is static, unless its flags or launch.py's --precision AMP say more.
void AddLossScale(const ForeignCommand& command, std::vector<std::string>& flags) {
  if (command.Value({"precision"}, "") == "AMP") {
    flags.push_back("--loss_scale=128");
  } else if (command.Has({"amp"})) {
    flags.push_back("--loss_scale=1");
  }
}

std::vector<std::string> DefaultsOfNvidia(const ForeignCommand& command) {
  std::vector<std::string> flags = {"--lr=0.1", "--lr_per_epoch=true", "--warmup_from_one=true",
                                    "--decay_norm_and_bias=false", "--log_interval=10"};
  if (!command.Has({"global_batch_size"})) flags.insert(flags.begin(), "--batch_size=256");
  if (ScheduleOf(command) == "step") {
    flags.insert(flags.end(), {"--lr_schedule=step", "--lr_decay_epochs=30,60,80", "--schedule_through_warmup=true"});
  }
  AddModel(command, flags);
  AddLossScale(command, flags);
  return flags;
}

Translation Optimizer(const std::string& value, const ForeignCommand&) {
  if (value != "rmsprop") return {{"--optimizer=" + value}};
  return {.refused =
              "theirs is PyTorch's, with epsilon beside the root and averages from 0; --optimizer=rmsprop_tf is "
              "TensorFlow's, with epsilon inside and averages from 1"};
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
      .rows = {
          {.name = "model",
           .flag = "model",
           .words = {{"efficientnet-b0", "efficientnet_b0"}, {"efficientnet-b4", "efficientnet_b4"}},
           .other_words_pass = true},
          {.name = "data_backend",
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
          {.name = "optimizer", .translate = Optimizer},
          {.name = "bn_weight_decay", .takes_value = false, .implied = {"--decay_norm_and_bias"}},
          {.name = "static_loss_scale", .translate = LossScale},
          {.name = "dynamic_loss_scale",
           .takes_value = false,
           .implied = {"--loss_scale=dynamic", "--loss_scale_window=100"}},
          {.name = "prof", .flag = "limit_train_steps", .words = {{"-1", ""}}, .other_words_pass = true},
          {.name = "gather_checkpoints", .reason = kSaves},
          {.name = "raport_file", .reason = "result.json and metrics.jsonl of the run directory have the numbers"},
          {.name = "training_only", .takes_value = false, .implied = {"--eval_every_epochs=0"}},
          {.name = "no_checkpoints", .takes_value = false, .implied = {"--save_every_epochs=0"}},
          {.name = "jit", .reason = "there is no Python code to compile"},
          {.name = "checkpoint_filename", .reason = "a run resumes from its own checkpoints automatically"},
          {.name = "workspace", .flag = "run_dir"},
          {.name = "memory_format", .words = {{"nhwc", "", "--channels_last"}, {"nchw", "", "--nochannels_last"}}},
          {.name = "use_ema",
           .refused = "its n-th update, of each micro-step, keeps n / (9 + n) at most; --ema_decay=D keeps (1 + n) / "
                      "(10 + n) of each step"},
          {.name = "augmentation", .flag = "augment", .words = {{"autoaugment", "autoaugment"}}},
          {.name = "gpu_affinity", .reason = "threads stay on the cores that the launcher grants"},
          {.name = "topk", .reason = "top-1 and top-5 are reported"},
          {.name = "mode",
           .flag = "mode",
           .words = {{"convergence", "train"}, {"benchmark_training", "train", "--eval_every_epochs=0"}},
           .other_words_pass = true},
          {.name = "platform", .refused = "set --batch_size, --lr and --precision, which it implies there"},
          {.name = "precision",
           .flag = "precision",
           .words = {{"AMP", "amp"}, {"TF32", "tf32"}, {"FP32", "fp32"}},
           .other_words_pass = true},
          {.name = "last_bn_0_init", .words = {{"True", "", "--zero_init_residual"}}},
          {.name = "conv_init",
           .words = {{"fan_out", ""}},
           .refused = "convolutions begin with a variance by fan-out; leave it out"},
          {.name = "bn_epsilon", .flag = "bn_eps"},
          {.name = "survival_prob", .translate = Survival}}};
  return program;
}

}  // namespace dtrain::config
