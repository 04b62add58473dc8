// The defaults of AWS's train_imagenet_resnet_hvd.py (aws-samples/deep-learning-models, TensorFlow with Horovod). Its
// last version, of 2019, counts, unless a command can only be one of 2018, which had a rate of 6.4, float32 and gammas
// of 1. What is not listed is the same here, or cannot change a number.
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kAllOfColor =
    "it counts with --increased_aug, which has its default here; --color_jitter=BRIGHTNESS,CONTRAST,SATURATION,HUE "
    "sets "
    "all four";
constexpr std::string_view kThreads = "--workers sets the decoding threads";

std::string ModeOf(const ForeignCommand& command) { return command.Value({"lr_decay_mode"}, "poly"); }

// In 2019 a list of rates took the place of the factor.
bool IsOf2018(const ForeignCommand& command) {
  return command.Has({"lr_decay_factor"}) || (ModeOf(command) == "steps" && !command.Has({"lr_decay_lrs"}));
}

void AddRate(const ForeignCommand& command, std::vector<std::string>& flags) {
  if (command.Has({"lr", "use_larc"})) return;
  if (IsOf2018(command)) return flags.push_back("--lr=6.4");
  flags.insert(flags.end(), {"--lr=0.1", "--lr_base_batch=256"});
}

std::vector<std::string> DefaultsOfAws(const ForeignCommand& command) {
  std::vector<std::string> flags;
  if (!command.Has({"global_batch_size"})) flags.push_back("--batch_size=256");
  AddRate(command, flags);
  if (ModeOf(command) == "poly") flags.push_back("--end_lr=1e-05");
  flags.insert(flags.end(), {"--warmup_start_lr=0.001", "--nesterov=true", "--decay_norm_and_bias=false"});
  if (!IsOf2018(command)) flags.insert(flags.end(), {"--precision=amp", "--zero_init_residual=true"});
  flags.insert(flags.end(), {"--loss_scale=1024", "--bn_eps=0.0001", "--mean=0.47451,0.45098,0.392157",
                             "--std=0.27451,0.266667,0.278431", "--eval_resize=280", "--log_interval=50"});
  return flags;
}

// A single step would be a period here.
Translation Steps(const std::string& value, const ForeignCommand& command) {
  if (ModeOf(command) != "steps") return {};
  return {{"--lr_decay_epochs=" + value + (value.find(',') == std::string::npos ? ",1000000" : "")}};
}

Translation Batches(const std::string& value, const ForeignCommand& command) {
  if (command.Has({"num_epochs"})) return {.note = "--num_epochs counts instead"};
  return {{"--max_steps=" + value, "--epochs=1000000"}};
}

}  // namespace

const ForeignProgram& AwsProgram() {
  static const ForeignProgram program = {
      .name = "aws",
      .called = "AWS's train_imagenet_resnet_hvd.py",
      .signatures = {},
      .defaults = DefaultsOfAws,
      .rows = {
          {.name = "m", .flag = "model"},
          {.name = "num_epochs", .flag = "epochs"},
          {.name = "lr_decay_mode",
           .flag = "lr_schedule",
           .words = {{"poly", "poly", "--poly_power=2 --end_lr=1e-5"},
                     {"cosine", "cosine"},
                     {"steps", "step", "--lr_decay_epochs=30,60,80 --schedule_through_warmup"},
                     {"linear_cosine", "linear_cosine", "--cosine_periods=0.47 --cosine_beta=1e-5"}}},
          {.name = "lc_periods", .flag = "cosine_periods"},
          {.name = "lc_alpha", .flag = "cosine_alpha"},
          {.name = "lc_beta", .flag = "cosine_beta"},
          {.name = "intra_op_parallelism_threads", .reason = kThreads},
          {.name = "inter_op_parallelism_threads", .reason = kThreads},
          {.name = "num_parallel_calls", .flag = "workers"},
          {.name = "lr_decay_steps", .translate = Steps},
          {.name = "lr_decay_lrs", .refused = "--lr_decay_factor sets the factor on the rate"},
          {.name = "log_name", .reason = "redirect the output in the shell to keep it; metrics.jsonl has the numbers"},
          {.name = "local_ckpt",
           .takes_value = false,
           .reason = "only rank 0 writes checkpoints, and the others get them from it"},
          {.name = "mom", .flag = "momentum"},
          {.name = "wdecay", .flag = "weight_decay"},
          {.name = "nofp16", .takes_value = false, .implied = {"--precision=fp32"}},
          {.name = "display_every", .flag = "log_interval"},
          {.name = "num_batches", .translate = Batches},
          {.name = "eval_interval", .flag = "eval_every_epochs"},
          {.name = "num_gpus", .reason = "the launcher or --nproc_per_node sets the number of devices"},
          {.name = "save_checkpoints_steps",
           .reason =
               "--save_every_epochs and --save_every_seconds set when to save, --keep_checkpoints how many to keep"},
          {.name = "save_summary_steps", .reason = "--log_interval sets how often numbers are written"},
          {.name = "adv_bn_init", .takes_value = false, .implied = {"--zero_init_residual"}},
          {.name = "noadv_bn_init", .takes_value = false, .implied = {"--nozero_init_residual"}},
          {.name = "adv_conv_init", .takes_value = false, .reason = "convolutions are always initialised that way"},
          {.name = "brightness", .words = {{"0.3", ""}}, .refused = kAllOfColor},
          {.name = "contrast", .words = {{"0.6", ""}}, .refused = kAllOfColor},
          {.name = "saturation", .words = {{"0.6", ""}}, .refused = kAllOfColor},
          {.name = "hue", .words = {{"0.13", ""}}, .refused = kAllOfColor},
          {.name = "increased_aug", .takes_value = false, .implied = {"--color_jitter=0,0.4,0.4,0.065"}},
          {.name = "use_larc",
           .takes_value = false,
           .implied = {"--optimizer=lars", "--lars_clip", "--lars_trust=0.013", "--decay_norm_and_bias", "--lr=3.7"}},
          {.name = "leta", .flag = "lars_trust"},
      }};
  return program;
}

}  // namespace dtrain::config
