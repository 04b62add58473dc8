#include "trainer/config/command_line.h"

#include <algorithm>
#include <optional>

#include "data/command_line/parser.h"
#include "data/whole_number.h"
#include "trainer/config/aliases.h"
#include "trainer/config/problems.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

// Returns the value of an ExtraFlag in the form that CommandLine::extra has; empty if it is malformed.
std::optional<std::string> ExtraValue(Kind kind, const std::string& value) {
  const std::string text = kind == Kind::kBool ? command_line::BooleanWord(value) : value;
  const bool is_malformed = (kind == Kind::kBool && text.empty()) ||
                            (kind == Kind::kInteger && !data::WholeNumber(value)) ||
                            (kind == Kind::kNumber && !NumberFrom(value));
  return is_malformed ? std::nullopt : std::optional(text);
}

// Returns the program's own flags and those of the table. Parsing stores their values in `result`.
std::vector<command_line::Flag> FlagsOf(const Program& program, CommandLine& result) {
  std::vector<command_line::Flag> flags;
  for (const ExtraFlag& extra : program.flags) {
    flags.push_back({extra.name, extra.kind == Kind::kBool, Expected(extra.kind, Limits()),
                     [&extra, &result](const std::string& value) {
                       const auto text = ExtraValue(extra.kind, value);
                       if (text) result.extra[extra.name] = *text;
                       return text.has_value();
                     }});
  }
  for (const Flag& flag : Flags()) {
    flags.push_back({.name = flag.name,
                     .is_boolean = flag.kind == Kind::kBool,
                     .expected = Expected(flag.kind, flag.limits),
                     .take = [&flag, &result](const std::string& value) {
                       result.config.given.push_back(flag.name);
                       return Set(flag, value, result.config);
                     }});
  }
  return flags;
}

// Many programs are called as `dtrain_main train …`. The mistake that this adds says how this program is called.
void TakeModeWord(std::vector<command_line::Argument>& arguments, std::vector<std::string>& mistakes) {
  if (arguments.empty()) return;
  const std::string word = arguments.front().text;
  const auto& modes = FindFlag("mode")->limits.choices;
  if (std::ranges::find(modes, word) == modes.end()) return;
  mistakes.push_back("'" + word + "' is not a flag; write --mode=" + word + (word == "train" ? ", or nothing" : ""));
  arguments.erase(arguments.begin());
}

// Removes the program's own command: the first word of other programs' commands is the folder of the data.
std::optional<command_line::Argument> TakeCommand(std::vector<command_line::Argument>& arguments,
                                                  const std::vector<std::string>& commands) {
  if (arguments.empty()) return std::nullopt;
  const command_line::Argument first = arguments.front();
  if (std::ranges::find(commands, first.text) == commands.end()) return std::nullopt;
  arguments.erase(arguments.begin());
  return first;
}

}  // namespace

CommandLine ParseCommandLine(const std::vector<std::string>& arguments, const Program& program, Config* understood) {
  std::vector<std::string> mistakes;
  CommandLine result;
  for (const ExtraFlag& flag : program.flags) result.extra[flag.name] = flag.default_value;
  std::vector<command_line::Argument> expanded = command_line::ExpandFlagfiles(arguments, mistakes);
  const std::optional<command_line::Argument> command = TakeCommand(expanded, program.commands);
  Rewritten rewritten = RewriteAliases(expanded, mistakes);
  if (command) rewritten.arguments.insert(rewritten.arguments.begin(), *command);
  if (program.commands.empty()) TakeModeWord(rewritten.arguments, mistakes);
  result.notes = std::move(rewritten.notes);
  const command_line::Parsed parsed = command_line::Parse(std::move(rewritten.arguments), program.commands,
                                                          FlagsOf(program, result), mistakes, ForeignFlags());
  result.command = parsed.command;
  if (parsed.wants_version) {
    result.answer = program.name + " " + (program.version.empty() ? DTRAIN_VERSION : program.version);
  }
  if (parsed.wants_help) {
    const std::string& topic = parsed.help_topic;
    result.answer = topic.empty() ? Help(program) : topic == "json" ? HelpJson(program) : HelpOn(topic);
    if (result.answer.empty()) {
      mistakes.push_back("--help=" + topic + ": expected json | " + HelpTopics() + ", or a part of a flag's name");
    }
  }
  if (understood != nullptr) *understood = result.config;
  if (mistakes.empty() || !result.answer.empty()) return result;
  // Without other mistakes these are reported together with the rules between flags.
  for (const Problem& problem : OutOfRange(result.config)) mistakes.push_back(Describe({problem}));
  throw UsageError(command_line::TextOf(mistakes), program.name + " --help lists all flags");
}

CommandLine ParseCommandLine(int argc, const char* const* argv, const Program& program, Config* understood) {
  return ParseCommandLine(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), program, understood);
}

}  // namespace dtrain::config
