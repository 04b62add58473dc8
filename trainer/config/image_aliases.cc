// The rows for image programs; text_aliases.cc has those for text. If two programs disagree about a flag, only the row
// that FindAlias finds first exists.
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
constexpr std::string_view kGoesOn = "a run resumes from its own checkpoints automatically";

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

std::vector<Alias> Torchvision() {
  return {
      {.name = "data_path", .flag = "data_dir"},
      {.name = "output_dir", .flag = "run_dir"},
      {.name = "j", .flag = "workers"},
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
      {.name = "lr_warmup_epochs", .flag = "warmup_epochs"},
      {.name = "lr_warmup_method", .words = {{"linear", ""}}},
      {.name = "lr_min", .flag = "end_lr"},
      {.name = "lr_step_size", .flag = "lr_decay_epochs"},
      {.name = "lr_gamma", .flag = "lr_decay_factor"},
      {.name = "amp", .takes_value = false, .implied = {"--precision=amp"}},
      {.name = "apex", .takes_value = false, .implied = {"--precision=amp"}},
      {.name = "norm_weight_decay", .words = {{"0", ""}, {"0.0", ""}}, .implied = {"--nodecay_norm_and_bias"}},
      {.name = "bias_weight_decay", .words = {{"0", ""}, {"0.0", ""}}, .implied = {"--nodecay_norm_and_bias"}},
      {.name = "transformer_embedding_decay", .reason = "dtrain has no transformer for images"},
      {.name = "mixup_alpha", .flag = "mixup"},
      {.name = "cutmix_alpha", .flag = "cutmix"},
      {.name = "auto_augment",
       .flag = "augment",
       .words = {{"ta_wide", "trivialaugment"}, {"ra", "randaugment"}, {"imagenet", "autoaugment"}},
       .implied = {"--augment_interpolation=bilinear"}},
      {.name = "ra_magnitude", .words = {{"9", ""}}, .refused = "randaugment has a magnitude of 9"},
      {.name = "augmix_severity", .words = {{"3", ""}}, .refused = "dtrain has no AugMix"},
      {.name = "random_erase", .flag = "random_erasing"},
      {.name = "ra_reps", .flag = "repeated_augmentation"},
      {.name = "ra_sampler", .takes_value = false, .implied = {"--repeated_augmentation=3"}},
      {.name = "val_resize_size", .flag = "eval_resize"},
      {.name = "train_crop_size", .flag = "image_size_schedule", .before = "0:"},
      {.name = "val_crop_size", .flag = "image_size"},
      {.name = "clip_grad_norm", .flag = "clip_norm"},
      {.name = "print_freq", .flag = "log_interval"},
      {.name = "test_only", .takes_value = false, .implied = {"--mode=eval"}},
      {.name = "cache_dataset", .takes_value = false, .reason = "indexes are kept beside the data anyway"},
      {.name = "device",
       .words = {{"cuda*", "", "--require_gpu"}, {"gpu", "", "--require_gpu"}, {"cpu", "", "--backend=gloo"}}},
      {.name = "dist_url",
       .reason = "launchers are recognised automatically; --master_addr and --master_port name rank 0"},
      {.name = "use_deterministic_algorithms", .takes_value = false, .implied = {"--deterministic=run"}},
      {.name = "use_v2", .takes_value = false, .reason = "dtrain has its own transforms"},
      {.name = "backend",
       .flag = "backend",
       .words = {{"pil", "", "", "dtrain has its own transforms"},
                 {"PIL", "", "", "dtrain has its own transforms"},
                 {"tensor", "", "", "dtrain has its own transforms"}},
       .other_words_pass = true},
      {.name = "model_ema", .takes_value = false, .refused = kOwnAverage},
      {.name = "model_ema_steps", .refused = kOwnAverage},
      {.name = "model_ema_decay", .refused = kOwnAverage},
      {.name = "start_epoch", .words = {{"0", ""}}, .refused = kGoesOn},
      {.name = "pretrained", .takes_value = false, .refused = "--init_weights=FILE starts from weights"},
  };
}

std::vector<Alias> Torchelastic() {
  return {
      {.name = "a", .flag = "model"},
      {.name = "p", .flag = "log_interval"},
      {.name = "learning_rate", .flag = "lr"},
      {.name = "dist_backend", .flag = "backend"},
      {.name = "checkpoint_file", .reason = kGoesOn},
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
      {.name = "optimizer",
       .flag = "optimizer",
       .words = {{"rmsprop", "rmsprop_tf", "", "theirs is torch.optim.RMSprop, here it is TensorFlow's"}},
       .other_words_pass = true},
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
      {.name = "checkpoint_filename", .reason = kGoesOn},
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

std::vector<Alias> Timm() {
  return {
      {.name = "sched",
       .flag = "lr_schedule",
       .words = {{"cosine", "cosine"}, {"step", "step"}, {"multistep", "step"}, {"poly", "poly"}}},
      {.name = "decay_epochs", .flag = "lr_decay_epochs"},
      {.name = "decay_milestones", .flag = "lr_decay_epochs"},
      {.name = "decay_rate", .flag = "lr_decay_factor"},
      {.name = "dr", .flag = "lr_decay_factor"},
      {.name = "min_lr", .flag = "end_lr"},
      {.name = "cooldown_epochs", .words = {{"0", ""}}, .refused = "--schedule_steps may be shorter than the run"},
      {.name = "drop", .flag = "dropout"},
      {.name = "aa",
       .flag = "augment",
       .words = {{"rand*", "randaugment", "", "operators and magnitude are torchvision's, 2 and 9"},
                 {"original*", "autoaugment"},
                 {"v0*", "autoaugment"}}},
      {.name = "reprob", .flag = "random_erasing"},
      {.name = "remode",
       .words = {{"const", ""}},
       .refused = "erased pixels become the mean colour; leave it out if that will do"},
      {.name = "recount", .words = {{"1", ""}}, .refused = "only one rectangle is erased"},
      {.name = "smoothing", .flag = "label_smoothing"},
      {.name = "bce_loss", .takes_value = false, .implied = {"--loss=bce"}},
      {.name = "aug_repeats", .flag = "repeated_augmentation"},
      {.name = "aug_splits", .words = {{"0", ""}}, .refused = "there are no augmented copies with a loss of their own"},
      {.name = "native_amp", .takes_value = false, .implied = {"--precision=amp"}},
      {.name = "img_size", .flag = "image_size"},
      {.name = "train_interpolation",
       .flag = "interpolation",
       .words = {{"bilinear", "bilinear"},
                 {"bicubic", "bicubic"},
                 {"random", "bilinear", "", "the same filter is used for all images"}}},
      {.name = "hflip", .words = {{"0.5", ""}}},
      {.name = "dist_bn", .reason = "statistics of batch normalisation are averaged at every step"},
      {.name = "clip_grad", .flag = "clip_norm"},
      {.name = "experiment", .reason = "use --run_dir to name the folder"},
      {.name = "checkpoint_hist", .flag = "keep_checkpoints"},
      {.name = "initial_checkpoint", .flag = "init_weights"},
      {.name = "pin_mem", .takes_value = false, .reason = "batches are always pinned if there is a GPU"},
      {.name = "torchcompile", .takes_value = false, .reason = "there is no Python code to compile"},
      {.name = "eval_metric", .words = {{"top1", ""}}, .refused = "the weights that are best by top-1 are kept"},
      {.name = "amp_dtype", .flag = "precision", .words = {{"float16", "fp16"}, {"bfloat16", "bf16"}}},
      {.name = "no_aug", .takes_value = false, .implied = {"--augment=none"}},
      {.name = "val_interval", .flag = "eval_every_epochs"},
      {.name = "grad_checkpointing", .takes_value = false, .implied = {"--activation_checkpointing"}},
      {.name = "warmup_prefix", .takes_value = false, .reason = "the schedule begins after the warmup anyway"},
      {.name = "fuser", .reason = "there is no Python code to compile"},
      {.name = "torchcompile_mode", .reason = "there is no Python code to compile"},
      {.name = "torchscript", .takes_value = false, .reason = "there is no Python code to compile"},
      {.name = "no_prefetcher", .takes_value = false, .reason = "dtrain has its own loader"},
      {.name = "use_multi_epochs_loader", .takes_value = false, .reason = "dtrain has its own loader"},
      {.name = "synchronize_step", .takes_value = false, .reason = "it is for measuring"},
      {.name = "log_wandb", .takes_value = false, .reason = "scripts/sweeps/examples/wandb_trial.py passes numbers on"},
      {.name = "validation_batch_size", .reason = "evaluation uses the batch size of training"},
      {.name = "vb", .reason = "evaluation uses the batch size of training"},
      // Horovod's example
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
    for (const auto& rows : {AwsImageNet(), Torchvision(), Torchelastic(), NvidiaConvNets(), Timm()}) {
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return table;
}

const Alias* FindAlias(std::string_view name) {
  for (const auto* table : {&TextAliases(), &ImageAliases(), &UnsupportedAliases()}) {
    const auto found =
        std::find_if(table->begin(), table->end(), [&](const Alias& alias) { return alias.name == name; });
    if (found != table->end()) return &*found;
  }
  return nullptr;
}

}  // namespace dtrain::config
