// The defaults of Hugging Face's Trainer (TrainingArguments) and of the examples that are made of it, run_glue.py,
// run_ner.py, run_mlm.py and run_image_classification.py, as of transformers 4.57 and 5, with data in local files. What
// is not listed is the same here, or cannot change a number.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/folder_names.h"
#include "data/shallow_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kLocalFiles =
    "--train_file and --validation_file, or --train_dir, name data on this machine";
constexpr std::string_view kReports = "metrics.jsonl has a run's numbers, and --on_event passes them on";
constexpr std::string_view kCompiled = "it has compiled code for what others compile at the start";
constexpr std::string_view kUpload = "--mode=export writes a folder that can be uploaded";
constexpr std::string_view kAfterwards = "afterwards: --mode=predict --run_dir=FOLDER --input=FILE";
constexpr std::string_view kFewer = "leave it out, or make files with fewer lines";
constexpr char kRunImages[] = "run_image_classification.py", kRunNer[] = "run_ner.py", kRunMlm[] = "run_mlm.py",
               kRunGlue[] = "run_glue.py";

// Whether the first line of a file is an object with lists, as those of words and their tags are.
bool HasLists(const std::string& path) {
  std::string line;
  std::ifstream file(path.ends_with(".json") ? path : "");
  std::getline(file, line);
  const auto is_list = [](const nlohmann::json& value) { return value.is_array(); };
  try {
    const nlohmann::json object = ParseShallow(line);
    return object.is_object() && std::any_of(object.begin(), object.end(), is_list);
  } catch (const nlohmann::json::exception&) {  // whoever reads the file reports it
    return false;
  }
}

// Returns the example that a command is for: the one that it names, or else the one whose data or flags it has.
std::string ExampleOf(const ForeignCommand& command) {
  for (const char* name : {kRunImages, kRunNer, kRunMlm, kRunGlue}) {
    if (command.Script() == name) return name;
  }
  const std::string file = command.Value({"train_file"}, command.Value({"validation_file"}, ""));
  if (command.Has({"train_dir", "validation_dir"})) return kRunImages;
  if (file.ends_with(".txt") || command.Has({"mlm_probability", "line_by_line"})) return kRunMlm;
  if (HasLists(file) || command.Has({"text_column_name", "label_all_tokens", "return_entity_level_metrics"}))
    return kRunNer;
  return kRunGlue;
}

std::vector<std::string> DefaultsOfTransformers(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags(
      "--optimizer=adamw --lr=5e-05 --weight_decay=0 --clip_norm=1 --lr_schedule=poly --poly_power=1 --epochs=3 "
      "--batch_size=8 --seed=42 --log_interval=500 --decay_norm_and_bias=false --eval_every_epochs=0 "
      "--save_every_steps=500 --save_every_epochs=0",
      flags);
  const std::string example = ExampleOf(command);
  const std::string resume = command.Value({"resume"}, "auto");
  if (example == kRunImages && (resume == "auto" || resume == "none") &&
      !command.Has({"model_name_or_path", "model", "config_name", "init_weights", "mode", "input"}))
    flags.push_back("--init_weights=google/vit-base-patch16-224-in21k");
  if (example == kRunGlue) flags.push_back("--tokens_per_sample=128");
  if (example == kRunNer) flags.push_back("--task=token_classification");
  if (example == kRunMlm) AddFlags("--task=masked_lm --sample_break=joined", flags);
  if (!command.Has({"validation_dir", "validation_file", "val_split", "val_fold"})) {
    if (example == kRunImages) flags.push_back("--val_fraction=0.15");
    if (example == kRunMlm) flags.push_back("--val_fraction=0.05");
  }
  return flags;
}

// Behind a switch.
constexpr std::string_view kNo[] = {"False", "0", "no", "f", "n"}, kYes[] = {"", "True", "1", "yes", "t", "y"};

bool IsNo(const std::string& word) {
  return std::ranges::any_of(kNo, [&](std::string_view no) { return Lower(std::string(no)) == Lower(word); });
}

// A switch that is refused unless the word behind it says no.
Alias OnlyOff(std::string_view name, std::string_view reason) {
  Alias row{.name = name, .takes_value = false, .refused = reason, .value_is_optional = true};
  for (const std::string_view no : kNo) row.words.push_back({no, ""});
  return row;
}

// Switches with the flag of ours that each sets, if any, "fp16=--precision=fp16", and why the others have no effect. A
// word may stand behind them: --fp16 True.
std::vector<Alias> OptionalSwitches(std::string_view words, std::string_view reason = {}) {
  std::vector<Alias> rows = Switches(words);
  for (Alias& row : rows) {
    const std::string_view implied = std::exchange(row.implied, "");
    row.words.clear();
    for (const std::string_view no : kNo) row.words.push_back({no, ""});
    for (const std::string_view yes : kYes) row.words.push_back({yes, "", implied, reason});
    row.value_is_optional = true;
  }
  return rows;
}

bool IsOn(const ForeignCommand& command, const char* name) {
  const auto found = command.Find({name});
  return found && !IsNo(*found);
}

// Of float32 products, which are none beside half precision.
Translation Tf32(const std::string& value, const ForeignCommand& command) {
  if (IsNo(value) || IsOn(command, "bf16") || IsOn(command, "fp16")) return {};
  return {{"--precision=tf32"}};
}

Translation Fp16(const std::string& value, const ForeignCommand& command) {
  if (IsNo(value)) return {};
  if (IsOn(command, "bf16")) return {.refused = "--bf16 is there, too: give one of them"};
  return {{"--precision=fp16"}};
}

// Whether --max_steps says none. A value that is no number is refused where ours is read.
bool IsNoSteps(const std::string& value) { return NumberFrom(value).value_or(1) <= 0; }
bool HasNoSteps(const ForeignCommand& command) { return IsNoSteps(command.Value({"max_steps"}, "-1")); }

// They count in place of --num_train_epochs.
Translation Steps(const std::string& value, const ForeignCommand& command) {
  if (IsNoSteps(value)) return {};
  if (command.Has({"epochs"})) return {{"--max_steps=" + value}};
  return {{"--max_steps=" + value, "--epochs=1000000"}};
}

// --warmup_steps, if it is not 0, counts before --warmup_ratio; below 1 it is a part of the run, too (transformers 5).
Translation Warmup(const std::string&, const ForeignCommand& command) {
  if (command.Value({"lr_scheduler_type"}, "") == "constant") return {.note = "only constant_with_warmup has a warmup"};
  const std::string steps = command.Value({"warmup_steps"}, "0");
  if (NumberFrom(steps) >= 1.0) return {{"--warmup_steps=" + ToText(std::floor(*NumberFrom(steps)))}};
  return {{"--warmup_fraction=" + (NumberFrom(steps) == 0.0 ? command.Value({"warmup_ratio"}, steps) : steps)}};
}

Translation Betas(const std::string&, const ForeignCommand& command) {
  return {{"--adam_betas=" + command.Value({"adam_beta1"}, "0.9") + "," + command.Value({"adam_beta2"}, "0.999")}};
}

Translation EvaluationTimes(const std::string& value, const ForeignCommand& command) {
  if (value == "no") return {{"--eval_every_epochs=0"}};
  if (value == "epoch") return {{"--eval_every_epochs=1"}};
  if (value != "steps") return {.refused = "expected no | epoch | steps"};
  const bool has_steps = command.Number({"eval_steps"}, 0) != 0;
  return {{"--eval_every_steps=" + command.Value({has_steps ? "eval_steps" : "logging_steps"}, "500")}};
}

// With another strategy they mean nothing, in whatever order.
bool SavesBySteps(const ForeignCommand& command) { return command.Value({"save_strategy"}, "steps") == "steps"; }

Translation SavingTimes(const std::string& value, const ForeignCommand& command) {
  if (value == "no") return {{"--save_every_steps=0", "--save_every_epochs=0"}};
  if (value == "epoch") return {{"--save_every_steps=0", "--save_every_epochs=1"}};
  if (value == "steps") return {{"--save_every_steps=" + command.Value({"save_steps"}, "500")}};
  return {.refused = "expected no | epoch | steps"};
}

// With "eval_" or without.
Translation BestMetric(const std::string& value, const ForeignCommand& command) {
  constexpr std::string_view kPrefix = "eval_";
  const std::string metric = value.substr(value.starts_with(kPrefix) ? kPrefix.size() : 0);
  const bool is_top1 = metric == "accuracy" && ExampleOf(command) == kRunImages;
  return {{"--best_metric=" + (is_top1 ? "top1" : metric)}};
}

// Which weights are loaded at the end, is decided by the loss unless something else is named.
Translation BestAtEnd(const std::string& value, const ForeignCommand& command) {
  if (IsNo(value)) return {};
  Translation translation{.note = "the best weights are kept beside the last ones: model_best.safetensors"};
  if (!command.Has({"metric_for_best_model", "best_metric"})) translation.flags = {"--best_metric=loss"};
  return translation;
}

// Without a split for validation two of the examples hold out a part of the other, whatever lies beside it.
Translation HoldingOut(Translation train, const std::string& ending, const std::string& flag,
                       const ForeignCommand& command) {
  if (train.flags.empty() || command.Has({"validation_dir", "validation_file"})) return train;
  const std::string folder = train.flags.front().substr(std::string_view("--data_dir=").size());
  for (const std::string& name : data::SplitNames("val")) {
    const std::string path = folder + "/" + name + ending;
    std::error_code ignored;
    const bool is_train = std::ranges::find(train.flags, "--train_split=" + name) != train.flags.end();
    if (!is_train && std::filesystem::exists(path, ignored))
      return {.refused = path + " lies beside it: add " + flag + " " + path};
  }
  return train;
}

// The format of the files follows from the example.
template <Translator split>
Translation FileOfSplit(const std::string& path, const ForeignCommand& command) {
  Translation translation = split(path, command);
  if (!translation.refused.empty()) return translation;
  const bool is_text = ExampleOf(command) == kRunMlm;
  if (is_text != path.ends_with(".txt")) return {.refused = "run_mlm.py reads .txt files here, the others tables"};
  translation.flags.push_back(is_text ? "--data_format=text" : "--data_format=sentences");
  return is_text ? HoldingOut(std::move(translation), ".txt", "--validation_file", command) : translation;
}

Translation TrainFolder(const std::string& path, const ForeignCommand& command) {
  return HoldingOut(TrainSplit(path, command), "", "--validation_dir", command);
}

Translation DoEval(const std::string& value, const ForeignCommand& command) {
  if (IsNo(value) || !IsNo(command.Value({"do_train"}, "False"))) return {};
  return {.flags = {"--mode=eval"}, .note = "without --do_train nothing is trained"};
}

Translation PercentHeldOut(const std::string& value, const ForeignCommand&) {
  const auto percent = NumberFrom(value);
  if (!percent) return {.refused = "expected a number"};
  return {{"--val_fraction=" + ToText(*percent / 100)}};
}

// Of run_ner.py it only names the column of labels.
Translation TaskName(const std::string& value, const ForeignCommand& command) {
  if (ExampleOf(command) != kRunNer) return {.refused = std::string(kLocalFiles)};
  if (value == "ner" || command.Has({"label_column_name", "label_column"})) return {};
  return {{"--label_column=" + value + "_tags"}};
}

Translation LabelColumn(const std::string& value, const ForeignCommand& command) {
  if (ExampleOf(command) == kRunImages) return {.note = "folders are the labels of images"};
  return {{"--label_column=" + value}};
}

// Of a tokenizer, or of what prepares images.
Translation BesideWeights(const std::string& value, const ForeignCommand& command) {
  if (value == command.Value({"model_name_or_path"}, "")) return {};
  return {.refused = "it lies beside the weights of --model_name_or_path or the data"};
}

// --lr_scheduler_kwargs, an object in JSON, has the length and the form of the decay of warmup_stable_decay.
Translation SettingsOfSchedule(const std::string& value, const ForeignCommand& command) {
  constexpr char kExpected[] = R"(expected {"num_decay_steps": N, "decay_type": "cosine" | "linear" | "1-sqrt"})";
  if (command.Value({"lr_scheduler_type"}, "") != "warmup_stable_decay")
    return {.refused = "only warmup_stable_decay has further settings here"};
  const nlohmann::json settings = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (!settings.is_object() || !settings.contains("num_decay_steps")) return {.refused = kExpected};
  Translation translation{{"--wsd_form=cosine"}};
  for (const auto& [name, setting] : settings.items()) {
    if (name == "num_decay_steps" && setting.is_number_unsigned())
      translation.flags.push_back("--wsd_decay=" + setting.dump());
    else if (name == "decay_type" && (setting == "cosine" || setting == "linear" || setting == "1-sqrt"))
      translation.flags[0] = "--wsd_form=" + (setting == "1-sqrt" ? "sqrt" : setting.get<std::string>());
    else
      return {.refused = kExpected};
  }
  return translation;
}

std::vector<Alias> OfTrainersData() {
  return Together(
      {Renamed("model_name_or_path=init_weights config_name=model_config train_val_split=val_fraction "
               "text_column_name=text_column max_seq_length=tokens_per_sample mlm_probability=mask_prob"),
       RenamedUnless("0", "dataloader_num_workers=workers"),
       OnlyTaken("image_column_name=image", ""),
       OptionalSwitches("line_by_line=--sample_break=lines dataloader_drop_last=--last_batch=drop "
                        "gradient_checkpointing=--activation_checkpointing "
                        "activation_checkpointing=--activation_checkpointing do_train="),
       OptionalSwitches("return_entity_level_metrics=", "class_accuracy.csv has the numbers of each kind of entity"),
       OptionalSwitches("pad_to_max_length=", "padding changes no number"),
       OptionalSwitches("ignore_mismatched_sizes=", "a head that does not fit is drawn anew in any case"),
       OptionalSwitches("remove_unused_columns= no_remove_unused_columns= dataloader_pin_memory= "
                        "no_dataloader_pin_memory= dataloader_persistent_workers= "
                        "dataloader_in_order= overwrite_cache=",
                        kOwnLoader),
       OptionalSwitches("trust_remote_code=", "models are dtrain's own"),
       OptionalSwitches("use_fast_tokenizer=", "there is one tokenizer, with its tokens"),
       WithoutEffect(kOwnLoader, "preprocessing_num_workers cache_dir dataloader_prefetch_factor"),
       WithoutEffect("its numbers are the same", "activation_checkpointing_kwargs gradient_checkpointing_kwargs"),
       WithoutEffect("weights and data lie on this machine", "token model_revision"),
       WithoutEffect(kAfterwards, "test_file"),
       Translated(BesideWeights, "tokenizer_name image_processor_name"),
       Translated(TaskName, "task_name"),
       {OnlyOff("label_all_tokens", "the first token of a word has its label"),
        OnlyOff("do_predict", kAfterwards),
        {.name = "model_type", .refused = "--model=NAME, or --model_config=FILE, makes a model without weights"},
        {.name = "train_file", .translate = FileOfSplit<TrainSplit>},
        {.name = "validation_file", .translate = FileOfSplit<ValSplit>},
        {.name = "do_eval", .takes_value = false, .translate = DoEval, .value_is_optional = true},
        {.name = "train_dir", .translate = TrainFolder},
        {.name = "validation_dir", .translate = ValSplit},
        {.name = "validation_split_percentage", .translate = PercentHeldOut},
        {.name = "dataset_name", .refused = kLocalFiles},
        {.name = "label_column_name", .translate = LabelColumn},
        {.name = "max_train_samples", .refused = kFewer},
        {.name = "max_eval_samples", .refused = kFewer},
        {.name = "train_sampling_strategy",
         .words = {{"random", ""}, {"sequential", "", "--shuffle=none"}},
         .refused = "samples have a random order or that of the data"}}});
}

std::vector<Alias> OfTrainersOptimization() {
  return Together({Renamed("per_device_train_batch_size=batch_size gradient_accumulation_steps=grad_accum_steps "
                           "adam_epsilon=adam_eps max_grad_norm=clip_norm label_smoothing_factor=label_smoothing"),
                   OptionalSwitches("bf16=--precision=bf16"),
                   WithoutEffect(kEvaluationBatch, "per_device_eval_batch_size"),
                   Translated(Betas, "adam_beta1 adam_beta2"),
                   Translated(Warmup, "warmup_steps warmup_ratio"),
                   {{.name = "lr_scheduler_type",
                     .flag = "lr_schedule",
                     .words = {{"linear", "poly"},
                               {"cosine", "cosine"},
                               {"constant", "constant"},
                               {"constant_with_warmup", "constant"},
                               {"warmup_stable_decay", "wsd"}}},
                    {.name = "tf32", .takes_value = false, .translate = Tf32, .value_is_optional = true},
                    {.name = "fp16", .takes_value = false, .translate = Fp16, .value_is_optional = true},
                    {.name = "lr_scheduler_kwargs", .translate = SettingsOfSchedule},
                    {.name = "max_steps", .translate = Steps},
                    {.name = "num_train_epochs", .flag = "epochs", .counts = HasNoSteps},
                    {.name = "optim",
                     .flag = "optimizer",
                     .words = {{"adamw_torch", "adamw"},
                               {"adamw_torch_fused", "adamw"},
                               {"stable_adamw", "stable_adamw"},
                               {"sgd", "sgd", "--momentum=0"}}}}});
}

std::vector<Alias> OfTrainersRun() {
  return Together(
      {Renamed("resume_from_checkpoint=resume logging_steps=log_interval ddp_backend=backend "
               "ddp_bucket_cap_mb=bucket_cap_mb"),
       RenamedUnless("-1", "save_total_limit=keep_checkpoints"),
       OptionalSwitches("overwrite_output_dir=--resume=none use_cpu=--backend=gloo "
                        "full_determinism=--deterministic=run"),
       OptionalSwitches("disable_tqdm=", "the bar appears on a terminal only"),
       OptionalSwitches("ddp_find_unused_parameters=", "every parameter takes part in every step"),
       OptionalSwitches("greater_is_better=", "each metric knows which value is the better one"),
       OptionalSwitches("push_to_hub= hub_private_repo= hub_always_push=", kUpload),
       OptionalSwitches("logging_first_step= skip_memory_metrics= log_on_each_node= logging_nan_inf_filter= "
                        "include_num_input_tokens_seen=",
                        kReports),
       OptionalSwitches("save_only_model= save_on_each_node= save_safetensors=",
                        "a run always keeps what it goes on from, once for all ranks"),
       OptionalSwitches("prediction_loss_only= batch_eval_metrics=", "the memory that evaluations take does not grow"),
       WithoutEffect("the memory that evaluations take does not grow", "eval_accumulation_steps"),
       WithoutEffect("memory of the GPU is used again", "torch_empty_cache_steps"),
       OptionalSwitches("torch_compile=", kCompiled),
       WithoutEffect(kCompiled, "torch_compile_mode torch_compile_backend"),
       OnlyTaken("logging_strategy=steps", "--logging_steps sets when lines are logged"),
       WithoutEffect(kReports,
                     "logging_dir report_to run_name push_to_hub_model_id project log_level log_level_replica"),
       WithoutEffect(kUpload, "hub_model_id hub_strategy hub_token hub_revision"),
       WithoutEffect("--comm_timeout says how long a rank may be silent", "ddp_timeout"),
       Translated(OfAnother, "eval_steps"),
       Translated(EvaluationTimes, "eval_strategy evaluation_strategy"),
       {{.name = "load_best_model_at_end", .takes_value = false, .translate = BestAtEnd, .value_is_optional = true},
        {.name = "save_strategy", .translate = SavingTimes},
        {.name = "save_steps", .flag = "save_every_steps", .counts = SavesBySteps},
        {.name = "metric_for_best_model", .translate = BestMetric}}});
}

}  // namespace

const ForeignProgram& TransformersProgram() {
  static const ForeignProgram program = {
      .name = "transformers",
      .called = "Hugging Face's Trainer",
      .signatures = {},
      .defaults = DefaultsOfTransformers,
      .rows = Together({OfTrainersData(), OfTrainersOptimization(), OfTrainersRun()}),
      .turns_photographs = true,
      .scripts = {kRunImages, kRunNer, kRunMlm, kRunGlue}};
  return program;
}

}  // namespace dtrain::config
