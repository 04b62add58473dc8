// Applies the rows of the table (alias_table.h). The code handles the few cases that a row cannot express: an address
// inside a URL, brackets around numbers, a folder without a flag.
#include "trainer/config/aliases.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "trainer/config/alias_table.h"
#include "trainer/config/flags.h"
#include "trainer/config/removed_flags.h"

namespace dtrain::config {
namespace {

using command_line::Argument;

bool Matches(const Word& word, const std::string& value) {
  if (word.theirs.ends_with('*')) return value.starts_with(word.theirs.substr(0, word.theirs.size() - 1));
  return word.theirs == value;
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
    if (const RemovedFlag* removed = FindRemoved(name)) {
      if (removed->takes_value && !value) NextValue();
      return mistakes_.push_back(argument.place + "--" + name + " is no longer a flag: " + std::string(removed->why));
    }
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
    if (!alias.words.empty() && !known && !alias.other_words_pass) {
      return mistakes_.push_back(argument.place + "--" + name + "=" + value + ": expected " + TheirWords(alias));
    }
    const std::string ours = known ? std::string(word->ours) : value;
    if (!alias.flag.empty() && !(known && ours.empty())) Add(argument, std::string(alias.flag), ours);
    for (const std::string& flag : alias.implied) implied_.push_back({flag, argument.place});
    if (known && !word->implied.empty()) implied_.push_back({std::string(word->implied), argument.place});
    if (known && !word->reason.empty()) {
      result_.notes.push_back("--" + name + "=" + value + ": " + std::string(word->reason));
    }
    if (!alias.reason.empty()) result_.notes.push_back("--" + name + " has no effect: " + std::string(alias.reason));
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

  bool HasTaskOrArchitecture() const {
    return std::any_of(arguments_.begin(), arguments_.end(), [](const Argument& one) {
      const std::string name = one.text.substr(0, one.text.find('='));
      return name == "--task" || name == "--arch" || name == "-a";
    });
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
  int words_ = 0;  // arguments without a flag, so far
  size_t next_ = 0;
};

}  // namespace

Rewritten RewriteAliases(const std::vector<Argument>& arguments, std::vector<std::string>& mistakes) {
  return Rewriter(arguments, mistakes).Run();
}

}  // namespace dtrain::config
