// The table first; what a row cannot say (an address inside a URL, brackets around numbers, a folder without a flag) is
// done by name below it.
#include "trainer/config/aliases.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

using command_line::Argument;

struct Word {
  std::string_view theirs, ours;
};

struct Alias {
  std::string_view name;  // with underscores
  bool takes_value = true;
  std::string_view flag = {};     // of ours, that gets the value; empty: none does
  std::vector<Word> words = {};   // the values that are understood, and what they are here; empty: any, as it is
  bool other_words_pass = false;  // as they are: for flags that are ours, too
  std::vector<std::string> implied = {};  // flags of ours that come with it
  std::string_view reason = {};           // why it means nothing here
};

constexpr std::string_view kOwnLoop = "how ranks exchange what they must is decided here";
constexpr std::string_view kOwnPlan = "the model and its criterion follow from --model";
constexpr std::string_view kNotYet = "there is nothing of the kind here yet";

// In the order of the tools; a flag that two of them have stands once.
const std::vector<Alias>& Aliases() {
  static const std::vector<Alias> table = {
      // fairseq-train
      {.name = "task", .words = {{"masked_lm", ""}}, .implied = {"--data_format=tokens", "--mask_special_tokens"}},
      {.name = "criterion", .words = {{"masked_lm", ""}}},
      {.name = "arch", .flag = "model"},
      {.name = "max_sentences", .flag = "batch_size"},
      {.name = "update_freq", .flag = "grad_accum_steps"},
      {.name = "sample_break_mode", .flag = "sample_break"},
      {.name = "max_update", .flag = "max_steps", .implied = {"--epochs=1000000"}},
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
       .implied = {"--poly_power=1"}},
      {.name = "fp16", .takes_value = false, .implied = {"--precision=fp16"}},
      {.name = "bf16", .takes_value = false, .implied = {"--precision=bf16"}},
      {.name = "memory_efficient_fp16",
       .takes_value = false,
       .implied = {"--precision=fp16"},
       .reason =
           "the optimizer keeps fp32 weights and state here: the numbers of --fp16, without the saving of memory"},
      {.name = "fp16_init_scale",
       .reason = "the scale starts at 65,536 here and finds its place; --loss_scale=N fixes it"},
      {.name = "fp16_scale_window", .flag = "loss_scale_window"},
      {.name = "log_format",
       .flag = "log_format",
       .words = {{"simple", "auto"}, {"none", "auto"}, {"tqdm", "bar"}},
       .other_words_pass = true},
      {.name = "no_progress_bar", .takes_value = false, .reason = "there is a bar on a terminal only"},
      {.name = "save_dir", .flag = "run_dir"},
      {.name = "keep_last_epochs", .flag = "keep_checkpoints"},
      {.name = "keep_interval_updates", .flag = "keep_checkpoints"},
      {.name = "save_interval_updates", .reason = "--save_every_seconds saves between the ends of epochs"},
      {.name = "restore_file", .reason = "a run goes on from its own checkpoints; --init_weights starts from a file"},
      {.name = "num_workers", .flag = "workers"},
      {.name = "train_subset", .flag = "train_split"},
      {.name = "valid_subset", .flag = "val_split"},
      {.name = "distributed_world_size", .flag = "world_size"},
      {.name = "distributed_rank", .flag = "rank"},
      {.name = "distributed_port", .flag = "master_port"},
      {.name = "device_id", .flag = "local_rank"},
      {.name = "distributed_backend", .flag = "backend"},
      {.name = "fast_stat_sync", .takes_value = false, .reason = kOwnLoop},
      {.name = "ddp_backend", .reason = kOwnLoop},
      {.name = "find_unused_parameters", .takes_value = false, .reason = kOwnLoop},
      {.name = "distributed_no_spawn", .takes_value = false, .reason = "a launcher is recognised by itself"},
      {.name = "skip_invalid_size_inputs_valid_test",
       .takes_value = false,
       .reason = "blocks that are too long are left out"},
      {.name = "shorten_method", .reason = "blocks that are too long are left out"},
      {.name = "required_batch_size_multiple", .reason = "rows are padded to a multiple of 8, batches are not"},
      {.name = "encoder_normalize_before", .takes_value = false, .reason = kOwnPlan},
      {.name = "user_dir", .reason = kNotYet},
      // The AWS ImageNet scripts (Horovod, TensorFlow)
      {.name = "b", .flag = "batch_size"},
      {.name = "num_epochs", .flag = "epochs"},
      {.name = "lr_decay_mode",
       .flag = "lr_schedule",
       .words = {{"poly", "poly"}, {"cosine", "cosine"}, {"steps", "step"}}},
      {.name = "log_dir", .flag = "run_dir"},
      {.name = "synthetic", .takes_value = false, .implied = {"--data_format=synthetic"}},
      {.name = "mom", .flag = "momentum"},
      {.name = "wd", .flag = "weight_decay"},
      {.name = "display_every", .flag = "log_interval"},
      {.name = "num_batches", .flag = "max_steps"},
      {.name = "warmup_lr", .flag = "warmup_start_lr"},
      // torchvision's references
      {.name = "data_path", .flag = "data_dir"},
      {.name = "output_dir", .flag = "run_dir"},
      {.name = "j", .flag = "workers"},
      {.name = "opt", .flag = "optimizer", .words = {{"sgd", "sgd"}, {"adamw", "adamw"}}},
      {.name = "lr_warmup_epochs", .flag = "warmup_epochs"},
      {.name = "lr_warmup_method", .words = {{"linear", ""}}},
      {.name = "lr_warmup_decay", .reason = "--warmup_start_lr says the rate that the warmup starts from"},
      {.name = "lr_min", .flag = "end_lr"},
      {.name = "lr_step_size", .flag = "lr_decay_epochs"},
      {.name = "lr_gamma", .flag = "lr_decay_factor"},
      {.name = "amp", .takes_value = false, .implied = {"--precision=fp16"}},
      {.name = "norm_weight_decay", .words = {{"0", ""}, {"0.0", ""}}, .implied = {"--nodecay_norm_and_bias"}},
      {.name = "mixup_alpha", .flag = "mixup"},
      {.name = "cutmix_alpha", .flag = "cutmix"},
      {.name = "auto_augment",
       .flag = "augment",
       .words = {{"ta_wide", "trivialaugment"}, {"ra", "randaugment"}, {"imagenet", "autoaugment"}},
       .implied = {"--augment_interpolation=bilinear"}},
      {.name = "random_erase", .flag = "random_erasing"},
      {.name = "ra_reps", .flag = "repeated_augmentation"},
      {.name = "ra_sampler", .takes_value = false, .reason = "--repeated_augmentation (here --ra_reps, too) says it"},
      {.name = "val_resize_size", .flag = "eval_resize"},
      {.name = "train_crop_size", .flag = "image_size"},
      {.name = "val_crop_size", .reason = "images are evaluated at --image_size"},
      {.name = "clip_grad_norm", .flag = "clip_norm"},
      {.name = "print_freq", .flag = "log_interval"},
      {.name = "test_only", .takes_value = false, .implied = {"--mode=eval"}},
      {.name = "cache_dataset", .takes_value = false, .reason = "indexes are kept beside the data anyway"},
      {.name = "device", .reason = "a GPU is used where there is one; --backend=gloo stays on the CPU"},
      {.name = "dist_url",
       .reason = "launchers are recognised by themselves; --master_addr and --master_port name rank 0"},
      {.name = "use_deterministic_algorithms", .takes_value = false, .implied = {"--deterministic=run"}},
      {.name = "model_ema", .takes_value = false, .reason = kNotYet},
      {.name = "model_ema_steps", .reason = kNotYet},
      {.name = "model_ema_decay", .reason = kNotYet},
  };
  return table;
}

const Alias* FindAlias(const std::string& name) {
  const auto& table = Aliases();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Alias& alias) { return alias.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::string WithoutBrackets(std::string value) {
  std::erase_if(value, [](char letter) {
    return letter == '(' || letter == ')' || letter == '[' || letter == ']' || letter == ' ';
  });
  return value;
}

class Rewriter {
 public:
  Rewriter(const std::vector<Argument>& arguments, std::vector<std::string>& mistakes)
      : arguments_(arguments), mistakes_(mistakes) {}

  Rewritten Run() && {
    for (; next_ < arguments_.size(); ++next_) {
      const Argument& argument = arguments_[next_];
      const size_t dashes = argument.text.find_first_not_of('-');
      if (dashes == 1 || dashes == 2) {
        TakeFlag(argument, dashes);
      } else {
        TakeWord(argument);
      }
    }
    implied_.insert(implied_.end(), result_.arguments.begin(), result_.arguments.end());
    result_.arguments = std::move(implied_);
    return std::move(result_);
  }

 private:
  void TakeFlag(const Argument& argument, size_t dashes) {
    const size_t equals = argument.text.find('=');
    std::string name = argument.text.substr(dashes, equals == std::string::npos ? equals : equals - dashes);
    std::replace(name.begin(), name.end(), '-', '_');
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.text.substr(equals + 1);
    const Alias* alias = FindAlias(name);
    const bool by_name = name == "adam_betas" || name == "distributed_init_method";
    if (alias == nullptr && !by_name) return TakeOwn(argument, name, value.has_value());

    const bool wants_value = by_name || alias->takes_value;
    if (wants_value && !value) value = NextValue();
    if (wants_value && !value) {
      mistakes_.push_back(argument.place + "--" + name + ": a value is missing");
    } else if (name == "adam_betas") {
      Add(argument, "adam_betas", WithoutBrackets(*value));
    } else if (name == "distributed_init_method") {
      TakeAddress(argument, *value);
    } else {
      TakeAlias(argument, *alias, value.value_or(""));
    }
  }

  // A flag of ours, or none at all, stays as it is, and its value beside it.
  void TakeOwn(const Argument& argument, const std::string& name, bool has_value) {
    result_.arguments.push_back(argument);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr || flag->kind == Kind::kBool || has_value) return;
    if (next_ + 1 < arguments_.size() && !arguments_[next_ + 1].text.starts_with("--")) {
      result_.arguments.push_back(arguments_[++next_]);
    }
  }

  void TakeAlias(const Argument& argument, const Alias& alias, const std::string& value) {
    std::string ours = value;
    if (!alias.words.empty()) {
      const auto word = std::find_if(alias.words.begin(), alias.words.end(),
                                     [&](const Word& known) { return known.theirs == value; });
      if (word != alias.words.end()) {
        ours = word->ours;
      } else if (!alias.other_words_pass) {
        return mistakes_.push_back(argument.place + "--" + std::string(alias.name) + "=" + value + ": expected " +
                                   TheirWords(alias));
      }
    }
    if (!alias.flag.empty()) Add(argument, std::string(alias.flag), ours);
    for (const std::string& flag : alias.implied) implied_.push_back({flag, argument.place});
    if (alias.name == "task") reads_folder_ = true;
    if (!alias.reason.empty()) {
      result_.notes.push_back("--" + std::string(alias.name) + " has no effect: " + std::string(alias.reason));
    }
  }

  // tcp://HOST:PORT
  void TakeAddress(const Argument& argument, const std::string& value) {
    constexpr std::string_view kScheme = "tcp://";
    const size_t colon = value.rfind(':');
    if (!value.starts_with(kScheme) || colon <= kScheme.size()) {
      return mistakes_.push_back(argument.place + "--distributed_init_method=" + value + ": expected tcp://HOST:PORT");
    }
    Add(argument, "master_addr", value.substr(kScheme.size(), colon - kScheme.size()));
    Add(argument, "master_port", value.substr(colon + 1));
  }

  // fairseq takes the folder of its data without a flag.
  void TakeWord(const Argument& argument) {
    if (next_ == 0 && argument.text.ends_with("fairseq-train")) return;
    words_.push_back(result_.arguments.size());
    result_.arguments.push_back(argument);
    FolderOfFairseq();
  }

  void FolderOfFairseq() {
    const bool has_task =
        reads_folder_ || std::any_of(arguments_.begin() + static_cast<std::ptrdiff_t>(next_), arguments_.end(),
                                     [](const Argument& later) { return later.text.starts_with("--task"); });
    if (!has_task || words_.size() != 1) return;
    Argument& word = result_.arguments[words_.front()];
    word.text = "--data_dir=" + word.text;
  }

  void Add(const Argument& argument, const std::string& flag, const std::string& value) {
    result_.arguments.push_back({"--" + flag + "=" + value, argument.place});
  }

  std::optional<std::string> NextValue() {
    if (next_ + 1 >= arguments_.size() || arguments_[next_ + 1].text.starts_with("--")) return std::nullopt;
    return arguments_[++next_].text;
  }

  static std::string TheirWords(const Alias& alias) {
    std::string words;
    for (const Word& word : alias.words) words += (words.empty() ? "" : " | ") + std::string(word.theirs);
    return words;
  }

  const std::vector<Argument>& arguments_;
  std::vector<std::string>& mistakes_;
  Rewritten result_;
  std::vector<Argument> implied_;
  std::vector<size_t> words_;  // where words without a flag stand among the result's arguments
  bool reads_folder_ = false;
  size_t next_ = 0;
};

}  // namespace

Rewritten RewriteAliases(const std::vector<Argument>& arguments, std::vector<std::string>& mistakes) {
  return Rewriter(arguments, mistakes).Run();
}

}  // namespace dtrain::config
