// The flags of fairseq-train that fairseq's pages on RoBERTa use, and its defaults. They are those of its release
// 0.12.2: fairseq/dataclass/configs.py, fairseq/tasks/masked_lm.py, fairseq/optim/adam.py and sgd.py,
// fairseq/optim/lr_scheduler. What is not listed is the same here (the betas and epsilon of Adam, clipping, the masks'
// shares, polynomial_decay's power, dropout), or cannot change a number. fairseq-hydra-train has the same settings as
// group.key=value in the command, and in files of two levels.
#include <algorithm>
#include <array>
#include <sstream>

#include "data/error.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/utf8.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

bool ReadsSentences(const ForeignCommand& command) { return command.Value({"task"}, "") == "sentence_prediction"; }

// fairseq's own are for text, and so are the last ones here.
std::vector<std::string> DefaultsOfFairseq(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags(
      "--lr=0.25 --lr_schedule=constant --weight_decay=0 --epochs=1000000 --seed=1 --log_interval=100 "
      "--best_metric=loss",
      flags);
  AddFlags(ReadsSentences(command) ? "--tokens_per_sample=512 --classifier_dropout=0 --task=text_classification"
                                   : "--tokens_per_sample=1024 --sample_break=none",
           flags);
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
constexpr std::string_view kOwnScale =
    "the scale has no bound below; --loss_scale=N fixes it, --max_skipped_steps ends the run";
constexpr std::string_view kGoesOn =
    "a run resumes from its own checkpoints with all of their state; --init_weights=FILE begins anew with weights";

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
  return Together(
      {Switches("regression_target=--task=text_regression checkpoint_activations=--activation_checkpointing"),
       OnlyTaken("init_token=0 separator_token=2", "rows are <s> a </s></s> b </s>, as the published models have them"),
       OnlyTaken("activation_fn=gelu encoder_layerdrop=0 activation_dropout=0 pooler_activation_fn=tanh", ""),
       WithoutEffect("the model and its criterion follow from --model", "classification_head_name",
                     "layernorm_embedding"),
       WithoutEffect("a validation has them all", "", "report_mcc report_acc_and_f1 report_pearson_and_spearman"),
       WithoutEffect("there are no heads of sentences", "", "load_checkpoint_heads"),
       WithoutEffect(kOwnLoop, "min_params_to_wrap"),
       WithoutEffect("--activation_checkpointing saves memory", "", "offload_activations"),
       {{.name = "encoder_layers", .translate = SameShape<12, 24>},
        {.name = "encoder_embed_dim", .translate = SameShape<768, 1024>},
        {.name = "encoder_ffn_embed_dim", .translate = SameShape<3072, 4096>},
        {.name = "encoder_attention_heads", .translate = SameShape<12, 16>},
        {.name = "max_positions", .translate = SamePositions},
        {.name = "criterion", .words = {{"masked_lm", ""}, {"sentence_prediction", ""}}},
        {.name = "no_shuffle", .takes_value = false, .refused = "samples have another order in each epoch"},
        {.name = "encoder_normalize_before", .takes_value = false, .refused = "norms follow each part of a layer"},
        {.name = "pooler_dropout", .translate = PoolerDropout},
        {.name = "user_dir", .refused = "it is code in Python"}}});
}

std::vector<Alias> DataAndBatches() {
  return Together(
      {Renamed("max_sentences=batch_size sample_break_mode=sample_break "
               "num_workers=workers train_subset=train_split valid_subset=val_split"),
       OnlyTaken("dataset_impl=mmap mask_multiple_length=1 leave_unmasked_prob=0.1 random_token_prob=0.1", ""),
       OnlyTaken("required_batch_size_multiple=1", "batches are not cut to a multiple"),
       WithoutEffect(kEvaluationBatch, "max_tokens_valid max_sentences_valid batch_size_valid"),
       WithoutEffect("dtrain_data tokenize tokenizes text beforehand", "bpe gpt2_encoder_json gpt2_vocab_bpe"),
       WithoutEffect("--prefetch_batches sets how many batches are kept ready", "data_buffer_size"),
       WithoutEffect("blocks that are too long are left out", "", "skip_invalid_size_inputs_valid_test"),
       WithoutEffect("--val-split names the split", "", "ignore_unused_valid_subsets"),
       {{.name = "freq_weighted_replacement", .takes_value = false, .refused = "random words are drawn uniformly"},
        {.name = "fixed_validation_seed",
         .refused = "evaluation has the same masks every time, drawn from --seed, but not the ones of another seed"},
        {.name = "update_freq", .flag = "grad_accum_steps", .takes_numbers = true},  // [4]
        {.name = "shorten_method", .translate = Shortened}}});
}

std::vector<Alias> Optimization() {
  return Together(
      {Renamed("max_epoch=epochs warmup_updates=warmup_steps total_num_update=schedule_steps power=poly_power "
               "end_learning_rate=end_lr fp16_init_scale=loss_scale_start fp16_scale_window=loss_scale_window"),
       Switches("fp16=--precision=fp16 bf16=--precision=bf16"),
       OnlyTaken("fp16_scale_tolerance=0 min_loss_scale=1e-4", kOwnScale),
       WithoutEffect("masked_lm is a mean over masked tokens there, too", "", "sentence_avg"),
       WithoutEffect("fairseq_adam is that one", "", "use_old_adam"),
       WithoutEffect(kOwnLoop, "", "fp16_no_flatten_grads on_cpu_convert_precision"),
       {{.name = "max_update", .flag = "max_steps", .implied = "--epochs=1000000"},
        {.name = "lr_scheduler",
         .flag = "lr_schedule",
         .words = {{"polynomial_decay", "poly", "--poly_power=1"},
                   {"fixed", "constant"},
                   {"steplr", "step"},
                   {"cosineannealinglr", "cosine"},
                   {"exponentiallr", "exponential"}}},
        {.name = "adam_betas", .flag = "adam_betas", .other_words_pass = true, .takes_numbers = true},  // (0.9, 0.98)
        {.name = "threshold_loss_scale", .words = {{"1", "", "", kOwnScale}}, .refused = kOwnScale}}});
}

std::vector<Alias> Run() {
  return Together(
      {Renamed("save_dir=run_dir save_interval=save_every_epochs save_interval_updates=save_every_steps "
               "finetune_from_model=init_weights max_valid_steps=limit_val_steps validate_interval=eval_every_epochs "
               "validate_interval_updates=eval_every_steps"),
       // Never, and no limit, which are fairseq's defaults.
       RenamedUnless("-1",
                     "patience=stop_after_epochs_without_gain keep_last_epochs=keep_checkpoints "
                     "keep_interval_updates=keep_checkpoints"),
       Switches("no_save=--save_every_epochs=0 disable_validation=--eval_every_epochs=0 cpu=--backend=gloo"),
       WithoutEffect("--keep_checkpoints sets how many; the best weights are kept in addition", "keep_best_checkpoints",
                     "no_epoch_checkpoints no_last_checkpoints no_save_optimizer_state"),
       WithoutEffect(kOwnLoop, "plasma_path",
                     "load_checkpoint_on_all_dp_ranks suppress_crashes use_plasma_view reset_logging"),
       WithoutEffect("the bar appears on a terminal only", "", "no_progress_bar"),
       WithoutEffect("they always are", "", "write_checkpoints_asynchronously"),
       WithoutEffect("redirect the output in the shell to keep it", "log_file"),
       WithoutEffect("--profile_steps writes a trace", "", "profile"),
       WithoutEffect("--on_event=scripts/events_to_wandb.py passes a run's numbers on", "wandb_project"),
       Translated(Reset, "", "reset_optimizer reset_dataloader reset_meters reset_lr_scheduler"),
       {{.name = "log_format",
         .flag = "log_format",
         .words = {{"simple", "auto"}, {"none", "auto"}, {"tqdm", "bar"}},
         .other_words_pass = true},
        {.name = "tensorboard_logdir",
         .words = {{"*", "", "--tensorboard",
                    "events are written to the run directory: tensorboard --logdir=RUN_DIR"}}},
        {.name = "restore_file", .translate = RestoreFile},
        {.name = "best_checkpoint_metric", .translate = BestMetric},
        {.name = "maximize_best_checkpoint_metric", .takes_value = false, .translate = Maximize},
        {.name = "stop_time_hours",
         .words = {{"0", ""}, {"-1", ""}},
         .refused = "a run saves and ends on SIGTERM or SIGUSR1 from the scheduler, or by timeout -s TERM"},
        {.name = "tpu", .takes_value = false, .refused = "leave it out"}}});
}

std::vector<Alias> Ranks() {
  return Together({Renamed("distributed_rank=rank distributed_port=master_port distributed_backend=backend "
                           "distributed_num_procs=nproc_per_node nprocs_per_node=nproc_per_node device_id=local_rank"),
                   OnlyTaken("zero_sharding=none model_parallel_size=1", ""),
                   WithoutEffect(kOwnLoop, "all_gather_list_size empty_cache_freq",
                                 "gradient_as_bucket_view fast_stat_sync find_unused_parameters broadcast_buffers"),
                   WithoutEffect("launchers are recognised automatically", "", "distributed_no_spawn"),
                   WithoutEffect("--comm_timeout says how long a rank may be silent", "heartbeat_timeout"),
                   {{.name = "distributed_world_size", .translate = WorldSize},
                    {.name = "distributed_init_method", .translate = AddressOfRank0},
                    {.name = "nproc_per_node",
                     .flag = "nproc_per_node",
                     .words = {{"gpu", "auto", "--require_gpu"}},
                     .other_words_pass = true},
                    {.name = "ddp_comm_hook", .words = {{"none", ""}, {"fp16", "", "--grad_compression=fp16"}}},
                    {.name = "ddp_backend",
                     .words = {{"c10d", "", "", kOwnLoop},
                               {"no_c10d", "", "", kOwnLoop},
                               {"legacy_ddp", "", "", kOwnLoop},
                               {"pytorch_ddp", "", "", kOwnLoop},
                               {"fully_sharded", "", "", kOwnLoop}},
                     .refused = "gradients are averaged over all ranks at each step"}}});
}

// The groups of fairseq-hydra-train's settings.
constexpr std::array kGroups = {"common",    "task",  "checkpoint",   "distributed_training", "criterion", "dataset",
                                "optimizer", "model", "lr_scheduler", "optimization",         "bmuf",      "ema"};

std::string Unquoted(const std::string& value) {
  const bool is_quoted = value.size() > 1 && (value.front() == '"' || value.front() == '\'');
  return is_quoted && value.back() == value.front() ? value.substr(1, value.size() - 2) : value;
}

// Gives a setting of hydra's its place among the flags of fairseq-train, after those before it of the same name: of
// `_name` the group's. One that is off, or that a file leaves to the command line, only takes those away.
void AddSetting(const std::string& group, const std::string& key, std::string value, const std::string& place,
                std::vector<command_line::Argument>& flags) {
  value = Unquoted(value);
  if (value.starts_with('[')) value = WithoutBrackets(value);
  const std::string word = Lower(value);
  const std::string name = group == "model" && key == "_name" ? "arch"
                           : key == "_name"                   ? group
                           : group == "task" && key == "data" ? "data_dir"
                                                              : key;
  std::erase_if(flags, [&](const command_line::Argument& flag) { return FlagName(flag) == name; });
  if (word == "false" || word == "null" || word == "~" || word == "???" || word.empty()) return;
  flags.push_back({"--" + name + (word == "true" ? "" : "=" + value), place});
}

// Leaves out what stands behind a #, unless that is within quotation marks, with which a value begins.
std::string WithoutComment(const std::string& line) {
  constexpr std::string_view kBeforeValue = ":-[,";
  char quote = 0, before = 0;  // the last one that is no blank
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins_word = i == 0 || line[i - 1] == ' ',
               begins_value = kBeforeValue.find(before) != kBeforeValue.npos;
    if (line[i] == '#' && begins_word && quote == 0) return line.substr(0, i);
    if (line[i] == quote) {
      quote = 0;
    } else if (quote == 0 && begins_value && (line[i] == '"' || line[i] == '\'')) {
      quote = line[i];
    }
    if (line[i] != ' ') before = line[i];
  }
  return line;
}

// Reads the settings of a file of two levels, as fairseq's examples are. A list may stand in lines of its own.
std::vector<command_line::Argument> FlagsOfYaml(const std::string& path, std::vector<std::string>& mistakes) {
  std::vector<command_line::Argument> flags;
  std::string group, key, items, line;
  std::istringstream file;
  try {
    const std::vector<uint8_t> bytes = data::ReadWholeFile(path, uint64_t{1} << 20);
    file.str(std::string(data::WithoutByteOrderMark({reinterpret_cast<const char*>(bytes.data()), bytes.size()})));
  } catch (const Error& error) {
    mistakes.push_back(std::string("--config-name: ") + error.what());
  }
  for (int64_t number = 1; std::getline(file, line); ++number) {
    line = WithoutComment(line);
    line.erase(line.find_last_not_of(" \t\r") + 1);
    const size_t begin = line.find_first_not_of(' '), colon = line.find(':');
    if (line.empty()) continue;
    if (line.compare(begin, 2, "- ") == 0 && !key.empty()) {
      items += (items.empty() ? "" : ",") + Unquoted(line.substr(line.find_first_not_of(' ', begin + 1)));
      if (group != "hydra") AddSetting(group, key, items, "", flags);
      continue;
    }
    if (colon == std::string::npos || (begin > 0 && group.empty())) {
      mistakes.push_back(Shown(path) + ":" + std::to_string(number) + ": expected 'group:' or '  key: value'");
      return {};
    }
    key = line.substr(begin, colon - begin);
    items.clear();
    const size_t value = line.find_first_not_of(' ', colon + 1);
    if (begin == 0) group = key;
    if (value == std::string::npos || group == "hydra") continue;
    AddSetting(group, begin == 0 ? "_name" : key, line.substr(value), "", flags);
  }
  return flags;
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
               {.name = "lr", .flag = "lr", .takes_numbers = true},  // [0.0005]
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

std::vector<command_line::Argument> WithoutHydra(const std::vector<command_line::Argument>& arguments,
                                                 std::vector<std::string>& mistakes) {
  const ForeignCommand command(arguments);
  const bool has_file = command.Has({"config_dir"});
  const bool is_hydras =
      has_file || command.Script() == "fairseq-hydra-train" ||
      std::ranges::any_of(arguments, [](const command_line::Argument& one) { return one.text.starts_with("task."); });
  if (!is_hydras) return arguments;
  std::vector<command_line::Argument> settings, others;
  if (const std::string name = command.Value({"config_name"}, ""); has_file && !name.empty()) {
    const std::string path = command.Value({"config_dir"}, "") + "/" + name;
    settings = FlagsOfYaml(path + (path.ends_with(".yaml") ? "" : ".yaml"), mistakes);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& text = arguments[i].text;
    const std::string flag = FlagName(arguments[i]);
    const size_t begin = std::min(text.find_first_not_of("+~"), text.size()), dot = text.find('.');
    const size_t equals = std::min(text.find('='), text.size());
    const std::string group = dot < equals ? text.substr(begin, dot - begin) : "";
    if (has_file && (flag == "config_dir" || flag == "config_name")) {
      if (equals == text.size()) ++i;
    } else if ((equals < text.size() || text[0] == '~') && std::ranges::find(kGroups, group) != kGroups.end()) {
      const bool has_value = begin == 0 || text[0] == '+';
      AddSetting(group, text.substr(dot + 1, equals - dot - 1),
                 has_value && equals < text.size() ? text.substr(equals + 1) : "", arguments[i].place, settings);
    } else if (text[0] != '-' && group.empty() && equals < text.size()) {
      if (text.starts_with("hydra/")) continue;
      mistakes.push_back(
          "'" + text +
          "' names settings in a file, of which that of --config-name alone is read: give them as group.key=value");
    } else if (group != "hydra" && flag != "m" && flag != "multirun" &&
               (i > 0 || !(text.ends_with("fairseq-hydra-train") || text.ends_with(".py")))) {
      others.push_back(arguments[i]);
    }
  }
  settings.insert(settings.end(), others.begin(), others.end());
  return settings;
}

}  // namespace dtrain::config
