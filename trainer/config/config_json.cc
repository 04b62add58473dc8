// Walks over the table of flags, so that the JSON has every flag that exists.
#include "trainer/config/config_json.h"

#include <unistd.h>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "trainer/config/flags.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

struct JsonOf {
  nlohmann::ordered_json operator()(std::monostate) const { return nullptr; }
  template <typename T>
  nlohmann::ordered_json operator()(const T& value) const {
    return value;
  }
};

// Returns the text that one would write after --flag=; empty for null and for values that no flag can have.
std::optional<std::string> TextOf(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return ToText(value.get<double>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (!value.is_array()) return std::nullopt;
  std::string text;
  for (const nlohmann::json& item : value) {
    if (!item.is_number()) return std::nullopt;
    text += (text.empty() ? "" : ",") + ToText(item.get<double>());
  }
  return text;
}

bool IsSecret(const std::string& name) {
  const Flag* flag = FindFlag(name);
  return flag != nullptr && flag->traits.secret;
}

// Replaces the value of "--run-token=x" and "--run_token x" by "…".
std::vector<std::string> WithoutSecret(const std::vector<std::string>& command) {
  std::vector<std::string> shown;
  bool follows = false;
  for (const std::string& word : command) {
    std::string name = word.substr(0, word.find('='));
    name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
    std::ranges::replace(name, '-', '_');
    const bool is_secret = word.starts_with('-') && IsSecret(name);
    if (follows) {
      shown.emplace_back("…");
    } else if (is_secret && word.find('=') != std::string::npos) {
      shown.push_back(word.substr(0, word.find('=') + 1) + "…");
    } else {
      shown.push_back(word);
    }
    follows = is_secret && word.find('=') == std::string::npos;
  }
  return shown;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

nlohmann::ordered_json ToJson(const Value& value) { return std::visit(JsonOf(), value); }

nlohmann::ordered_json ToJson(const Config& config) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Flag& flag : Flags()) {
    json[flag.name] = flag.traits.secret ? "" : ToJson(flag.get(config));
  }
  return json;
}

std::vector<std::string> TakeFrom(const nlohmann::json& saved, const std::vector<std::string>& names, Config& config,
                                  const std::string& origin) {
  std::vector<std::string> different;
  for (const std::string& name : names) {
    const Flag& flag = *FindFlag(name);
    const auto found = saved.find(name);
    if (found == saved.end() || found->is_null()) continue;
    const std::optional<std::string> text = TextOf(*found);
    Config taken = config;
    const bool is_valid = text && Set(flag, *text, taken);
    if (!is_valid && WasGiven(config, name)) continue;
    if (!is_valid) {
      throw UsageError(
          origin + " has " + name + " = " + found->dump() + "; expected " + Expected(flag.kind, flag.limits),
          "give --" + name);
    }
    if (!WasGiven(config, name)) {
      config = std::move(taken);
    } else if (flag.get(taken) != flag.get(config)) {
      different.push_back("--" + name + "=" + ToText(flag.get(config)) + " instead of " + *text);
    }
  }
  return different;
}

nlohmann::json TrainingPart(const Config& config) {
  nlohmann::json part = ToJson(config);
  for (const Flag& flag : Flags()) {
    if (!flag.traits.of_training) part.erase(flag.name);
  }
  return part;
}

std::string Changes(const nlohmann::json& before, const nlohmann::json& now) {
  const auto shown = [](const nlohmann::json& value) {
    const std::string text = TextOf(value).value_or("");
    return text.empty() ? "none" : text;
  };
  std::string changes;
  for (const Flag& flag : Flags()) {
    if (!before.contains(flag.name) || !now.contains(flag.name)) continue;
    const nlohmann::json &old_value = before[flag.name], &new_value = now[flag.name];
    if (old_value == new_value) continue;
    changes += (changes.empty() ? "" : ", ") + flag.name + " " + shown(old_value) + " → " + shown(new_value);
  }
  return changes;
}

nlohmann::ordered_json StartRecord(const Start& start, const Config& config) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::error_code ignored;
  std::set<std::string> given(config.given.begin(), config.given.end());
  std::erase_if(given, IsSecret);
  std::set<std::string> idle;
  std::ranges::copy_if(given, std::inserter(idle, idle.end()),
                       [](const std::string& name) { return FindFlag(name)->traits.changes_no_result; });
  return {{"version", start.version},
          {"commit", start.commit},
          {"host", host},
          {"directory", std::filesystem::current_path(ignored).string()},
          {"command", WithoutSecret(start.command)},
          {"time", Now()},
          {"given", given},
          {"changes_no_result", idle}};
}

}  // namespace dtrain::config
