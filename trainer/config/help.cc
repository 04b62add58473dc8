// Formats the help itself: gflags groups by source file, mixes in the flags of every linked library, and exits with 1.
#include "trainer/config/command_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "data/joined.h"
#include "trainer/config/choices.h"
#include "trainer/config/config_json.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kTextColumn = 28;
constexpr char kWrittenWord[] = "; written";

// Formats an entry: `left` in the left column, `text` wrapped beside it (below it if `left` is too long), then
// `details`, which are broken only if they do not fit on a line.
std::string Entry(const std::string& left, const std::string& text, const std::string& details = "") {
  const bool long_details = details.size() > kColumns - kTextColumn;
  std::vector<std::string> words;
  std::istringstream stream(long_details ? text + " " + details : text);
  for (std::string word; stream >> word;) words.push_back(word);
  if (!details.empty() && !long_details) words.push_back(details);

  std::string lines;
  std::string line = "  " + left;
  if (line.size() + 2 > kTextColumn) {
    lines = line + "\n";
    line.clear();
  }
  line.resize(kTextColumn, ' ');
  bool empty = true;
  for (const std::string& word : words) {
    if (!empty && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line.assign(kTextColumn, ' ');
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
  }
  return lines + line + "\n";
}

// By Kind: its name in JSON, and what stands behind a flag.
constexpr std::array<std::pair<const char*, const char*>, 5> kKinds = {
    {{"boolean", ""}, {"integer", "=INT"}, {"number", "=NUMBER"}, {"text", "=TEXT"}, {"numbers", "=NUMBER,..."}}};

const char* NameOf(Kind kind) { return kKinds[static_cast<size_t>(kind)].first; }

std::string Left(const std::string& name, Kind kind) {
  return (kind == Kind::kBool ? "--[no]" : "--") + name + kKinds[static_cast<size_t>(kind)].second;
}

std::string Details(const Flag& flag) {
  const Value value = flag.get(Config());
  const auto* text = std::get_if<std::string>(&value);
  std::string details = "[";
  if (std::holds_alternative<std::monostate>(value)) {
    details += "default: not given";
  } else {
    details += "default: " + (text && text->empty() ? "empty" : ToText(value));
  }
  const std::string range = flag.limits.Text();
  if (!flag.unit.empty()) details += "; " + flag.unit;
  if (!range.empty()) details += (flag.unit.empty() ? "; " : ", ") + range;
  if (flag.traits.path == data::PathUse::kWritten) details += kWrittenWord;
  return details + "]";
}

// Returns the names that other programs have for each flag of ours.
std::map<std::string_view, std::set<std::string_view>> NamesElsewhere() {
  std::vector<const std::vector<Alias>*> tables = {&SharedAliases()};
  for (const ForeignProgram* program : ForeignPrograms()) tables.push_back(&program->rows);
  std::map<std::string_view, std::set<std::string_view>> names;
  for (const auto* table : tables) {
    for (const Alias& alias : *table) {
      if (alias.name != alias.flag) names[alias.flag].insert(alias.name);
    }
  }
  return names;
}

nlohmann::ordered_json AsJson(const Flag& flag) {
  nlohmann::ordered_json json = {{"name", flag.name},
                                 {"section", flag.section},
                                 {"type", NameOf(flag.kind)},
                                 {"default", ToJson(flag.get(Config()))},
                                 {"help", flag.help}};
  if (!flag.unit.empty()) json["unit"] = flag.unit;
  const Limits& limits = flag.limits;
  if (std::isfinite(limits.minimum)) json["minimum"] = limits.minimum;
  if (std::isfinite(limits.maximum)) json["maximum"] = limits.maximum;
  if (limits.minimum_excluded) json["minimum_excluded"] = true;
  if (limits.maximum_excluded) json["maximum_excluded"] = true;
  if (!limits.choices.empty()) json["choices"] = limits.choices;
  if (flag.traits.used_by != 0) {
    for (const TaskFacts& task : Tasks()) {
      if ((task.has & flag.traits.used_by) != 0) json["tasks"].push_back(task.name);
    }
  }
  return json;
}

std::string EntryOf(const Flag& flag) { return Entry(Left(flag.name, flag.kind), flag.help, Details(flag)); }

}  // namespace

std::string HelpOn(const std::string& topic) {
  const auto section = std::ranges::find(Sections(), topic, &Section::name);
  const bool is_section = section != Sections().end();
  std::string text = is_section ? std::string(section->title) + "\n" : "";
  for (const Flag& flag : Flags()) {
    const bool shown = is_section ? flag.section == topic : flag.name.find(topic) != std::string::npos;
    if (shown) text += EntryOf(flag);
  }
  return text;
}

std::string HelpJson(const Program& program) {
  nlohmann::ordered_json json = {
      {"program", program.name}, {"version", program.version}, {"commands", program.commands}, {"flags", nullptr}};
  const auto elsewhere = NamesElsewhere();
  for (const ExtraFlag& flag : program.flags) {
    const bool is_text = flag.kind == Kind::kText;
    json["flags"].push_back({{"name", flag.name},
                             {"section", "program"},
                             {"type", NameOf(flag.kind)},
                             {"default", is_text ? nlohmann::ordered_json(flag.default_value)
                                                 : nlohmann::ordered_json::parse(flag.default_value)},
                             {"help", flag.help}});
  }
  for (const Flag& flag : Flags()) {
    json["flags"].push_back(AsJson(flag));
    const auto names = elsewhere.find(flag.name);
    if (names != elsewhere.end()) json["flags"].back()["aliases"] = names->second;
  }
  return json.dump();
}

std::string HelpTopics() { return Joined(Sections(), " | ", &Section::name); }

std::string Help(const Program& program) {
  const std::string command = program.commands.empty() ? "" : " " + Joined(program.commands, "|");
  std::string text = "Usage: " + program.name + command + " [--flag=value ...]\n";
  if (!program.purpose.empty()) text += program.purpose + "\n";
  text +=
      "\nWrite --flag=value or --flag value; for booleans, --flag or --noflag. In names, - and _ are the\n"
      "same. If a flag is given twice, the last one counts.\n\n";
  text +=
      Entry("--flagfile=FILE",
            "Read flags from FILE, one per line; lines that begin with # are comments. Such a file may name others.");
  text += Entry(
      "--help, -h",
      "Show this text. --help=optimizer shows one group, --help=lr every flag whose name contains \"lr\", --help=json "
      "all flags for programs.");
  text += Entry("--version", "Show the version and the commit that it was built from.");
  if (!program.flags.empty()) text += "\n" + program.name + "\n";
  for (const ExtraFlag& flag : program.flags) {
    const std::string value = flag.default_value.empty() ? "empty" : flag.default_value;
    text += Entry(Left(flag.name, flag.kind), flag.help,
                  "[default: " + value + (flag.path == data::PathUse::kWritten ? kWrittenWord : "") + "]");
  }
  for (const Section& section : Sections()) {
    text += "\n" + std::string(section.title) + "\n";
    for (const Flag& flag : Flags()) {
      if (flag.section == section.name) text += EntryOf(flag);
    }
  }
  return text;
}

}  // namespace dtrain::config
