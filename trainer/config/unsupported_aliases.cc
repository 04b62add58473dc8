// Flags that are understood but not translated: those of other programs without an equivalent, those that have another
// name here, and those that earlier versions had. People copy commands that name defaults, so of a flag without an
// equivalent the value that changes nothing is taken; such flags without a value are not here, since an unknown flag is
// refused anyway.
#include <algorithm>
#include <array>
#include <utility>

#include "trainer/config/aliases.h"

namespace dtrain::config {
namespace {

// Flags of which only the default is taken, with that.
constexpr std::string_view kOnlyDefaults =
    // fairseq-train 0.12.2 (fairseq/dataclass/configs.py, tasks/masked_lm.py, models/roberta/model.py, optim/)
    "amp_batch_retries=2 amp_init_scale=128 checkpoint_shard_count=1 checkpoint_suffix= curriculum=0 "
    "ema_start_update=0 ema_update_freq=1 ffn_reg_scale_factor=0 keep_interval_updates_pattern=-1 "
    "localsgd_frequency=3 lr_shrink=0.1 mask_stdev=0 mha_reg_scale_factor=0 num_shards=1 optimizer_overrides={} "
    "pipeline_chunks=0 pipeline_checkpoint=never quant_noise_pq=0 quant_noise_pq_block_size=8 quant_noise_scalar=0 "
    "required_seq_len_multiple=1 shard_id=0 shorten_data_split_list= slowmo_base_algorithm=localsgd stop_min_lr=-1 "
    "validate_after_updates=0 gen_subset=test mha_heads_to_keep=-1 ffn_blocks_to_remove=-1 "
    // timm's train.py
    "clip_mode=norm drop_connect=0 epoch_repeats=0 in_chans=3 layer_decay_min_scale=0 lr_cycle_decay=0.5 "
    "lr_cycle_limit=1 lr_cycle_mul=1 lr_k_decay=1 lr_noise_pct=0.67 lr_noise_std=1 patience_epochs=10 "
    "train_size_schedule=constant tta=0 worker_seeding=all train_size_schedule_spread=0.65 "
    "train_size_random_mix=0.1 variable_batch_loss_scale=none naflex_max_seq_len=576 naflex_loss_scale=linear "
    "kd_distill_type=logit kd_loss_type=kl kd_temperature=4 kd_token_distill_type=soft "
    // AWS's script, of a schedule that is refused
    "cdr_first_decay_ratio=0.33 cdr_t_mul=2 cdr_m_mul=0.1 cdr_alpha=0 ";

// A flag, the value that changes nothing, and why others are refused.
struct Row {
  std::string_view name, harmless, why;
};
constexpr std::string_view kOwnHead = "a new classifier begins as the model's own initialisation says; leave it out";
constexpr auto kRows = std::to_array<Row>({
    {"drop_block", "0", "no blocks of a layer's output are dropped; --drop_path skips whole residual blocks"},
    {"gaussian_blur_prob", "0", "--blur has another range of sigma, 0.1 to 2"},
    {"grayscale_prob", "0", "--color_jitter changes saturation, down to grey"},
    {"head_init_bias", "0", kOwnHead},
    {"head_init_scale", "1", kOwnHead},
    {"layer_decay_no_opt_scale", "0", "every layer learns; --freeze keeps some as they are"},
    {"mixup_mode", "batch", "all images of a batch are mixed by one share"},
    {"train_crop_mode", "rrc", "training crops at random with --scale and --ratio"},
    {"vflip", "0", "images are mirrored left to right only (--hflip)"},
});

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
    const auto add = [&all](std::string_view name, std::string_view harmless, std::string_view why) {
      all.push_back({.name = name, .words = {{harmless, ""}}, .refused = why});
    };
    for (const std::string_view row : WordsOf(kOnlyDefaults)) {
      add(row.substr(0, row.find('=')), row.substr(row.find('=') + 1), kOnlyDefault);
    }
    for (const auto& [name, harmless, why] : kRows) add(name, harmless, why);
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
  // What to use here, and what it is called by Hugging Face's run_mlm.py, Accelerate, Lightning, timm, NVIDIA's
  // scripts, fairseq and others.
  constexpr auto kNames = std::to_array<std::pair<const char*, std::string_view>>({
      {"--nproc_per_node", "num_processes devices gpus ngpus_per_node"},
      {"--nnodes", "num_machines num_nodes"},
      {"--node_rank", "machine_rank"},
      {"--master_addr", "main_process_ip"},
      {"--master_port", "main_process_port"},
      {"--precision", "mixed_precision dtype"},
      {"--epochs", "max_epochs"},
      {"--backend", "accelerator"},
      {"--clip_norm", "gradient_clip_val grad_clip max_norm"},
      {"--grad_accum_steps", "accumulate_grad_batches accumulation_steps"},
      {"--run_dir", "default_root_dir checkpoint_dir ckpt_dir model_dir work_dir"},
      {"--limit_train_steps", "limit_train_batches steps_this_run"},
      {"--limit_val_steps", "limit_val_batches"},
      {"--eval_every_epochs", "check_val_every_n_epoch"},
      {"--limit_train_steps=1", "fast_dev_run"},
      {"--sync_bn", "sync_batchnorm sync_batch_norm syncbn"},
      {"--resume", "ckpt_path"},
      {"--data_format", "dataset"},
      {"--data_dir", "dataset_dir data_root"},
      {"--batch_size", "train_batch_size"},
      {"--batch_size, which evaluation takes, too", "eval_batch_size"},
      {"--warmup_epochs or --warmup_steps", "warmup_proportion"},
      {"--init_weights", "init_checkpoint load_from"},
      {"--save_every_seconds", "num_steps_per_checkpoint"},
      {"--precision=fp16 or --precision=bf16", "use_amp"},
      {"--precision=fp16", "half"},
      {"--schedule_steps", "total_num_updates"},
      {"--init_weights, or --resume", "checkpoint"},
      {"--lr_schedule", "scheduler lr_policy"},
      {"--adam_betas", "betas"},
      {"--adam_eps, or --rmsprop_eps", "eps"},
      {"--ema_decay", "ema"},
      {"--max_steps", "steps train_steps total_steps max_iter iterations"},
      {"CUDA_VISIBLE_DEVICES in the environment", "gpu_ids"},
  });
  static const std::map<std::string, std::string> table = [&] {
    std::map<std::string, std::string> all;
    for (const auto& [ours, theirs] : kNames) {
      for (const std::string_view name : WordsOf(theirs)) all.emplace(name, ours);
    }
    return all;
  }();
  return table;
}

}  // namespace dtrain::config
