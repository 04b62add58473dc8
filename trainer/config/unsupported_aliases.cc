// Flags of other programs without an equivalent. People copy commands that name defaults, so the value that changes
// nothing is taken; flags without a value are not here, since an unknown flag is refused anyway.
#include <algorithm>
#include <array>
#include <utility>

#include "trainer/config/alias_table.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kNone = "only its default is taken";

// A flag, and the value that changes nothing.
using Row = std::pair<std::string_view, std::string_view>;
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
    {"drop_block", "0"},
    {"drop_connect", "0"},
    {"epoch_repeats", "0"},
    {"gaussian_blur_prob", "0"},
    {"grayscale_prob", "0"},
    {"in_chans", "3"},
    {"layer_decay_min_scale", "0"},
    {"lr_cycle_decay", "0.5"},
    {"lr_cycle_limit", "1"},
    {"lr_cycle_mul", "1"},
    {"lr_k_decay", "1"},
    {"lr_noise_pct", "0.67"},
    {"lr_noise_std", "1"},
    {"mixup_mode", "batch"},
    {"mixup_off_epoch", "0"},
    {"mixup_prob", "1"},
    {"mixup_switch_prob", "0.5"},
    {"patience_epochs", "10"},
    {"train_crop_mode", "rrc"},
    {"train_size_schedule", "constant"},
    {"tta", "0"},
    {"vflip", "0"},
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
    // Horovod's pytorch_imagenet_resnet50.py
    {"gradient_predivide_factor", "1"},
});

constexpr std::array kRemoved = {
    RemovedFlag{"decode", true,
                "images are decoded on the CPU, which was faster in training than nvJPEG on the GPU; leave it out"},
    RemovedFlag{"fused_norm", false, "GPUs always normalise this way now; leave it out"},
    RemovedFlag{"pad_stem", false, "a stem padded to four channels was no faster on an H100; leave it out"},
    RemovedFlag{"static_graph", false, "every parameter takes part in every step now; leave it out"},
};

}  // namespace

const std::vector<Alias>& UnsupportedAliases() {
  static const std::vector<Alias> table = [] {
    std::vector<Alias> all;
    for (const auto& [name, harmless] : kRows)
      all.push_back({.name = name, .words = {{harmless, ""}}, .refused = kNone});
    return all;
  }();
  return table;
}

const RemovedFlag* FindRemoved(std::string_view name) {
  const auto row = std::find_if(kRemoved.begin(), kRemoved.end(), [name](const RemovedFlag& flag) {
    if (flag.name == name) return true;
    const bool is_negated = !flag.takes_value && name.starts_with("no") && name.ends_with(flag.name);
    return is_negated && (name.size() == flag.name.size() + 2 || name.substr(2).starts_with('_'));
  });
  return row == kRemoved.end() ? nullptr : row;
}

}  // namespace dtrain::config
