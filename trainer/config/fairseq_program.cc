// The flags of fairseq-train that fairseq's pages on RoBERTa use, and its defaults. They are those of its release
// 0.12.2: fairseq/dataclass/configs.py, fairseq/tasks/masked_lm.py, fairseq/optim/adam.py and sgd.py,
// fairseq/optim/lr_scheduler. What is not listed is the same here (the betas and epsilon of Adam, clipping, the masks'
// shares, polynomial_decay's power, dropout), or cannot change a number.
#include "trainer/config/aliases.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

bool ReadsSentences(const ForeignCommand& command) { return command.Value({"task"}, "") == "sentence_prediction"; }

// fairseq's own are for text, and so are the last ones here.
std::vector<std::string> DefaultsOfFairseq(const ForeignCommand& command) {
  std::vector<std::string> flags = {"--lr=0.25", "--lr_schedule=constant", "--weight_decay=0", "--epochs=1000000",
                                    "--seed=1",  "--log_interval=100"};
  const bool reads_sentences = ReadsSentences(command);
  const std::vector<std::string> of_task =
      reads_sentences ? std::vector<std::string>{"--tokens_per_sample=512", "--classifier_dropout=0"}
                      : std::vector<std::string>{"--tokens_per_sample=1024", "--sample_break=none"};
  flags.insert(flags.end(), of_task.begin(), of_task.end());
  if (reads_sentences) flags.push_back("--task=text_classification");
  if (command.Has({"fp16", "memory_efficient_fp16"})) flags.push_back("--loss_scale_start=128");
  // The fixed schedule's warmup, unlike that of polynomial_decay, does not begin with a rate of 0.
  const bool is_fixed = command.Value({"lr_scheduler"}, "fixed") == "fixed";
  if (is_fixed && command.Has({"warmup_updates"})) flags.push_back("--warmup_from_one=true");
  if (command.Value({"arch", "a", "model"}, "").starts_with("roberta"))
    flags.push_back("--freeze=roberta.embeddings.token_type_embeddings");  // fairseq's has none
  if (!command.Value({"arch", "a", "model"}, "roberta").starts_with("roberta")) {
    std::erase_if(
        flags, [](const std::string& flag) { return FindFlag(flag.substr(2, flag.find('=') - 2))->section == "text"; });
  }
  return flags;
}

// fairseq fills a batch up to --max-sentences and cuts it to a multiple of --required-batch-size-multiple
// (fairseq/data/data_utils_fast.pyx), unless it has fewer rows than that.
Translation CutToMultiple(const std::string& value, const ForeignCommand& command) {
  const std::string flag = "--batch_size=";
  const double rows = NumberFrom(value).value_or(0), multiple = command.Number({"required_batch_size_multiple"}, 8);
  const auto whole = static_cast<int64_t>(rows), step = static_cast<int64_t>(multiple);
  if (step < 2 || whole < step || whole % step == 0) return {{flag + value}};
  return {.flags = {flag + std::to_string(whole - whole % step)},
          .note = "batches of at most " + value + " are cut to a multiple of " + std::to_string(step) +
                  " as in fairseq (--required-batch-size-multiple)"};
}

Translation MultipleOfRows(const std::string& value, const ForeignCommand& command) {
  if (value == "1" || !command.Has({"max_tokens"})) return {};
  const std::string difference = "batches of --max-tokens have as many rows as fit";
  if (value == "8") return {.note = difference + ", fairseq cuts them to a multiple of 8"};
  return {.refused = difference + "; --required-batch-size-multiple=1 is the same"};
}

// fairseq's schedule ends with its updates, even if --max-epoch ends the run before.
Translation MaxUpdate(const std::string& value, const ForeignCommand& command) {
  if (NumberFrom(value) == 0.0) return {};  // no limit
  if (!command.Has({"max_epoch", "epochs"})) return {{"--max_steps=" + value, "--epochs=1000000"}};
  if (command.Has({"total_num_update"})) return {{"--max_steps=" + value}};
  return {{"--max_steps=" + value, "--schedule_steps=" + value}};
}

constexpr std::string_view kOwnLoop = "dtrain chooses how ranks communicate";
constexpr std::string_view kOwnPlan = "the model and its criterion follow from --model";
constexpr std::string_view kOwnScale =
    "the scale has no bound below; --loss_scale=N fixes it, --max_skipped_steps ends the run";
constexpr std::string_view kGoesOn =
    "a run resumes from its own checkpoints with all of their state; --init_weights=FILE begins anew with weights";
constexpr std::string_view kKept = "--keep_checkpoints sets how many; the best weights are kept in addition";
constexpr std::string_view kRowsOfModel = "rows are <s> a </s></s> b </s>, as the published models have them";
constexpr std::string_view kAllMetrics = "a validation has them all";
constexpr std::string_view kTokenized = "dtrain_data tokenize tokenizes text beforehand";
constexpr std::string_view kNotYet = "leave it out";

// sentence_prediction cannot do without it.
Translation NumClasses(const std::string&, const ForeignCommand& command) {
  if (!command.Has({"init_token"})) return {.refused = "rows begin with <s> here, as with --init-token 0: add it"};
  return {.note = "there are as many as the data's labels have"};
}

// fairseq's architecture of that name is the base one.
Translation Architecture(const std::string& value, const ForeignCommand& command) {
  return {{"--model=" + (value == "roberta" && !command.Has({"model_config"}) ? "roberta_base" : value)}};
}

Translation PoolerDropout(const std::string& value, const ForeignCommand& command) {
  if (ReadsSentences(command)) return {{"--classifier_dropout=" + value}};
  return {.note = "masked words have no pooler"};
}

Translation Shortened(const std::string& value, const ForeignCommand& command) {
  if (!ReadsSentences(command)) {
    return value == "none" ? Translation() : Translation{.refused = "blocks that are too long are left out"};
  }
  if (value == "random_crop") return {.refused = "rows that are too long lose their end"};
  return {.note = "rows that are too long lose their end, of a pair the longer text first"};
}

// With --reset-optimizer, fairseq takes a checkpoint's weights alone.
Translation RestoreFile(const std::string& value, const ForeignCommand& command) {
  if (value == "checkpoint_last.pt") return {};
  if (!command.Has({"reset_optimizer"})) return {.refused = std::string(kGoesOn)};
  return {{"--init_weights=" + value}};
}

Translation Reset(const std::string&, const ForeignCommand& command) {
  if (command.Value({"restore_file"}, "checkpoint_last.pt") != "checkpoint_last.pt") return {};
  return {.refused = std::string(kGoesOn)};
}

Translation BestMetric(const std::string& value, const ForeignCommand& command) {
  const bool is_loss = value == "loss";
  if (is_loss != command.Has({"maximize_best_checkpoint_metric"})) return {{"--best_metric=" + value}};
  return {.refused = is_loss ? "the smallest loss is the best: leave --maximize-best-checkpoint-metric out"
                             : "the smallest would be the best: add --maximize-best-checkpoint-metric"};
}

Translation Maximize(const std::string&, const ForeignCommand& command) {
  if (command.Has({"best_checkpoint_metric"})) return {};
  return {.refused = "--best-checkpoint-metric says which; the smallest loss is the best otherwise"};
}

// A number of fairseq's architecture: what it is for the base and the large one.
template <int base, int large>
Translation SameShape(const std::string& value, const ForeignCommand& command) {
  const std::string arch = command.Value({"arch", "a", "model"}, "");
  const bool is_same =
      (arch == "roberta_base" && NumberFrom(value) == base) || (arch == "roberta_large" && NumberFrom(value) == large);
  if (is_same) return {};
  return {.refused = "the shape follows from --arch; --model=roberta --model_config=FILE gives any other"};
}

Translation SamePositions(const std::string& value, const ForeignCommand& command) {
  if (ReadsSentences(command)) return {{"--tokens_per_sample=" + value}};
  if (NumberFrom(value) == command.Number({"tokens_per_sample"}, 1024)) return {};
  return {.refused = "as many positions as --tokens-per-sample are used; leave it out"};
}

// fairseq starts as many processes itself, unless something tells this one its rank.
Translation WorldSize(const std::string& value, const ForeignCommand& command) {
  if (command.Has({"distributed_rank", "distributed_init_method", "rank"})) return {{"--world_size=" + value}};
  return value == "1" ? Translation() : Translation{{"--nproc_per_node=" + value}};
}

std::vector<Alias> TaskAndModel() {
  std::vector<Alias> rows = {
      {.name = "encoder_layers", .translate = SameShape<12, 24>},
      {.name = "encoder_embed_dim", .translate = SameShape<768, 1024>},
      {.name = "encoder_ffn_embed_dim", .translate = SameShape<3072, 4096>},
      {.name = "encoder_attention_heads", .translate = SameShape<12, 16>},
      {.name = "max_positions", .translate = SamePositions},
      {.name = "criterion", .words = {{"masked_lm", ""}, {"sentence_prediction", ""}}},
      {.name = "regression_target", .takes_value = false, .implied = "--task=text_regression"},
      {.name = "init_token", .words = {{"0", ""}}, .refused = kRowsOfModel},
      {.name = "separator_token", .words = {{"2", ""}}, .refused = kRowsOfModel},
      {.name = "no_shuffle", .takes_value = false, .refused = "samples have another order in each epoch"},
      {.name = "encoder_normalize_before", .takes_value = false, .refused = "norms follow each part of a layer"},
      {.name = "activation_fn", .words = {{"gelu", ""}}},
      {.name = "encoder_layerdrop", .words = {{"0", ""}, {"0.0", ""}}},
      {.name = "activation_dropout", .words = {{"0", ""}, {"0.0", ""}}},
      {.name = "pooler_dropout", .translate = PoolerDropout},
      {.name = "pooler_activation_fn", .words = {{"tanh", ""}}},
      {.name = "load_checkpoint_heads", .takes_value = false, .reason = "there are no heads of sentences"},
      {.name = "min_params_to_wrap", .reason = kOwnLoop},
      {.name = "offload_activations", .takes_value = false, .reason = "--activation_checkpointing saves memory"},
      {.name = "checkpoint_activations", .takes_value = false, .implied = "--activation_checkpointing"},
      {.name = "user_dir", .refused = "it is code in Python"},
  };
  AddWithoutEffect(kOwnPlan, "classification_head_name", "layernorm_embedding", rows);
  AddWithoutEffect(kAllMetrics, "", "report_mcc report_acc_and_f1 report_pearson_and_spearman", rows);
  return rows;
}

std::vector<Alias> DataAndBatches() {
  std::vector<Alias> rows = {
      {.name = "max_sentences", .flag = "batch_size"},
      {.name = "update_freq", .flag = "grad_accum_steps"},
      {.name = "sample_break_mode", .flag = "sample_break"},
      {.name = "dataset_impl", .words = {{"mmap", ""}}},
      {.name = "mask_multiple_length", .words = {{"1", ""}}},
      {.name = "leave_unmasked_prob", .words = {{"0.1", ""}}},
      {.name = "random_token_prob", .words = {{"0.1", ""}}},
      {.name = "freq_weighted_replacement", .takes_value = false, .refused = "random words are drawn uniformly"},
      {.name = "num_workers", .flag = "workers"},
      {.name = "data_buffer_size", .reason = "--prefetch_batches sets how many batches are kept ready"},
      {.name = "train_subset", .flag = "train_split"},
      {.name = "valid_subset", .flag = "val_split"},
      {.name = "fixed_validation_seed",
       .refused = "evaluation has the same masks every time, drawn from --seed, but not the ones of another seed"},
      {.name = "skip_invalid_size_inputs_valid_test",
       .takes_value = false,
       .reason = "blocks that are too long are left out"},
      {.name = "shorten_method", .translate = Shortened},
      {.name = "ignore_unused_valid_subsets", .takes_value = false, .reason = "--val-split names the split"},
      {.name = "required_batch_size_multiple", .words = {{"1", ""}}, .refused = "batches are not cut to a multiple"},
  };
  AddWithoutEffect(kEvaluationBatch, "max_tokens_valid max_sentences_valid batch_size_valid", "", rows);
  AddWithoutEffect(kTokenized, "bpe gpt2_encoder_json gpt2_vocab_bpe", "", rows);
  return rows;
}

std::vector<Alias> Optimization() {
  std::vector<Alias> rows = {
      {.name = "max_update", .flag = "max_steps", .implied = "--epochs=1000000"},
      {.name = "max_epoch", .flag = "epochs"},
      {.name = "warmup_updates", .flag = "warmup_steps"},
      {.name = "total_num_update", .flag = "schedule_steps"},
      {.name = "power", .flag = "poly_power"},
      {.name = "end_learning_rate", .flag = "end_lr"},
      {.name = "lr_scheduler",
       .flag = "lr_schedule",
       .words = {{"polynomial_decay", "poly"},
                 {"fixed", "constant"},
                 {"steplr", "step"},
                 {"cosineannealinglr", "cosine"},
                 {"exponentiallr", "exponential"}},
       .implied = "--poly_power=1"},
      {.name = "adam_betas", .flag = "adam_betas", .other_words_pass = true, .takes_numbers = true},  // (0.9, 0.98)
      {.name = "sentence_avg", .takes_value = false, .reason = "masked_lm is a mean over masked tokens there, too"},
      {.name = "use_old_adam", .takes_value = false, .reason = "fairseq_adam is that one"},
      {.name = "fp16", .takes_value = false, .implied = "--precision=fp16"},
      {.name = "bf16", .takes_value = false, .implied = "--precision=bf16"},
      {.name = "fp16_init_scale", .flag = "loss_scale_start"},
      {.name = "fp16_scale_tolerance", .words = {{"0", ""}}, .refused = kOwnScale},
      {.name = "threshold_loss_scale", .words = {{"1", "", "", kOwnScale}}, .refused = kOwnScale},
      {.name = "min_loss_scale", .words = {{"1e-4", ""}}, .refused = kOwnScale},
      {.name = "fp16_scale_window", .flag = "loss_scale_window"},
  };
  AddWithoutEffect(kOwnLoop, "", "fp16_no_flatten_grads on_cpu_convert_precision", rows);
  return rows;
}

std::vector<Alias> Run() {
  std::vector<Alias> rows = {
      {.name = "log_format",
       .flag = "log_format",
       .words = {{"simple", "auto"}, {"none", "auto"}, {"tqdm", "bar"}},
       .other_words_pass = true},
      {.name = "no_progress_bar", .takes_value = false, .reason = "the bar appears on a terminal only"},
      {.name = "tensorboard_logdir",
       .words = {{"*", "", "--tensorboard", "events are written to the run directory: tensorboard --logdir=RUN_DIR"}}},
      {.name = "save_dir", .flag = "run_dir"},
      {.name = "save_interval", .flag = "save_every_epochs"},
      {.name = "save_interval_updates", .flag = "save_every_steps"},
      {.name = "keep_last_epochs", .flag = "keep_checkpoints"},
      {.name = "keep_interval_updates", .flag = "keep_checkpoints"},
      {.name = "finetune_from_model", .flag = "init_weights"},
      {.name = "max_valid_steps", .flag = "limit_val_steps"},
      {.name = "write_checkpoints_asynchronously", .takes_value = false, .reason = "they always are"},
      {.name = "log_file", .reason = "redirect the output in the shell to keep it"},
      {.name = "profile", .takes_value = false, .reason = "--profile_steps writes a trace"},
      {.name = "no_save", .takes_value = false, .implied = "--save_every_epochs=0"},
      {.name = "restore_file", .translate = RestoreFile},
      {.name = "reset_optimizer", .takes_value = false, .translate = Reset},
      {.name = "reset_dataloader", .takes_value = false, .translate = Reset},
      {.name = "reset_meters", .takes_value = false, .translate = Reset},
      {.name = "reset_lr_scheduler", .takes_value = false, .translate = Reset},
      {.name = "best_checkpoint_metric", .translate = BestMetric},
      {.name = "maximize_best_checkpoint_metric", .takes_value = false, .translate = Maximize},
      {.name = "validate_interval", .flag = "eval_every_epochs"},
      {.name = "patience",
       .flag = "stop_after_epochs_without_gain",
       .words = {{"-1", ""}},  // never, fairseq's default
       .other_words_pass = true},
      {.name = "validate_interval_updates", .flag = "eval_every_steps"},
      {.name = "disable_validation", .takes_value = false, .implied = "--eval_every_epochs=0"},
      {.name = "stop_time_hours",
       .words = {{"0", ""}, {"-1", ""}},
       .refused = "a run saves and ends on SIGTERM or SIGUSR1 from the scheduler, or by timeout -s TERM"},
      {.name = "wandb_project", .reason = "--on_event=scripts/events_to_wandb.py passes a run's numbers on"},
      {.name = "cpu", .takes_value = false, .implied = "--backend=gloo"},
      {.name = "tpu", .takes_value = false, .refused = kNotYet},
  };
  AddWithoutEffect(kKept, "keep_best_checkpoints", "no_epoch_checkpoints no_last_checkpoints no_save_optimizer_state",
                   rows);
  AddWithoutEffect(kOwnLoop, "plasma_path",
                   "load_checkpoint_on_all_dp_ranks suppress_crashes use_plasma_view reset_logging", rows);
  return rows;
}

std::vector<Alias> Ranks() {
  std::vector<Alias> rows = {
      {.name = "distributed_world_size", .translate = WorldSize},
      {.name = "distributed_rank", .flag = "rank"},
      {.name = "distributed_init_method", .translate = AddressOfRank0},
      {.name = "distributed_port", .flag = "master_port"},
      {.name = "distributed_backend", .flag = "backend"},
      {.name = "distributed_no_spawn", .takes_value = false, .reason = "launchers are recognised automatically"},
      {.name = "distributed_num_procs", .flag = "nproc_per_node"},
      {.name = "nproc_per_node",
       .flag = "nproc_per_node",
       .words = {{"gpu", "auto", "--require_gpu"}},
       .other_words_pass = true},
      {.name = "ddp_comm_hook", .words = {{"none", ""}, {"fp16", "", "--grad_compression=fp16"}}},
      {.name = "nprocs_per_node", .flag = "nproc_per_node"},
      {.name = "device_id", .flag = "local_rank"},
      {.name = "ddp_backend",
       .words = {{"c10d", "", "", kOwnLoop},
                 {"no_c10d", "", "", kOwnLoop},
                 {"legacy_ddp", "", "", kOwnLoop},
                 {"pytorch_ddp", "", "", kOwnLoop},
                 {"fully_sharded", "", "", kOwnLoop}},
       .refused = "gradients are averaged over all ranks at each step"},
      {.name = "heartbeat_timeout", .reason = "--comm_timeout says how long a rank may be silent"},
      {.name = "zero_sharding", .words = {{"none", ""}}},
      {.name = "model_parallel_size", .words = {{"1", ""}}},
  };
  AddWithoutEffect(kOwnLoop, "all_gather_list_size empty_cache_freq",
                   "gradient_as_bucket_view fast_stat_sync find_unused_parameters broadcast_buffers", rows);
  return rows;
}

}  // namespace

const ForeignProgram& FairseqProgram() {
  static const ForeignProgram program = {
      .name = "fairseq",
      .called = "fairseq-train",
      .signatures = {{"criterion"},
                     {"arch", "roberta"},
                     {"a", "roberta"},
                     {"sample_break_mode"},
                     {"max_sentences"},
                     {"update_freq"},
                     {"max_update"},
                     {"warmup_updates"},
                     {"total_num_update"}},
      .defaults = DefaultsOfFairseq,
      .rows = {{.name = "task",
                .flag = "task",
                .words = {{"masked_lm", "masked_lm", "--data_format=tokens --mask_special_tokens"},
                          {"sentence_prediction", ""}}},
               {.name = "arch", .translate = Architecture},
               {.name = "num_classes", .translate = NumClasses},
               {.name = "optimizer",
                .flag = "optimizer",
                .words = {{"adam", "fairseq_adam"},
                          {"sgd", "sgd", "--momentum=0"},
                          {"adamw", "adamw"},
                          {"fairseq_adam", "fairseq_adam"}}},
               {.name = "batch_size", .translate = CutToMultiple},
               {.name = "max_update", .translate = MaxUpdate},
               {.name = "max_sentences", .translate = CutToMultiple},
               {.name = "required_batch_size_multiple", .translate = MultipleOfRows}},
      .turns_photographs = true,
      .scripts = {"fairseq-train", "fairseq-hydra-train"}};
  return program;
}

const std::vector<Alias>& TextAliases() {
  static const std::vector<Alias> table = Together({TaskAndModel(), DataAndBatches(), Optimization(), Run(), Ranks()});
  return table;
}

}  // namespace dtrain::config
