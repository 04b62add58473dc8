// Flags that are understood but not translated: those of other programs without an equivalent, those that have another
// name here, and those that earlier versions had. People copy commands that name defaults, so of a flag without an
// equivalent the value that changes nothing is taken; such flags without a value are not here, since an unknown flag is
// refused anyway.
#include <algorithm>
#include <array>

#include "trainer/config/aliases.h"

namespace dtrain::config {
namespace {

// A flag, the value that changes nothing, and why others are refused.
struct Row {
  std::string_view name, harmless;
  std::string_view why = kOnlyDefault;
};
constexpr auto kRows = std::to_array<Row>({
    // fairseq-train 0.12.2 (fairseq/dataclass/configs.py, tasks/masked_lm.py, models/roberta/model.py, optim/)
    {"amp_batch_retries", "2"},
    {"amp_init_scale", "128"},
    {"checkpoint_shard_count", "1"},
    {"checkpoint_suffix", ""},
    {"curriculum", "0"},
    {"ema_start_update", "0"},
    {"ema_update_freq", "1"},
    {"ffn_reg_scale_factor", "0"},
    {"keep_interval_updates_pattern", "-1"},
    {"localsgd_frequency", "3"},
    {"lr_shrink", "0.1"},
    {"mask_stdev", "0"},
    {"mha_reg_scale_factor", "0"},
    {"num_shards", "1"},
    {"optimizer_overrides", "{}"},
    {"pipeline_chunks", "0"},
    {"pipeline_checkpoint", "never"},
    {"quant_noise_pq", "0"},
    {"quant_noise_pq_block_size", "8"},
    {"quant_noise_scalar", "0"},
    {"required_seq_len_multiple", "1"},
    {"shard_id", "0"},
    {"shorten_data_split_list", ""},
    {"slowmo_base_algorithm", "localsgd"},
    {"stop_min_lr", "-1"},
    {"validate_after_updates", "0"},
    {"gen_subset", "test"},
    {"mha_heads_to_keep", "-1"},
    {"ffn_blocks_to_remove", "-1"},
    // timm's train.py
    {"clip_mode", "norm"},
    {"drop_block", "0", "no blocks of a layer's output are dropped; --drop_path skips whole residual blocks"},
    {"drop_connect", "0"},
    {"epoch_repeats", "0"},
    {"gaussian_blur_prob", "0", "--blur has another range of sigma, 0.1 to 2"},
    {"grayscale_prob", "0", "--color_jitter changes saturation, down to grey"},
    {"head_init_bias", "0", "a new classifier begins as the model's own initialisation says; leave it out"},
    {"head_init_scale", "1", "a new classifier begins as the model's own initialisation says; leave it out"},
    {"in_chans", "3"},
    {"layer_decay_min_scale", "0"},
    {"layer_decay_no_opt_scale", "0", "every layer learns; --freeze keeps some as they are"},
    {"lr_cycle_decay", "0.5"},
    {"lr_cycle_limit", "1"},
    {"lr_cycle_mul", "1"},
    {"lr_k_decay", "1"},
    {"lr_noise_pct", "0.67"},
    {"lr_noise_std", "1"},
    {"mixup_mode", "batch", "all images of a batch are mixed by one share"},
    {"patience_epochs", "10"},
    {"train_crop_mode", "rrc", "training crops at random with --scale and --ratio"},
    {"train_size_schedule", "constant"},
    {"tta", "0"},
    {"vflip", "0", "images are mirrored left to right only (--hflip)"},
    {"worker_seeding", "all"},
    {"train_size_schedule_spread", "0.65"},
    {"train_size_random_mix", "0.1"},
    {"variable_batch_loss_scale", "none"},
    {"naflex_max_seq_len", "576"},
    {"naflex_loss_scale", "linear"},
    {"kd_distill_type", "logit"},
    {"kd_loss_type", "kl"},
    {"kd_temperature", "4"},
    {"kd_token_distill_type", "soft"},
    // AWS's script, of a schedule that is refused
    {"cdr_first_decay_ratio", "0.33"},
    {"cdr_t_mul", "2"},
    {"cdr_m_mul", "0.1"},
    {"cdr_alpha", "0"},
});

// Programs whose commands name what is not here: a flag that only they have says so.
constexpr std::string_view kOtherResNets =
    "tf_cnn_benchmarks' and MXNet's ResNets are others than those here; their load is that of --model=resnet50 "
    "--data_format=synthetic --max_steps=110";
constexpr std::array kOfOtherResNets = {"variable_update", "network", "num_layers", "kv_store", "data_train"};

constexpr std::array kRemoved = {
    RemovedFlag{"cudnn_benchmark_limit", true,
                "cuDNN's own first choice of an algorithm was as fast on an H100, and starts sooner; leave it out"},
    RemovedFlag{"decode", true,
                "images are decoded on the CPU, which was faster in training than nvJPEG on the GPU; leave it out"},
    RemovedFlag{"fused_norm", false, "GPUs always normalise this way now; leave it out"},
    RemovedFlag{"on_spike", true,
                "--on_spike=skip does not apply the step of a spike; to leave more out, stop the run and resume it "
                "from an earlier checkpoint (--resume=PATH) with a lower --lr",
                "rewind"},
    RemovedFlag{"pad_stem", false, "a stem padded to four channels was no faster on an H100; leave it out"},
    RemovedFlag{"spike_window", true,
                "mean and deviation of the loss are always those of about 100 steps; leave it out"},
    RemovedFlag{"static_graph", false, "every parameter takes part in every step now; leave it out"},
};

}  // namespace

const std::vector<Alias>& UnsupportedAliases() {
  static const std::vector<Alias> table = [] {
    std::vector<Alias> all;
    for (const auto& [name, harmless, why] : kRows)
      all.push_back({.name = name, .words = {{harmless, ""}}, .refused = why});
    for (const char* name : kOfOtherResNets) all.push_back({.name = name, .refused = kOtherResNets});
    return all;
  }();
  return table;
}

const RemovedFlag* FindRemoved(std::string_view name, std::string_view value) {
  const auto row = std::find_if(kRemoved.begin(), kRemoved.end(), [&](const RemovedFlag& flag) {
    if (flag.name == name) return flag.value.empty() || flag.value == value;
    const bool is_negated = !flag.takes_value && name.starts_with("no") && name.ends_with(flag.name);
    return is_negated && (name.size() == flag.name.size() + 2 || name.substr(2).starts_with('_'));
  });
  return row == kRemoved.end() ? nullptr : row;
}

const std::map<std::string, std::string>& ForeignFlags() {
  // clang-format off
  static const std::map<std::string, std::string> table = {
      // Hugging Face's run_mlm.py, Accelerate, Lightning, Horovod's examples
      {"num_processes", "--nproc_per_node"},
      {"num_machines", "--nnodes"},
      {"machine_rank", "--node_rank"},
      {"main_process_ip", "--master_addr"},
      {"main_process_port", "--master_port"},
      {"mixed_precision", "--precision"},
      {"max_epochs", "--epochs"},
      {"devices", "--nproc_per_node"},
      {"num_nodes", "--nnodes"},
      {"accelerator", "--backend"},
      {"gradient_clip_val", "--clip_norm"},
      {"accumulate_grad_batches", "--grad_accum_steps"},
      {"default_root_dir", "--run_dir"},
      {"limit_train_batches", "--limit_train_steps"},
      {"limit_val_batches", "--limit_val_steps"},
      {"check_val_every_n_epoch", "--eval_every_epochs"},
      {"fast_dev_run", "--limit_train_steps=1"},
      {"sync_batchnorm", "--sync_bn"},
      {"ckpt_path", "--resume"},
      // timm, torchvision and NVIDIA's scripts, for flags that the table of aliases lacks
      {"dataset", "--data_format"},
      {"dataset_dir", "--data_dir"},
      {"data_root", "--data_dir"},
      {"sync_batch_norm", "--sync_bn"},
      {"syncbn", "--sync_bn"},
      {"train_batch_size", "--batch_size"},
      {"eval_batch_size", "--batch_size, which evaluation takes, too"},
      {"warmup_proportion", "--warmup_epochs or --warmup_steps"},
      {"init_checkpoint", "--init_weights"},
      {"steps_this_run", "--limit_train_steps"},
      {"num_steps_per_checkpoint", "--save_every_seconds"},
      {"use_amp", "--precision=fp16 or --precision=bf16"},
      {"half", "--precision=fp16"},
      {"dtype", "--precision"},
      // fairseq
      {"total_num_updates", "--schedule_steps"},
      // names that are not from one particular program
      {"checkpoint_dir", "--run_dir"},
      {"ckpt_dir", "--run_dir"},
      {"model_dir", "--run_dir"},
      {"work_dir", "--run_dir"},
      {"checkpoint", "--init_weights, or --resume"},
      {"load_from", "--init_weights"},
      {"scheduler", "--lr_schedule"},
      {"lr_policy", "--lr_schedule"},
      {"betas", "--adam_betas"},
      {"eps", "--adam_eps, or --rmsprop_eps"},
      {"grad_clip", "--clip_norm"},
      {"max_norm", "--clip_norm"},
      {"ema", "--ema_decay"},
      {"steps", "--max_steps"},
      {"train_steps", "--max_steps"},
      {"total_steps", "--max_steps"},
      {"max_iter", "--max_steps"},
      {"iterations", "--max_steps"},
      {"accumulation_steps", "--grad_accum_steps"},
      {"gpus", "--nproc_per_node"},
      {"ngpus_per_node", "--nproc_per_node"},
      {"gpu_ids", "CUDA_VISIBLE_DEVICES in the environment"},
  };
  // clang-format on
  return table;
}

}  // namespace dtrain::config
