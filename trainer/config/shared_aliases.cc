// The rows that all programs share: of several image programs, of PyTorch's ImageNet example, and of flags without an
// equivalent (fairseq_program.cc has those for text, the *_program.cc those that only one program has); then the flags
// that are only answered, since they have another name here. People copy commands that name defaults, so of a flag
// without an equivalent the value that changes nothing is taken; such flags without a value are not here, since an
// unknown flag is refused anyway.
#include <algorithm>
#include <utility>

#include "data/storage.h"
#include "trainer/config/aliases.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kOwnAverage =
    "--ema_decay=D --ema_every=STEPS keep an average; the equivalent of theirs is D = 1 - (1 - decay) x STEPS x global "
    "batch / epochs";

// DeiT's program has a teacher only with a --distillation-type, which is none by default.
Translation DeitsTeacher(const std::string& path, const ForeignCommand& command) {
  if (command.Value({"distillation_type"}, "none") != "none") return {.flags = {"--teacher=" + path}};
  return {.note = "without --distillation-type=hard there is no teacher"};
}

// What other programs evaluate is a file of weights; a training goes on from a run. Most have "" by default.
Translation RunOrWeights(const std::string& value, const ForeignCommand& command) {
  if (value.empty()) return {};
  const bool evaluates = command.Has({"e", "evaluate", "eval", "test_only"}) || command.Value({"mode"}, "") == "eval";
  return {{(evaluates && data::IsFile(value) ? "--init_weights=" : "--resume=") + value}};
}

std::vector<Alias> OfImagePrograms() {
  return Together(
      {Renamed("j=workers b=batch_size wd=weight_decay warmup_lr=warmup_start_lr log_dir=run_dir output_dir=run_dir "
               "print_freq=log_interval distillation_alpha=distill_weight"),
       Switches("synthetic=--data_format=synthetic eval=--mode=eval amp=--precision=amp apex=--precision=amp"),
       OnlyTaken("start_epoch=0", kResumes),
       WithoutEffect("launchers are recognised automatically; --master_addr and --master_port name rank 0", "dist_url"),
       WithoutEffect("hard distillation has no temperature", "distillation_tau"),
       WithoutEffect("0.1.0 had it, later versions need no choice", "cudnn_benchmark_limit", "static_graph"),
       {{.name = "resume", .other_words_pass = true, .translate = RunOrWeights},
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
        {.name = "device",
         .words = {{"cuda", "", "--require_gpu"},
                   {"cuda:0", "", "--require_gpu"},
                   {"gpu", "", "--require_gpu"},
                   {"cpu", "", "--backend=gloo"}},
         .refused = "CUDA_VISIBLE_DEVICES=1 chooses the second GPU"},
        {.name = "pretrained", .takes_value = false, .refused = "--init_weights=FILE starts from weights"},
        {.name = "model_ema", .takes_value = false, .refused = kOwnAverage},
        {.name = "model_ema_decay", .refused = kOwnAverage},
        {.name = "checkpoint", .refused = "dtrain has --init_weights, or --resume"},
        {.name = "teacher_path", .translate = DeitsTeacher},
        {.name = "distillation_type",
         .flag = "distill",
         .words = {{"none", ""}, {"hard", "hard"}},
         .refused =
             "DeiT divides its soft loss by the number of classes, too; --distill=soft has the mean over samples"}}});
}

// Models that torchvision and NVIDIA call otherwise than timm, whose names are ours; and Hugging Face's XLM-R.
std::vector<Alias> Models() {
  const std::vector<Word> words = {{"vit_b_16", "vit_base_patch16_224"},
                                   {"vit_b_32", "vit_base_patch32_224"},
                                   {"vit_l_16", "vit_large_patch16_224"},
                                   {"vit_l_32", "vit_large_patch32_224"},
                                   {"vit_h_14", "vit_huge_patch14_224"},
                                   {"efficientnet_v2_s", "efficientnetv2_s"},
                                   {"efficientnet_v2_m", "efficientnetv2_m"},
                                   {"efficientnet_v2_l", "efficientnetv2_l"},
                                   {"efficientnet-b0", "efficientnet_b0"},
                                   {"efficientnet-b4", "efficientnet_b4"},
                                   {"xlm-roberta", "xlm_roberta"},
                                   {"xlm-roberta-base", "xlm_roberta_base"}};
  const auto row = [&](std::string_view name, std::string_view flag) {
    return Alias{.name = name, .flag = flag, .words = words, .other_words_pass = true};
  };
  return {row("model", "model"), row("arch", "model"), row("a", "model"), row("teacher_model", "teacher_model")};
}

std::vector<Alias> OfTorchelastic() {
  return Together(
      {Renamed("p=log_interval learning_rate=lr dist_backend=backend"),
       Switches("evaluate=--mode=eval e=--mode=eval dummy=--data_format=synthetic"),
       WithoutEffect(kResumes, "checkpoint_file"),
       WithoutEffect("each rank uses the GPU with its local rank as index, among those in CUDA_VISIBLE_DEVICES",
                     "gpu")});
}

std::vector<Alias> WithoutEquivalent() {
  constexpr std::string_view kOwnHead = "a new classifier begins as the model's own initialisation says; leave it out";
  return Together(
      {// fairseq-train 0.12.2 (fairseq/dataclass/configs.py, tasks/masked_lm.py, models/roberta/model.py, optim/)
       OnlyTaken(
           "amp_batch_retries=2 amp_init_scale=128 checkpoint_shard_count=1 checkpoint_suffix= curriculum=0 "
           "ema_start_update=0 ema_update_freq=1 ffn_reg_scale_factor=0 keep_interval_updates_pattern=-1 "
           "localsgd_frequency=3 lr_shrink=0.1 mask_stdev=0 mha_reg_scale_factor=0 num_shards=1 optimizer_overrides={} "
           "pipeline_chunks=0 pipeline_checkpoint=never quant_noise_pq=0 quant_noise_pq_block_size=8 "
           "quant_noise_scalar=0 required_seq_len_multiple=1 shard_id=0 shorten_data_split_list= "
           "slowmo_base_algorithm=localsgd stop_min_lr=-1 validate_after_updates=0 gen_subset=test "
           "mha_heads_to_keep=-1 ffn_blocks_to_remove=-1"),
       // timm's train.py
       OnlyTaken(
           "clip_mode=norm drop_connect=0 epoch_repeats=0 in_chans=3 layer_decay_min_scale=0 lr_cycle_decay=0.5 "
           "lr_cycle_limit=1 lr_cycle_mul=1 lr_k_decay=1 lr_noise_pct=0.67 lr_noise_std=1 patience_epochs=10 "
           "train_size_schedule=constant tta=0 worker_seeding=all train_size_schedule_spread=0.65 "
           "train_size_random_mix=0.1 variable_batch_loss_scale=none naflex_max_seq_len=576 naflex_loss_scale=linear "
           "kd_distill_type=logit kd_loss_type=kl kd_temperature=4 kd_token_distill_type=soft"),
       // AWS's script, of a schedule that is refused
       OnlyTaken("cdr_first_decay_ratio=0.33 cdr_t_mul=2 cdr_m_mul=0.1 cdr_alpha=0"),
       OnlyTaken("drop_block=0", "no blocks of a layer's output are dropped; --drop_path skips whole residual blocks"),
       OnlyTaken("gaussian_blur_prob=0", "--blur has another range of sigma, 0.1 to 2"),
       OnlyTaken("grayscale_prob=0", "--color_jitter changes saturation, down to grey"),
       OnlyTaken("head_init_bias=0 head_init_scale=1", kOwnHead),
       OnlyTaken("layer_decay_no_opt_scale=0", "every layer learns; --freeze keeps some as they are"),
       OnlyTaken("mixup_mode=batch", "all images of a batch are mixed by one share"),
       OnlyTaken("train_crop_mode=rrc", "training crops at random with --scale and --ratio"),
       OnlyTaken("vflip=0", "images are mirrored left to right only (--hflip)")});
}

}  // namespace

const std::vector<Alias>& SharedAliases() {
  static const std::vector<Alias> all =
      Together({TextAliases(), OfImagePrograms(), Models(), OfTorchelastic(), WithoutEquivalent()});
  return all;
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
      {"--data_dir", "dataset_dir data_root"},
      {"--batch_size", "train_batch_size"},
      {"--batch_size, which evaluation takes, too", "eval_batch_size"},
      {"--warmup_epochs or --warmup_steps", "warmup_proportion"},
      {"--init_weights", "init_checkpoint load_from"},
      {"--save_every_seconds", "num_steps_per_checkpoint"},
      {"--precision=fp16 or --precision=bf16", "use_amp"},
      {"--precision=fp16", "half"},
      {"--schedule_steps", "total_num_updates"},
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
