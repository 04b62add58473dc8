// Values are set in gflags one by one and copied to Config at once, so an optional field is set exactly when its flag
// was given, and FlagSaver can put gflags back as it was.
#include "trainer/config/command_line.h"

#include <gflags/gflags.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "trainer/config/arguments.h"
#include "trainer/config/help.h"
#include "trainer/config/nearest_name.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using Mistakes = std::vector<std::string>;

// A flag of the table or of the program; one of the two pointers is set.
struct Known {
  const Flag* flag = nullptr;
  const ExtraFlag* extra = nullptr;
  Kind kind() const { return flag ? flag->kind : extra->kind; }
  std::string name() const { return flag ? flag->name : extra->name; }
  std::string expected() const { return Expected(kind(), flag ? flag->limits : Limits()); }
};

// The value of a program's own flag as it is handed on, or nothing where it is malformed.
std::optional<std::string> ExtraValue(Kind kind, const std::string& value) {
  const char* const end = value.data() + value.size();
  if (kind == Kind::kBool) {
    for (const char* word : {"true", "t", "yes", "y", "1"}) {
      if (value == word) return "true";
    }
    for (const char* word : {"false", "f", "no", "n", "0"}) {
      if (value == word) return "false";
    }
    return std::nullopt;
  }
  if (kind == Kind::kInteger) {
    int64_t number = 0;
    const auto result = std::from_chars(value.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  } else if (kind == Kind::kNumber) {
    char* stop = nullptr;
    std::strtod(value.c_str(), &stop);
    if (value.empty() || *stop != '\0') return std::nullopt;
  }
  return value;
}

// The second and third stage: names, then values.
class Parser {
 public:
  Parser(const Program& program, std::vector<Argument> arguments, Mistakes& mistakes)
      : program_(program), arguments_(std::move(arguments)), mistakes_(mistakes) {
    for (const ExtraFlag& flag : program.flags) result_.extra[flag.name] = flag.default_value;
  }

  CommandLine Run() && {
    const gflags::FlagSaver saver;
    if (!program_.commands.empty()) TakeCommand();
    while (next_ < arguments_.size()) {
      const Argument argument = arguments_[next_++];
      const size_t dashes = argument.text.find_first_not_of('-');
      if (dashes == 1 || dashes == 2) {
        TakeFlag(argument, dashes);
      } else {
        Stray(argument);
      }
    }
    return std::move(result_);
  }

 private:
  void TakeCommand() {
    std::string words;
    for (const std::string& word : program_.commands) words += (words.empty() ? "" : " | ") + word;
    if (arguments_.empty() || arguments_[0].text.rfind('-', 0) == 0) {
      mistakes_.push_back("the first word must say what to do: " + words);
      return;
    }
    const std::string word = arguments_[next_++].text;
    for (const std::string& command : program_.commands) {
      if (word == command) result_.command = word;
    }
    const std::string hint = DidYouMean(word, program_.commands);
    if (result_.command.empty()) {
      mistakes_.push_back("'" + word + "' is no command; " + (hint.empty() ? "expected " + words : hint));
    }
  }

  void Stray(const Argument& argument) {
    const std::string hint = last_boolean_.empty()
                                 ? "flags begin with --"
                                 : "--" + last_boolean_ + " takes its value after an equals sign only";
    mistakes_.push_back(argument.place + "'" + argument.text + "' is no flag; " + hint);
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
      result_.answer = Help(program_);
    } else if (name == "version") {
      if (result_.answer.empty()) result_.answer = program_.name + " " DTRAIN_VERSION "\n";
    } else if (const auto known = Find(name)) {
      if (!value) value = known->kind() == Kind::kBool ? std::optional<std::string>("true") : NextValue();
      if (known->kind() == Kind::kBool && equals == std::string::npos) last_boolean_ = name;
      Set(*known, value, argument.place);
    } else if (const auto negated = FindNegated(name)) {
      Negate(*negated, written, value, argument.place);
    } else {
      if (!value) NextValue('-');
      const std::string hint = DidYouMean(name, Names(), "--");
      mistakes_.push_back(argument.place + written + ": no such flag" + (hint.empty() ? "" : "; " + hint));
    }
  }

  // The next argument as a value, unless it looks like a flag.
  std::optional<std::string> NextValue(const std::string& flag_prefix = "--") {
    if (next_ >= arguments_.size() || arguments_[next_].text.rfind(flag_prefix, 0) == 0) return std::nullopt;
    return arguments_[next_++].text;
  }
  std::optional<std::string> NextValue(char flag_prefix) { return NextValue(std::string(1, flag_prefix)); }

  void Negate(const Known& known, const std::string& written, const std::optional<std::string>& value,
              const std::string& place) {
    if (known.kind() != Kind::kBool) {
      mistakes_.push_back(place + written + ": --" + known.name() + " is no boolean; expected " + known.expected());
    } else if (value) {
      mistakes_.push_back(place + written + "=" + *value + ": takes no value; write --" + known.name() + "=" + *value);
    } else {
      last_boolean_ = known.name();
      Set(known, "false", place);
    }
  }

  void Set(const Known& known, const std::optional<std::string>& value, const std::string& place) {
    if (!value) {
      mistakes_.push_back(place + "--" + known.name() + ": a value is missing; expected " + known.expected());
      return;
    }
    bool good = false;
    if (known.extra != nullptr) {
      const auto text = ExtraValue(known.kind(), *value);
      good = text.has_value();
      if (good) result_.extra[known.name()] = *text;
    } else {
      good = !gflags::SetCommandLineOption(known.name().c_str(), value->c_str()).empty() &&
             known.flag->store(result_.config);
    }
    if (!good) mistakes_.push_back(place + "--" + known.name() + "=" + *value + ": expected " + known.expected());
  }

  std::optional<Known> Find(const std::string& name) const {
    for (const ExtraFlag& extra : program_.flags) {
      if (extra.name == name) return Known{.extra = &extra};
    }
    if (const Flag* flag = FindFlag(name)) return Known{.flag = flag};
    return std::nullopt;
  }

  // --noNAME, and --no-NAME as well.
  std::optional<Known> FindNegated(const std::string& name) const {
    if (name.rfind("no", 0) != 0) return std::nullopt;
    return Find(name.substr(name.rfind("no_", 0) == 0 ? 3 : 2));
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names = {"help", "version", "flagfile"};
    const auto add = [&](const std::string& name, Kind kind) {
      names.push_back(name);
      if (kind == Kind::kBool) names.push_back("no" + name);
    };
    for (const ExtraFlag& flag : program_.flags) add(flag.name, flag.kind);
    for (const Flag& flag : Flags()) add(flag.name, flag.kind);
    return names;
  }

  const Program& program_;
  std::vector<Argument> arguments_;
  Mistakes& mistakes_;
  CommandLine result_;
  size_t next_ = 0;
  std::string last_boolean_;  // the flag just taken, where it was a boolean without "="
};

}  // namespace

CommandLine ParseCommandLine(const std::vector<std::string>& arguments, const Program& program) {
  Mistakes mistakes;
  std::vector<Argument> expanded = ExpandFlagfiles(arguments, mistakes);
  CommandLine result = Parser(program, std::move(expanded), mistakes).Run();
  if (mistakes.empty() || !result.answer.empty()) return result;
  std::string text;
  for (const std::string& mistake : mistakes) text += (text.empty() ? "" : "\n") + mistake;
  throw UsageError(text, program.name + " --help lists all flags");
}

CommandLine ParseCommandLine(int argc, const char* const* argv, const Program& program) {
  return ParseCommandLine(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), program);
}

}  // namespace dtrain::config
