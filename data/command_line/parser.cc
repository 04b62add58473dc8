#include "data/command_line/parser.h"

#include <algorithm>
#include <optional>

#include "data/joined.h"

namespace dtrain::command_line {
namespace {

// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. A swap
// counts as one error because swaps are common typing errors. The time is quadratic, which does not matter at the
// length of a flag.
int EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> distance(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance[i][j] = std::min({replaced, distance[i - 1][j] + 1, distance[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

// Returns the nearest candidate (the first of equally near ones); empty if there is none.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 64;  // longer than any flag
  if (name.size() > kLongest) return "";
  // Up to a third of the letters may be wrong; a name with more errors is taken for another word.
  int best = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    // Among equally near names one of the same length wins: swapped or mistyped letters are more likely than missing
    // ones.
    const bool fits_better =
        distance == best && !nearest.empty() && nearest.size() != name.size() && candidate.size() == name.size();
    if (distance < best || fits_better) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

class Parser {
 public:
  Parser(std::vector<Argument> arguments, const std::vector<std::string>& commands, const std::vector<Flag>& flags,
         std::vector<std::string>& mistakes, const Hints& hints)
      : arguments_(std::move(arguments)), commands_(commands), flags_(flags), mistakes_(mistakes), hints_(hints) {}

  Parsed Run() && {
    if (!commands_.empty()) TakeCommand();
    while (next_ < arguments_.size()) {
      const Argument argument = arguments_[next_++];
      const size_t dashes = argument.text.find_first_not_of('-');
      if (dashes == 1 || dashes == 2) {
        last_list_ = nullptr;
        TakeFlag(argument, dashes);
      } else if (last_list_ != nullptr) {
        Set(*last_list_, argument.text, argument.place);
      } else {
        Stray(argument);
      }
    }
    return result_;
  }

 private:
  void TakeCommand() {
    const std::string words = Joined(commands_, " | ");
    if (arguments_.empty() || arguments_[0].text.starts_with('-')) {
      mistakes_.push_back("the first argument must be a command: " + words);
      return;
    }
    const std::string word = arguments_[next_++].text;
    if (std::ranges::find(commands_, word) != commands_.end()) {
      result_.command = word;
      return;
    }
    const std::string hint = DidYouMean(word, commands_);
    mistakes_.push_back("'" + word + "' is not a command; " + (hint.empty() ? "expected " + words : hint));
  }

  void Stray(const Argument& argument) {
    const std::string hint = last_boolean_.empty()
                                 ? "flags begin with --"
                                 : "--" + last_boolean_ + " takes its value after an equals sign only";
    mistakes_.push_back(argument.place + "'" + argument.text + "' is not a flag; " + hint);
  }

  void TakeFlag(const Argument& argument, size_t dashes) {
    const size_t equals = argument.text.find('=');
    const std::string written = argument.text.substr(0, equals);
    std::string name = written.substr(dashes);
    for (char& letter : name) letter = letter == '-' ? '_' : letter;
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.text.substr(equals + 1);
    last_boolean_.clear();

    if (name == "help" || name == "h") {
      result_.wants_help = true;
      result_.help_topic = value.value_or("");
      std::replace(result_.help_topic.begin(), result_.help_topic.end(), '-', '_');
    } else if (name == "version") {
      result_.wants_version = true;
    } else if (const Flag* flag = Find(name)) {
      if (!value) value = flag->is_boolean ? std::optional<std::string>("true") : NextValue();
      if (flag->is_boolean && equals == std::string::npos) last_boolean_ = name;
      if (flag->takes_many) last_list_ = flag;
      Set(*flag, value, argument.place);
    } else if (const Flag* negated = FindNegated(name)) {
      Negate(*negated, written, value, argument.place);
    } else {
      if (!value) NextValue("-");
      const auto known = hints_.find(name);
      const std::string hint = known != hints_.end() ? "dtrain has " + known->second : DidYouMean(name, Names(), "--");
      mistakes_.push_back(argument.place + written + ": no such flag" + (hint.empty() ? "" : "; " + hint));
    }
  }

  // Returns the next argument as a value, or empty if it looks like a flag.
  std::optional<std::string> NextValue(const char* flag_prefix = "--") {
    if (next_ >= arguments_.size() || arguments_[next_].text.starts_with(flag_prefix)) return std::nullopt;
    return arguments_[next_++].text;
  }

  void Negate(const Flag& flag, const std::string& written, const std::optional<std::string>& value,
              const std::string& place) {
    if (!flag.is_boolean) {
      mistakes_.push_back(place + written + ": --" + flag.name + " is not a boolean; expected " + flag.expected);
    } else if (value) {
      mistakes_.push_back(place + written + "=" + *value + ": takes no value; write --" + flag.name + "=" + *value);
    } else {
      last_boolean_ = flag.name;
      Set(flag, "false", place);
    }
  }

  void Set(const Flag& flag, const std::optional<std::string>& value, const std::string& place) {
    if (!value) {
      mistakes_.push_back(place + "--" + flag.name + ": a value is missing; expected " + flag.expected);
      return;
    }
    if (value->size() > kMostValueBytes) {
      mistakes_.push_back(place + "--" + flag.name + ": its value has " + std::to_string(value->size()) +
                          " bytes; expected " + std::to_string(kMostValueBytes) + " at most");
      return;
    }
    if (flag.take(*value)) return;
    mistakes_.push_back(place + "--" + flag.name + "=" + *value + ": expected " + flag.expected);
  }

  const Flag* Find(const std::string& name) const {
    const auto found = std::ranges::find(flags_, name, &Flag::name);
    return found == flags_.end() ? nullptr : &*found;
  }

  // Accepts --noNAME and --no-NAME.
  const Flag* FindNegated(const std::string& name) const {
    return name.starts_with("no") ? Find(name.substr(name.starts_with("no_") ? 3 : 2)) : nullptr;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names = {"help", "version", "flagfile"};
    for (const Flag& flag : flags_) {
      names.push_back(flag.name);
      if (flag.is_boolean) names.push_back("no" + flag.name);
    }
    return names;
  }

  std::vector<Argument> arguments_;
  const std::vector<std::string>& commands_;
  const std::vector<Flag>& flags_;
  std::vector<std::string>& mistakes_;
  const Hints& hints_;
  Parsed result_;
  size_t next_ = 0;
  const Flag* last_list_ = nullptr;  // the flag just taken if it takes many values, else null
  std::string last_boolean_;         // the flag just taken if it is a boolean without "=", else empty
};

}  // namespace

Parsed Parse(std::vector<Argument> arguments, const std::vector<std::string>& commands, const std::vector<Flag>& flags,
             std::vector<std::string>& mistakes, const Hints& hints) {
  return Parser(std::move(arguments), commands, flags, mistakes, hints).Run();
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates, const std::string& prefix) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : "did you mean " + prefix + nearest + "?";
}

std::string TextOf(const std::vector<std::string>& mistakes) {
  constexpr size_t kMost = 50, kEnd = 200, kWhole = 1000;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, mistakes.size()); ++i) {
    const std::string& mistake = mistakes[i];
    text += i > 0 ? "\n" : "";
    text += mistake.size() <= kWhole ? mistake
                                     : mistake.substr(0, kEnd) + " … (" + std::to_string(mistake.size() - 2 * kEnd) +
                                           " bytes) … " + mistake.substr(mistake.size() - kEnd);
  }
  if (mistakes.size() > kMost) text += "\nand " + std::to_string(mistakes.size() - kMost) + " more mistakes";
  return text;
}

std::string BooleanWord(const std::string& value) {
  for (const char* word : {"true", "t", "yes", "y", "1"}) {
    if (value == word) return "true";
  }
  for (const char* word : {"false", "f", "no", "n", "0"}) {
    if (value == word) return "false";
  }
  return "";
}

}  // namespace dtrain::command_line
