// Flagfiles are read here rather than by gflags, which ends the process if one is missing and cannot say in which line
// of which file a mistake is.
#include "data/command_line/parser.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "data/joined.h"
#include "data/shallow_json.h"

namespace dtrain::command_line {
namespace {

namespace fs = std::filesystem;

std::string Trimmed(const std::string& text) {
  const char* const blanks = " \t\r";
  const size_t begin = text.find_first_not_of(blanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

constexpr char kStart[] = "start";  // the key of a run's config.json that no flag has (trainer/config/config_json.h)

bool IsFlagValue(const nlohmann::json& value) {
  const auto is_list_of_values = [&value] {
    return value.is_array() && std::all_of(value.begin(), value.end(),
                                           [](const auto& item) { return item.is_string() || item.is_number(); });
  };
  return value.is_null() || value.is_string() || value.is_number() || value.is_boolean() || is_list_of_values();
}

// Returns the value, which must be one, as text for --flag=, or empty for values that are ignored: null, empty strings.
std::optional<std::string> FlagText(const nlohmann::json& value) {
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (!value.is_array()) return std::nullopt;
  return Joined(value, ",", [](const nlohmann::json& item) { return FlagText(item).value_or(""); });
}

class Expander {
 public:
  explicit Expander(std::vector<std::string>& mistakes) : mistakes_(mistakes) {}

  // `folder` is that of the flagfile with these arguments; empty for the command line.
  void Add(const std::vector<Argument>& arguments, const fs::path& folder) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      const size_t dashes = argument.text.find_first_not_of('-');
      const std::string name = dashes == 1 || dashes == 2 ? argument.text.substr(dashes) : "";
      if (name.rfind("flagfile=", 0) == 0) {
        ReadAll(name.substr(9), argument.place, folder);
      } else if (name == "flagfile" && i + 1 < arguments.size()) {
        ReadAll(arguments[++i].text, argument.place, folder);
      } else if (name == "flagfile") {
        mistakes_.push_back(argument.place + "--flagfile: a file name is missing");
      } else {
        expanded_.push_back(argument);
      }
    }
  }

  std::vector<Argument> Result() && { return std::move(expanded_); }

 private:
  // Reads files whose names are separated by commas, as in gflags.
  void ReadAll(const std::string& names, const std::string& place, const fs::path& folder) {
    std::istringstream stream(names);
    if (names.empty()) mistakes_.push_back(place + "--flagfile: a file name is missing");
    for (std::string name; std::getline(stream, name, ',');) {
      const fs::path beside = folder / name;
      std::error_code ignored;
      Read(fs::exists(beside, ignored) ? beside : fs::path(name), place);
    }
  }

  void Read(const fs::path& file, const std::string& place) {
    std::error_code ignored;
    const fs::path identity = fs::weakly_canonical(file, ignored);
    const std::string flag = place + "--flagfile=" + file.string();
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {
      mistakes_.push_back(flag + ": includes itself");
      return;
    }
    if (fs::is_directory(file, ignored)) {
      mistakes_.push_back(flag + ": is a folder, not a file");
      return;
    }
    errno = 0;
    std::ifstream stream(file);
    if (!stream) {
      mistakes_.push_back(flag + ": cannot be read (" + std::strerror(errno) + ")");
      return;
    }
    const std::optional<std::string> content = Content(stream, flag);
    if (!content) return;
    open_.push_back(identity);
    const size_t first = content->find_first_not_of(" \t\r\n");
    const bool is_object = first != std::string::npos && (*content)[first] == '{';
    Add(is_object ? Members(*content, file) : Lines(*content, file), file.parent_path());
    open_.pop_back();
  }

  // Reads no more than the limits leave. Exceeding them is reported once.
  std::optional<std::string> Content(std::istream& stream, const std::string& flag) {
    if (is_too_much_) return std::nullopt;
    std::string content(kMostFlagfileBytes - bytes_ + 1, '\0');
    stream.read(content.data(), static_cast<std::streamsize>(content.size()));
    content.resize(static_cast<size_t>(stream.gcount()));
    bytes_ += content.size();
    is_too_much_ = bytes_ > kMostFlagfileBytes || ++files_ > kMostFlagfiles;
    if (!is_too_much_) return content;
    mistakes_.push_back(flag + ": flagfiles have more than " + std::to_string(kMostFlagfileBytes) + " bytes, or are " +
                        "more than " + std::to_string(kMostFlagfiles));
    return std::nullopt;
  }

  std::vector<Argument> Lines(const std::string& content, const fs::path& file) {
    std::istringstream stream(content);
    std::vector<Argument> arguments;
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      const std::string place = file.string() + ":" + std::to_string(++number) + ": ";
      const std::string text = Trimmed(line);
      if (text.empty() || text[0] == '#') continue;
      if (text[0] != '-') {
        mistakes_.push_back(place + "'" + text + "' is not a flag; a line must be --flag=value, or a comment after #");
        continue;
      }
      const size_t end = text.find_first_of("= \t");
      if (end == std::string::npos || text[end] == '=') {
        arguments.push_back({text, place});
      } else {  // "--flag value"
        arguments.push_back({text.substr(0, end), place});
        arguments.push_back({Trimmed(text.substr(end)), place});
      }
    }
    return arguments;
  }

  // Returns the members of a JSON object as arguments.
  std::vector<Argument> Members(const std::string& content, const fs::path& file) {
    std::vector<Argument> arguments;
    nlohmann::json json;
    try {
      json = ParseShallow(content);
    } catch (const nlohmann::json::exception&) {
      mistakes_.push_back("--flagfile=" + file.string() + ": is not a JSON object of flags");
      return arguments;
    }
    const std::optional<std::set<std::string>> given = GivenOf(json, file);
    json.erase(kStart);
    for (const auto& [name, value] : json.items()) {
      if (given && !given->contains(name)) continue;
      if (!IsFlagValue(value)) {
        mistakes_.push_back("--flagfile=" + file.string() + ": the value of " + name +
                            " is neither a text, a number, true, false nor a list of them");
      } else if (const std::optional<std::string> text = FlagText(value)) {
        arguments.push_back({"--" + name + "=" + *text, file.string() + ": ", Origin::kJson});
      }
    }
    // Members have no order: those of another file are what the ones beside it change.
    std::stable_partition(arguments.begin(), arguments.end(),
                          [](const Argument& one) { return one.text.starts_with("--flagfile="); });
    return arguments;
  }

  // Returns the flags that a run's config.json says were given: the others were derived from them. Empty for a file
  // that was written by hand, all of whose members count.
  std::optional<std::set<std::string>> GivenOf(const nlohmann::json& json, const fs::path& file) {
    const auto start = json.find(kStart);
    if (start == json.end() || (start->is_object() && !start->contains("given"))) return std::nullopt;
    const nlohmann::json given = start->is_object() ? start->at("given") : nlohmann::json();
    std::set<std::string> names;
    for (size_t i = 0; given.is_array() && i < given.size(); ++i) {
      if (given[i].is_string() && json.contains(given[i])) names.insert(given[i].get<std::string>());
    }
    if (!given.is_array() || names.size() != given.size()) {
      mistakes_.push_back("--flagfile=" + file.string() +
                          ": start.given is not a list of flags in it, which says what the run was started with");
    }
    return names;
  }

  std::vector<std::string>& mistakes_;
  std::vector<Argument> expanded_;
  std::vector<fs::path> open_;
  size_t bytes_ = 0;  // of the flagfiles read so far
  int files_ = 0;
  bool is_too_much_ = false;
};

}  // namespace

std::vector<Argument> ExpandFlagfiles(const std::vector<std::string>& arguments, std::vector<std::string>& mistakes) {
  std::vector<Argument> list;
  for (const std::string& argument : arguments) list.push_back({argument, ""});
  Expander expander(mistakes);
  expander.Add(list, "");
  return std::move(expander).Result();
}

}  // namespace dtrain::command_line
