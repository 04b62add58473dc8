#include "trainer/config/flag_uses.h"

#include <algorithm>

#include "trainer/config/choices.h"

namespace dtrain::config {
namespace {

using Names = std::vector<std::string_view>;

bool Has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the families that list the flag; empty if it is no option of a family.
Names FamiliesWith(const std::string& flag, const ModelFacts& models) {
  Names families;
  for (const auto& [family, options] : models.families) {
    if (std::find(options.begin(), options.end(), flag) != options.end()) families.push_back(family);
  }
  return families;
}

// Returns the names for a sentence: "masked_lm and text_classification".
std::string Listed(const Names& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + std::string(names[i]);
  }
  return text;
}

// Returns what does not use the flag, and what would, for Problem::unused; an empty string if it is used.
std::string WhoDoesNotUse(const Flag& flag, const Config& config, const ModelFacts& models) {
  const std::string& task = config.run.task;
  const unsigned used_by = flag.traits.used_by;
  if (used_by != 0 && task != "auto" && !TaskHas(task, used_by)) {
    Names tasks;
    for (const TaskFacts& one : Tasks()) {
      if ((one.has & used_by) != 0) tasks.push_back(one.name);
    }
    return "--task=" + task + " (it is for " + Listed(tasks) + ")";
  }
  const Names families = FamiliesWith(flag.name, models);
  if (models.family.empty() || families.empty() || Has(families, models.family)) return "";
  return "--model=" + config.model.name + " (it is for " + Listed(families) + ")";
}

bool HasProblem(const std::vector<Problem>& problems, const std::string& flag) {
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) { return problem.flag == flag; });
}

}  // namespace

void CheckUses(const Config& config, const ModelFacts& models, std::vector<Problem>& problems) {
  const Config defaults;
  for (const Flag& flag : Flags()) {
    if (!WasGiven(config, flag.name) || HasProblem(problems, flag.name)) continue;
    const Value value = flag.get(config);
    if (value == flag.get(defaults) || Has(flag.traits.also_off, ToText(value))) continue;
    const std::string unused = WhoDoesNotUse(flag, config, models);
    if (!unused.empty()) problems.push_back({.flag = flag.name, .hint = "leave it out", .unused = unused});
  }
}

}  // namespace dtrain::config
