// The rows for image programs; text_aliases.cc has those for text, timm_program.cc and torchvision_program.cc those
// that only these have. If two programs disagree about a flag, only the row that is found first exists.
#include "trainer/config/alias_table.h"

#include <algorithm>

namespace dtrain::config {
namespace {

constexpr std::string_view kOwnAverage =
    "--ema_decay=D --ema_every=STEPS keep an average; the equivalent of theirs is D = 1 - (1 - decay) x STEPS x global "
    "batch / epochs";
constexpr std::string_view kAllOfColor =
    "it counts with --increased_aug, which has its default here; --color_jitter=BRIGHTNESS,CONTRAST,SATURATION,HUE "
    "sets "
    "all four";
constexpr std::string_view kSaves =
    "--save_every_epochs and --save_every_seconds set when to save, --keep_checkpoints how many to keep";
constexpr std::string_view kDevices = "the launcher or --nproc_per_node sets the number of devices";
constexpr std::string_view kResumes = "a run resumes from its own checkpoints automatically";

std::vector<Alias> AwsImageNet() {
  return {
      {.name = "m", .flag = "model"},
      {.name = "b", .flag = "batch_size"},
      {.name = "num_epochs", .flag = "epochs"},
      {.name = "lr_decay_mode",
       .flag = "lr_schedule",
       .words = {{"poly", "poly", "--poly_power=2 --end_lr=1e-5"},
                 {"cosine", "cosine"},
                 {"steps", "step"},
                 {"linear_cosine", "linear_cosine", "--cosine_periods=0.47 --cosine_beta=1e-5"}}},
      {.name = "lc_periods", .flag = "cosine_periods"},
      {.name = "lc_alpha", .flag = "cosine_alpha"},
      {.name = "lc_beta", .flag = "cosine_beta"},
      {.name = "intra_op_parallelism_threads", .reason = "--workers sets the decoding threads"},
      {.name = "inter_op_parallelism_threads", .reason = "--workers sets the decoding threads"},
      {.name = "num_parallel_calls", .flag = "workers"},
      {.name = "lr_decay_steps", .flag = "lr_decay_epochs"},
      {.name = "lr_decay_lrs", .refused = "--lr_decay_factor sets the factor on the rate"},
      {.name = "log_dir", .flag = "run_dir"},
      {.name = "log_name", .reason = "redirect the output in the shell to keep it; metrics.jsonl has the numbers"},
      {.name = "local_ckpt",
       .takes_value = false,
       .reason = "only rank 0 writes checkpoints, and the others get them from it"},
      {.name = "synthetic", .takes_value = false, .implied = {"--data_format=synthetic"}},
      {.name = "mom", .flag = "momentum"},
      {.name = "wd", .flag = "weight_decay"},
      {.name = "wdecay", .flag = "weight_decay"},
      {.name = "display_every", .flag = "log_interval"},
      {.name = "num_batches", .flag = "max_steps"},
      {.name = "warmup_lr", .flag = "warmup_start_lr"},
      {.name = "eval", .takes_value = false, .implied = {"--mode=eval"}},
      {.name = "eval_interval", .flag = "eval_every_epochs"},
      {.name = "num_gpus", .reason = kDevices},
      {.name = "save_checkpoints_steps", .reason = kSaves},
      {.name = "save_summary_steps", .reason = "--log_interval sets how often numbers are written"},
      {.name = "adv_bn_init", .takes_value = false, .implied = {"--zero_init_residual"}},
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
  };
}

// What torchvision's and timm's scripts share with each other or with others.
std::vector<Alias> Shared() {
  return {
      {.name = "j", .flag = "workers"},
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
      {.name = "amp", .takes_value = false, .implied = {"--precision=amp"}},
      {.name = "apex", .takes_value = false, .implied = {"--precision=amp"}},
      {.name = "print_freq", .flag = "log_interval"},
      {.name = "device",
       .words = {{"cuda*", "", "--require_gpu"}, {"gpu", "", "--require_gpu"}, {"cpu", "", "--backend=gloo"}}},
      {.name = "dist_url",
       .reason = "launchers are recognised automatically; --master_addr and --master_port name rank 0"},
      {.name = "start_epoch", .words = {{"0", ""}}, .refused = kResumes},
      {.name = "pretrained", .takes_value = false, .refused = "--init_weights=FILE starts from weights"},
      {.name = "model_ema", .takes_value = false, .refused = kOwnAverage},
      {.name = "model_ema_decay", .refused = kOwnAverage},
      // Configurations of runs before --ema_start have it.
      {.name = "ema_ramp", .flag = "ema_start", .words = {{"true", "tensorflow"}, {"false", "torchvision"}}},
      {.name = "noema_ramp", .takes_value = false, .implied = {"--ema_start=torchvision"}},
  };
}

std::vector<Alias> Torchelastic() {
  return {
      {.name = "a", .flag = "model"},
      {.name = "p", .flag = "log_interval"},
      {.name = "learning_rate", .flag = "lr"},
      {.name = "dist_backend", .flag = "backend"},
      {.name = "checkpoint_file", .reason = kResumes},
      {.name = "evaluate", .takes_value = false, .implied = {"--mode=eval"}},
      {.name = "e", .takes_value = false, .implied = {"--mode=eval"}},
      {.name = "gpu",
       .reason = "each rank uses the GPU with its local rank as index, among those in CUDA_VISIBLE_DEVICES"},
      {.name = "multiprocessing_distributed", .takes_value = false, .reason = "--nproc_per_node=auto takes all GPUs"},
      {.name = "dummy", .takes_value = false, .implied = {"--data_format=synthetic"}},
  };
}

std::vector<Alias> NvidiaConvNets() {
  return {
      {.name = "model",
       .flag = "model",
       .words = {{"efficientnet-b0", "efficientnet_b0"}, {"efficientnet-b4", "efficientnet_b4"}},
       .other_words_pass = true},
      {.name = "data_backend",
       .words = {{"synthetic", "", "--data_format=synthetic"},
                 {"*", "", "", "dtrain's own loader decodes the images, on the CPU"}}},
      {.name = "prefetch", .flag = "prefetch_batches"},
      {.name = "run_epochs",
       .words = {{"-1", ""}},
       .refused = "--limit_train_steps ends a run early without changing its schedule"},
      {.name = "optimizer_batch_size", .flag = "global_batch_size"},
      {.name = "lr_schedule",
       .flag = "lr_schedule",
       .words = {{"linear", "poly", "--poly_power=1"}},
       .other_words_pass = true},
      {.name = "warmup", .flag = "warmup_epochs"},
      {.name = "bn_weight_decay", .takes_value = false, .implied = {"--decay_norm_and_bias"}},
      {.name = "static_loss_scale", .flag = "loss_scale"},
      {.name = "dynamic_loss_scale", .takes_value = false, .implied = {"--loss_scale=dynamic"}},
      {.name = "prof", .flag = "limit_train_steps"},
      {.name = "gather_checkpoints", .reason = kSaves},
      {.name = "raport_file", .reason = "result.json and metrics.jsonl of the run directory have the numbers"},
      {.name = "training_only", .takes_value = false, .implied = {"--eval_every_epochs=0"}},
      {.name = "no_checkpoints", .takes_value = false, .implied = {"--save_every_epochs=0"}},
      {.name = "jit", .reason = "there is no Python code to compile"},
      {.name = "checkpoint_filename", .reason = kResumes},
      {.name = "workspace", .flag = "run_dir"},
      {.name = "memory_format", .words = {{"nhwc", "", "--channels_last"}, {"nchw", "", "--nochannels_last"}}},
      {.name = "use_ema", .refused = kOwnAverage},
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
  };
}

std::vector<Alias> Horovod() {
  return {
      {.name = "fp16_allreduce", .takes_value = false, .implied = {"--grad_compression=fp16"}},
      {.name = "batches_per_allreduce", .flag = "grad_accum_steps"},
      {.name = "val_batch_size", .reason = "evaluation uses the batch size of training"},
      {.name = "no_cuda", .takes_value = false, .implied = {"--backend=gloo"}},
  };
}

}  // namespace

const std::vector<Alias>& ImageAliases() {
  static const std::vector<Alias> table = [] {
    std::vector<Alias> all;
    for (const auto& rows : {AwsImageNet(), Shared(), Torchelastic(), NvidiaConvNets(), Horovod()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return table;
}

const Alias* FindSharedAlias(std::string_view name) {
  for (const auto* table : {&TextAliases(), &ImageAliases(), &UnsupportedAliases()}) {
    const auto found =
        std::find_if(table->begin(), table->end(), [&](const Alias& alias) { return alias.name == name; });
    if (found != table->end()) return &*found;
  }
  return nullptr;
}

}  // namespace dtrain::config
