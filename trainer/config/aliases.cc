// Applies the rows of the table (alias_table.h). The code handles the few cases that a row cannot express: an address
// inside a URL, brackets around numbers, a folder without a flag.
#include "trainer/config/aliases.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"
#include "trainer/config/removed_flags.h"

namespace dtrain::config {
namespace {

using command_line::Argument;

bool Matches(const Word& word, const std::string& value) {
  if (word.theirs.ends_with('*')) return value.starts_with(word.theirs.substr(0, word.theirs.size() - 1));
  if (word.theirs == value) return true;
  const std::optional<double> theirs = NumberFrom(std::string(word.theirs)), given = NumberFrom(value);
  return theirs && given && *theirs == *given;
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
      : arguments_(arguments), mistakes_(mistakes), program_(RecognisedProgram(arguments)) {}

  Rewritten Run() && {
    for (; next_ < arguments_.size(); ++next_) {
      const Argument& argument = arguments_[next_];
      const size_t dashes = argument.text.find_first_not_of('-');
      if (dashes == 1 || dashes == 2) {
        TakeFlag(argument);
      } else {
        TakeWord(argument);
      }
    }
    implied_.insert(implied_.end(), result_.arguments.begin(), result_.arguments.end());
    if (program_ != nullptr) AddDefaults();
    result_.arguments = std::move(implied_);
    return std::move(result_);
  }

 private:
  void TakeFlag(const Argument& argument) {
    const size_t equals = argument.text.find('=');
    const std::string name = FlagName(argument);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.text.substr(equals + 1);
    if (const RemovedFlag* removed = FindRemoved(name)) {
      if (removed->takes_value && !value) NextValue();
      const std::string sentence = argument.place + "--" + name + " is no longer a flag: " + std::string(removed->why);
      // A run's configuration may be given again after a flag in it was removed.
      return argument.is_of_json ? result_.notes.push_back(sentence) : mistakes_.push_back(sentence);
    }
    const Alias* alias = FindAlias(name, program_);
    const bool by_name = name == "adam_betas" || name == "distributed_init_method" || TakesNumberOfOthers(name);
    if (alias == nullptr && !by_name) return TakeOwn(argument, name, value.has_value());

    const bool wants_value = by_name || alias->takes_value;
    if (wants_value && !value) value = NextValue();
    if (wants_value && !value) {
      mistakes_.push_back(argument.place + "--" + name + ": a value is missing");
    } else if (name == "adam_betas") {
      Add(argument, "adam_betas", WithoutBrackets(*value));
    } else if (TakesNumberOfOthers(name)) {
      TakeNumberOfOthers(argument, name, *value);
    } else if (name == "distributed_init_method") {
      TakeAddress(argument, *value);
    } else {
      TakeAlias(argument, *alias, value.value_or(""));
    }
  }

  // Passes on, unchanged, a flag of ours with the argument that is its value, or an unknown flag.
  void TakeOwn(const Argument& argument, const std::string& name, bool has_value) {
    result_.arguments.push_back(argument);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr || flag->kind == Kind::kBool || has_value) return;
    if (next_ + 1 < arguments_.size() && !arguments_[next_ + 1].text.starts_with("--")) {
      result_.arguments.push_back(arguments_[++next_]);
    }
  }

  void TakeAlias(const Argument& argument, const Alias& alias, const std::string& value) {
    const std::string name(alias.name);
    const auto word =
        std::find_if(alias.words.begin(), alias.words.end(), [&](const Word& known) { return Matches(known, value); });
    const bool known = word != alias.words.end();
    if (!alias.refused.empty() && !known) {
      return mistakes_.push_back(argument.place + "--" + name + (alias.takes_value ? "=" + value : "") +
                                 " has no equivalent: " + std::string(alias.refused));
    }
    if (!alias.words.empty() && !known && !alias.other_words_pass) {
      return mistakes_.push_back(argument.place + "--" + name + "=" + value + ": expected " + TheirWords(alias));
    }
    const std::string ours = known ? std::string(word->ours) : value;
    if (!alias.flag.empty() && !(known && ours.empty()))
      Add(argument, std::string(alias.flag), std::string(alias.before) + ours);
    for (const std::string& flag : alias.implied) implied_.push_back({flag, argument.place});
    if (known) {
      for (const std::string& flag : ImpliedFlags(*word)) implied_.push_back({flag, argument.place});
    }
    if (known && !word->reason.empty()) {
      result_.notes.push_back("--" + name + "=" + value + ": " + std::string(word->reason));
    }
    if (!alias.reason.empty()) result_.notes.push_back("--" + name + " has no effect: " + std::string(alias.reason));
  }

  // Flags whose translation depends on the value of another flag.
  static bool TakesNumberOfOthers(const std::string& name) {
    static const std::set<std::string> names = {"lr_warmup_decay",
                                                "crop_pct",
                                                "opt_eps",
                                                "opt_betas",
                                                "encoder_layers",
                                                "encoder_embed_dim",
                                                "encoder_ffn_embed_dim",
                                                "encoder_attention_heads",
                                                "max_positions"};
    return names.count(name) > 0;
  }

  void TakeNumberOfOthers(const Argument& argument, const std::string& name, const std::string& value) {
    const std::optional<double> number = NumberFrom(value);
    const auto refuse = [&](const std::string& hint) {
      mistakes_.push_back(argument.place + "--" + name + "=" + value + " cannot be translated: " + hint);
    };
    if (name == "opt_betas") return TakeBetas(argument, value);
    if (!number) return refuse("expected a number");
    if (name == "lr_warmup_decay") {
      const std::optional<double> peak = NumberFrom(ValueOf({"lr"}, "0.1"));
      return peak ? Add(argument, "warmup_start_lr", ToText(Value(*peak * *number))) : refuse("give --lr a number");
    }
    if (name == "crop_pct") {
      const std::optional<double> size = NumberFrom(ValueOf({"img_size", "image_size"}, ""));
      if (!size || !(*number > 0)) return refuse("give --img-size with it, or --eval_resize in pixels");
      return Add(argument, "eval_resize", std::to_string(static_cast<int64_t>(*size / *number)));
    }
    if (name == "opt_eps") {
      const bool is_rmsprop = ValueOf({"opt", "optimizer"}, "").starts_with("rmsprop");
      return Add(argument, is_rmsprop ? "rmsprop_eps" : "adam_eps", value);
    }
    if (*number != ShapeOfArchitecture(name)) {
      refuse("the shape follows from --arch; --model=roberta --model_config=FILE gives any other");
    }
  }

  // timm's takes both numbers as words of their own.
  void TakeBetas(const Argument& argument, const std::string& value) {
    std::string betas = WithoutBrackets(value);
    if (betas.find(',') == std::string::npos && next_ + 1 < arguments_.size() &&
        NumberFrom(arguments_[next_ + 1].text)) {
      betas += "," + arguments_[++next_].text;
    }
    Add(argument, "adam_betas", betas);
  }

  // Returns what fairseq's architecture has for this flag, and NaN, which equals nothing, if that is not known.
  double ShapeOfArchitecture(const std::string& name) const {
    if (name == "max_positions") return NumberFrom(ValueOf({"tokens_per_sample"}, "1024")).value_or(0);
    const bool is_large = ValueOf({"arch", "a", "model"}, "") == "roberta_large";
    if (!is_large && ValueOf({"arch", "a", "model"}, "") != "roberta_base") return std::nan("");
    if (name == "encoder_layers") return is_large ? 24 : 12;
    if (name == "encoder_embed_dim") return is_large ? 1024 : 768;
    if (name == "encoder_ffn_embed_dim") return is_large ? 4096 : 3072;
    return is_large ? 16 : 12;
  }

  // Returns the value of the last of these flags on the command line, or `otherwise`.
  std::string ValueOf(const std::vector<std::string>& names, const std::string& otherwise) const {
    std::string value = otherwise;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (std::find(names.begin(), names.end(), FlagName(arguments_[i])) != names.end())
        value = FlagValue(arguments_, i);
    }
    return value;
  }

  // tcp://HOST:PORT, or env://: the launcher's variables are looked at anyway.
  void TakeAddress(const Argument& argument, const std::string& value) {
    if (value == "env://") return;
    constexpr std::string_view kScheme = "tcp://";
    const size_t colon = value.rfind(':');
    if (!value.starts_with(kScheme) || colon <= kScheme.size()) {
      return mistakes_.push_back(argument.place + "--distributed_init_method=" + value +
                                 ": expected tcp://HOST:PORT or env://");
    }
    Add(argument, "master_addr", value.substr(kScheme.size(), colon - kScheme.size()));
    Add(argument, "master_port", value.substr(colon + 1));
  }

  // fairseq, torchelastic's example and NVIDIA's scripts take the folder of their data without a flag.
  void TakeWord(const Argument& argument) {
    if (next_ == 0 && argument.text.ends_with("fairseq-train")) return;
    const bool is_folder = ++words_ == 1 && HasTaskOrArchitecture();
    result_.arguments.push_back(is_folder ? Argument{"--data_dir=" + argument.text, argument.place} : argument);
  }

  // Puts the defaults of the recognised program before all others, and says which of them count.
  void AddDefaults() {
    const bool is_text = ValueOf({"arch", "a", "model"}, "roberta").starts_with("roberta");
    std::vector<Argument> defaults;
    std::string list;
    for (const std::string& flag : program_->defaults) {
      const size_t equals = flag.find('=');
      const std::string name = flag.substr(0, equals);
      if (!is_text && FindFlag(name.substr(2))->section == "text") continue;
      const bool is_given = std::any_of(implied_.begin(), implied_.end(),
                                        [&](const Argument& one) { return "--" + FlagName(one) == name; });
      if (is_given) continue;
      defaults.push_back({flag, ""});
      list += (list.empty() ? "" : ", ") + name.substr(2) + " " + flag.substr(equals + 1);
    }
    implied_.insert(implied_.begin(), defaults.begin(), defaults.end());
    if (list.empty()) return;
    result_.notes.push_back("as " + std::string(program_->called) + ": " + list +
                            " (--defaults_of=none: dtrain's own defaults)");
  }

  bool HasTaskOrArchitecture() const {
    return std::any_of(arguments_.begin(), arguments_.end(), [](const Argument& one) {
      const std::string name = one.text.substr(0, one.text.find('='));
      return name == "--task" || name == "--arch" || name == "-a";
    });
  }

  // A mistake in the value is reported with the name that was typed.
  void Add(const Argument& argument, const std::string& flag, const std::string& value) {
    const std::string typed = argument.text.substr(0, argument.text.find('='));
    result_.arguments.push_back(
        {"--" + flag + "=" + value, argument.place + (typed == "--" + flag ? "" : typed + " means ")});
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
  const ForeignProgram* program_;  // the program from which the command comes; may be null
  Rewritten result_;
  std::vector<Argument> implied_;
  int words_ = 0;  // arguments without a flag, so far
  size_t next_ = 0;
};

}  // namespace

std::vector<std::string> ImpliedFlags(const Word& word) {
  std::istringstream words{std::string(word.implied)};
  std::vector<std::string> flags;
  for (std::string flag; words >> flag;) flags.push_back(flag);
  return flags;
}

Rewritten RewriteAliases(const std::vector<Argument>& arguments, std::vector<std::string>& mistakes) {
  return Rewriter(arguments, mistakes).Run();
}

}  // namespace dtrain::config
