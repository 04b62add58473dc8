// The defaults of Hugging Face's Trainer (TrainingArguments) and of its examples run_glue.py and
// run_image_classification.py, as of transformers 4.57, with data in local files. What is not listed is the same here,
// or cannot change a number.
#include <cmath>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kLocalFiles =
    "--train_file and --validation_file, or --train_dir, name data on this machine";
constexpr std::string_view kReports = "metrics.jsonl has a run's numbers, and --on_event passes them on";

bool ReadsImages(const ForeignCommand& command) { return command.Has({"train_dir"}); }

std::vector<std::string> DefaultsOfTransformers(const ForeignCommand& command) {
  std::vector<std::string> flags = {"--optimizer=adamw",
                                    "--lr=5e-05",
                                    "--weight_decay=0",
                                    "--clip_norm=1",
                                    "--lr_schedule=poly",
                                    "--poly_power=1",
                                    "--epochs=3",
                                    "--batch_size=8",
                                    "--seed=42",
                                    "--log_interval=500",
                                    "--decay_norm_and_bias=false",
                                    "--eval_every_epochs=0",
                                    "--save_every_steps=500"};
  if (!ReadsImages(command)) flags.push_back("--tokens_per_sample=128");
  if (ReadsImages(command) && !command.Has({"validation_dir"})) flags.push_back("--val_fraction=0.15");
  return flags;
}

// A switch may have a word behind it: --fp16, --fp16 True.
Alias Switch(std::string_view name, std::string_view implied, std::string_view reason = {}) {
  return {.name = name,
          .takes_value = false,
          .words = {{"", "", implied, reason},
                    {"True", "", implied, reason},
                    {"true", "", implied, reason},
                    {"False", ""},
                    {"false", ""}},
          .value_is_optional = true};
}

Translation WarmupRatio(const std::string& value, const ForeignCommand& command) {
  const auto ratio = NumberFrom(value);
  if (!ratio) return {.refused = "it is a part of the run, 0 to 1"};
  if (const double steps = command.Number({"max_steps"}, -1); steps > 0) {
    return {{"--warmup_steps=" + ToText(Value(std::ceil(*ratio * steps)))}};
  }
  return {{"--warmup_epochs=" + ToText(Value(*ratio * command.Number({"num_train_epochs"}, 3)))}};
}

Translation Betas(const std::string&, const ForeignCommand& command) {
  return {{"--adam_betas=" + command.Value({"adam_beta1"}, "0.9") + "," + command.Value({"adam_beta2"}, "0.999")}};
}

Translation EvaluationTimes(const std::string& value, const ForeignCommand& command) {
  if (value == "no") return {{"--eval_every_epochs=0"}};
  if (value == "epoch") return {{"--eval_every_epochs=1"}};
  if (value == "steps") return {{"--eval_every_steps=" + command.Value({"eval_steps", "logging_steps"}, "500")}};
  return {.refused = "expected no | epoch | steps"};
}

Translation SavingTimes(const std::string& value, const ForeignCommand& command) {
  if (value == "no") return {{"--save_every_steps=0", "--save_every_epochs=0"}};
  if (value == "epoch") return {{"--save_every_steps=0", "--save_every_epochs=1"}};
  if (value == "steps") return {{"--save_every_steps=" + command.Value({"save_steps"}, "500")}};
  return {.refused = "expected no | epoch | steps"};
}

template <bool is_train>
Translation Split(const std::string& given, const ForeignCommand& command) {
  const std::string other =
      command.Value({is_train ? "validation_file" : "train_file", is_train ? "validation_dir" : "train_dir"}, given);
  if (given.ends_with(".json")) return {.refused = "rename it to .jsonl: it has an object on each line"};
  if (given.ends_with(".txt")) return {.refused = "dtrain_data tokenize tokenizes text beforehand"};
  Translation translation = SplitBeside(given, other, is_train, /*without_extension=*/!ReadsImages(command));
  if (!ReadsImages(command)) translation.flags.push_back("--data_format=sentences");
  return translation;
}

std::vector<Alias> OfTrainersData() {
  return {
      {.name = "model_name_or_path", .flag = "init_weights"},
      {.name = "config_name", .flag = "model_config"},
      {.name = "train_file", .translate = Split<true>},
      {.name = "validation_file", .translate = Split<false>},
      {.name = "train_dir", .translate = Split<true>},
      {.name = "validation_dir", .translate = Split<false>},
      {.name = "train_val_split", .flag = "val_fraction"},
      {.name = "task_name", .refused = kLocalFiles},
      {.name = "dataset_name", .refused = kLocalFiles},
      {.name = "max_seq_length", .flag = "tokens_per_sample"},
      Switch("pad_to_max_length", "", "padding changes no number"),
      Switch("ignore_mismatched_sizes", "", "a head that does not fit is drawn anew in any case"),
      Switch("remove_unused_columns", "", kOwnLoader),
      {.name = "dataloader_num_workers", .flag = "workers", .words = {{"0", ""}}, .other_words_pass = true},
      Switch("dataloader_drop_last", "--last_batch=drop"),
      Switch("dataloader_pin_memory", "", kOwnLoader),
      Switch("gradient_checkpointing", "--activation_checkpointing"),
      Switch("do_train", ""),
      Switch("do_eval", ""),
      {.name = "do_predict",
       .takes_value = false,
       .refused = "afterwards: --mode=predict --run_dir=FOLDER --input=FILE"},
  };
}

std::vector<Alias> OfTrainersOptimization() {
  return {
      {.name = "per_device_train_batch_size", .flag = "batch_size"},
      {.name = "per_device_eval_batch_size", .reason = kEvaluationBatch},
      {.name = "gradient_accumulation_steps", .flag = "grad_accum_steps"},
      {.name = "num_train_epochs", .flag = "epochs"},
      {.name = "max_steps", .flag = "max_steps", .words = {{"-1", ""}}, .other_words_pass = true},
      {.name = "learning_rate", .flag = "lr"},
      {.name = "lr_scheduler_type",
       .flag = "lr_schedule",
       .words =
           {{"linear", "poly"}, {"cosine", "cosine"}, {"constant", "constant"}, {"constant_with_warmup", "constant"}}},
      {.name = "warmup_ratio", .translate = WarmupRatio},
      {.name = "optim",
       .flag = "optimizer",
       .words = {{"adamw_torch", "adamw"}, {"adamw_torch_fused", "adamw"}, {"sgd", "sgd", "--momentum=0"}}},
      {.name = "adam_beta1", .translate = Betas},
      {.name = "adam_beta2", .translate = Betas},
      {.name = "adam_epsilon", .flag = "adam_eps"},
      {.name = "max_grad_norm", .flag = "clip_norm"},
      {.name = "label_smoothing_factor", .flag = "label_smoothing"},
      Switch("fp16", "--precision=fp16"),
      Switch("bf16", "--precision=bf16"),
      Switch("tf32", "--precision=tf32"),
  };
}

std::vector<Alias> OfTrainersRun() {
  return {
      {.name = "output_dir", .flag = "run_dir"},
      Switch("overwrite_output_dir", "--resume=none"),
      {.name = "resume_from_checkpoint", .flag = "resume"},
      {.name = "logging_steps", .flag = "log_interval"},
      {.name = "logging_dir", .reason = kReports},
      {.name = "logging_strategy", .words = {{"steps", ""}}, .refused = "--logging_steps sets when lines are logged"},
      {.name = "eval_strategy", .translate = EvaluationTimes},
      {.name = "evaluation_strategy", .translate = EvaluationTimes},
      {.name = "eval_steps", .translate = OfAnother},
      {.name = "save_strategy", .translate = SavingTimes},
      {.name = "save_steps", .flag = "save_every_steps"},
      {.name = "save_total_limit", .flag = "keep_checkpoints"},
      {.name = "metric_for_best_model",
       .flag = "best_metric",
       .words = {{"eval_loss", "loss"}},
       .other_words_pass = true},
      Switch("load_best_model_at_end", "", "the best weights are kept beside the last ones: model_best.safetensors"),
      {.name = "report_to", .reason = kReports},
      {.name = "run_name", .reason = kReports},
      Switch("disable_tqdm", "", "the bar appears on a terminal only"),
      Switch("ddp_find_unused_parameters", "", "every parameter takes part in every step"),
      {.name = "ddp_backend", .flag = "backend"},
      Switch("use_cpu", "--backend=gloo"),
      Switch("push_to_hub", "", "--mode=export writes a folder that can be uploaded"),
  };
}

}  // namespace

const ForeignProgram& TransformersProgram() {
  static const ForeignProgram program = [] {
    ForeignProgram transformers{.name = "transformers",
                                .called = "Hugging Face's Trainer",
                                .signatures = {},
                                .defaults = DefaultsOfTransformers,
                                .rows = {},
                                .turns_photographs = true};
    for (const auto& rows : {OfTrainersData(), OfTrainersOptimization(), OfTrainersRun()}) {
      transformers.rows.insert(transformers.rows.end(), rows.begin(), rows.end());
    }
    return transformers;
  }();
  return program;
}

}  // namespace dtrain::config
