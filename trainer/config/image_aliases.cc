// The rows that several image programs share, and those of PyTorch's ImageNet example; fairseq_program.cc has those for
// text, the *_program.cc those that only one program has.
#include "trainer/config/aliases.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kOwnAverage =
    "--ema_decay=D --ema_every=STEPS keep an average; the equivalent of theirs is D = 1 - (1 - decay) x STEPS x global "
    "batch / epochs";
constexpr std::string_view kResumes = "a run resumes from its own checkpoints automatically";

// DeiT's program has a teacher only with a --distillation-type, which is none by default.
Translation DeitsTeacher(const std::string& path, const ForeignCommand& command) {
  if (command.Value({"distillation_type"}, "none") != "none") return {.flags = {"--teacher=" + path}};
  return {.note = "without --distillation-type=hard there is no teacher"};
}

std::vector<Alias> Shared() {
  return {
      {.name = "j", .flag = "workers"},
      {.name = "b", .flag = "batch_size"},
      {.name = "wd", .flag = "weight_decay"},
      {.name = "warmup_lr", .flag = "warmup_start_lr"},
      {.name = "log_dir", .flag = "run_dir"},
      {.name = "synthetic", .takes_value = false, .implied = "--data_format=synthetic"},
      {.name = "eval", .takes_value = false, .implied = "--mode=eval"},
      {.name = "output_dir", .flag = "run_dir"},
      {.name = "opt",
       .flag = "optimizer",
       .words = {{"sgd", "sgd"},
                 {"sgd_nesterov", "sgd", "--nesterov"},
                 {"momentum", "sgd"},
                 {"adam", "adam"},
                 {"adamw", "adamw"},
                 {"lamb", "lamb"},
                 {"lars", "lars"},
                 {"rmsproptf", "rmsprop_tf"}}},
      {.name = "amp", .takes_value = false, .implied = "--precision=amp"},
      {.name = "apex", .takes_value = false, .implied = "--precision=amp"},
      {.name = "print_freq", .flag = "log_interval"},
      {.name = "device",
       .words = {{"cuda*", "", "--require_gpu"}, {"gpu", "", "--require_gpu"}, {"cpu", "", "--backend=gloo"}}},
      {.name = "dist_url",
       .reason = "launchers are recognised automatically; --master_addr and --master_port name rank 0"},
      {.name = "start_epoch", .words = {{"0", ""}}, .refused = kResumes},
      {.name = "pretrained", .takes_value = false, .refused = "--init_weights=FILE starts from weights"},
      {.name = "model_ema", .takes_value = false, .refused = kOwnAverage},
      {.name = "model_ema_decay", .refused = kOwnAverage},
      {.name = "teacher_path", .translate = DeitsTeacher},
      {.name = "distillation_type",
       .flag = "distill",
       .words = {{"none", ""}, {"hard", "hard"}},
       .refused = "DeiT divides its soft loss by the number of classes, too; --distill=soft has the mean over samples"},
      {.name = "distillation_alpha", .flag = "distill_weight"},
      {.name = "distillation_tau", .reason = "hard distillation has no temperature"},
      // Configurations of runs before --ema_start have it.
      {.name = "ema_ramp", .flag = "ema_start", .words = {{"true", "tensorflow"}, {"false", "torchvision"}}},
      {.name = "noema_ramp", .takes_value = false, .implied = "--ema_start=torchvision"},
  };
}

// Models that torchvision and NVIDIA call otherwise than timm, whose names are ours.
std::vector<Alias> Models() {
  const std::vector<Word> words = {{"vit_b_16", "vit_base_patch16_224"},      {"vit_b_32", "vit_base_patch32_224"},
                                   {"vit_l_16", "vit_large_patch16_224"},     {"vit_l_32", "vit_large_patch32_224"},
                                   {"vit_h_14", "vit_huge_patch14_224"},      {"efficientnet_v2_s", "efficientnetv2_s"},
                                   {"efficientnet_v2_m", "efficientnetv2_m"}, {"efficientnet_v2_l", "efficientnetv2_l"},
                                   {"efficientnet-b0", "efficientnet_b0"},    {"efficientnet-b4", "efficientnet_b4"}};
  const auto row = [&](std::string_view name, std::string_view flag) {
    return Alias{.name = name, .flag = flag, .words = words, .other_words_pass = true};
  };
  return {row("model", "model"), row("arch", "model"), row("a", "model"), row("teacher_model", "teacher_model")};
}

std::vector<Alias> Torchelastic() {
  return {
      {.name = "p", .flag = "log_interval"},
      {.name = "learning_rate", .flag = "lr"},
      {.name = "dist_backend", .flag = "backend"},
      {.name = "checkpoint_file", .reason = kResumes},
      {.name = "evaluate", .takes_value = false, .implied = "--mode=eval"},
      {.name = "e", .takes_value = false, .implied = "--mode=eval"},
      {.name = "gpu",
       .reason = "each rank uses the GPU with its local rank as index, among those in CUDA_VISIBLE_DEVICES"},
      {.name = "dummy", .takes_value = false, .implied = "--data_format=synthetic"},
  };
}

}  // namespace

const std::vector<Alias>& ImageAliases() {
  static const std::vector<Alias> table = Together({Shared(), Models(), Torchelastic()});
  return table;
}

}  // namespace dtrain::config
