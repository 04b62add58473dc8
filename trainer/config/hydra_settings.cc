// fairseq-hydra-train's settings: group.key=value in the command, and files of two levels.
#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include "data/error.h"
#include "data/shown.h"
#include "data/storage.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

// The groups of fairseq-hydra-train's settings.
constexpr std::array kGroups = {"common",    "task",  "checkpoint",   "distributed_training", "criterion", "dataset",
                                "optimizer", "model", "lr_scheduler", "optimization",         "bmuf",      "ema"};

// Returns the flag of fairseq-train that a setting is: of `_name` the group's. None is left of one that is off, or that
// a file leaves to the command line.
std::optional<std::string> FlagOf(const std::string& group, const std::string& key, std::string value) {
  for (const char quote : {'"', '\''}) {
    if (value.size() > 1 && value.front() == quote && value.back() == quote) value = value.substr(1, value.size() - 2);
  }
  if (value.starts_with('[')) value = WithoutBrackets(value);
  if (value == "false" || value == "null" || value == "???" || value.empty()) return std::nullopt;
  const std::string name = group == "model" && key == "_name" ? "arch"
                           : key == "_name"                   ? group
                           : group == "task" && key == "data" ? "data_dir"
                                                              : key;
  return "--" + name + (value == "true" ? "" : "=" + value);
}

// Reads the settings of a file of two levels, as fairseq's examples are.
std::vector<std::string> FlagsOfYaml(const std::string& path, std::vector<std::string>& mistakes) {
  std::vector<std::string> flags;
  std::string group, line;
  std::istringstream file;
  try {
    const std::vector<uint8_t> bytes = data::ReadWholeFile(path, uint64_t{1} << 20);
    file.str(std::string(bytes.begin(), bytes.end()));
  } catch (const Error& error) {
    mistakes.push_back(std::string("--config-name: ") + error.what());
  }
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (const size_t comment = line.find(" #"); comment != std::string::npos) line.erase(comment);
    line.erase(line.find_last_not_of(" \t\r") + 1);
    const size_t begin = line.find_first_not_of(' '), colon = line.find(':');
    if (line.empty() || line[begin] == '#') continue;
    if (colon == std::string::npos || (begin > 0 && group.empty())) {
      mistakes.push_back(Shown(path) + ":" + std::to_string(number) + ": expected 'group:' or '  key: value'");
      return {};
    }
    const std::string key = line.substr(begin, colon - begin);
    const size_t value = line.find_first_not_of(' ', colon + 1);
    if (begin == 0) group = key;
    if (value == std::string::npos || group == "hydra") continue;
    const auto flag = begin == 0 ? FlagOf(key, "_name", line.substr(value)) : FlagOf(group, key, line.substr(value));
    if (flag) flags.push_back(*flag);
  }
  return flags;
}

}  // namespace

std::vector<command_line::Argument> WithoutHydra(const std::vector<command_line::Argument>& arguments,
                                                 std::vector<std::string>& mistakes) {
  std::vector<command_line::Argument> flags, of_file;
  std::string folder, name;
  const auto any = [&](const auto& is_this) { return std::any_of(arguments.begin(), arguments.end(), is_this); };
  const bool has_file = any([](const command_line::Argument& one) { return FlagName(one) == "config_dir"; });
  const bool is_hydras =
      has_file || any([](const command_line::Argument& one) { return one.text.starts_with("task."); });
  if (!is_hydras) return arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& text = arguments[i].text;
    const std::string flag = FlagName(arguments[i]);
    std::string* const part = flag == "config_dir" ? &folder : has_file && flag == "config_name" ? &name : nullptr;
    const size_t dot = text.find('.'), equals = text.find('=');
    if (part != nullptr) {
      *part = FlagValue(arguments, i);
      if (equals == std::string::npos) ++i;
    } else if (flag.empty() && equals != std::string::npos && dot < equals &&
               std::find(kGroups.begin(), kGroups.end(), text.substr(0, dot)) != kGroups.end()) {
      const auto of_setting =
          FlagOf(text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), text.substr(equals + 1));
      if (of_setting) flags.push_back({*of_setting, arguments[i].place});
    } else if (i > 0 || !text.ends_with("fairseq-hydra-train")) {
      flags.push_back(arguments[i]);
    }
  }
  if (name.empty()) return flags;
  for (const std::string& flag : FlagsOfYaml(folder + (folder.empty() ? "" : "/") + name + ".yaml", mistakes)) {
    of_file.push_back({flag, ""});
  }
  flags.insert(flags.begin(), of_file.begin(), of_file.end());
  return flags;
}

}  // namespace dtrain::config
