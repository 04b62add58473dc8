#include "trainer/config/flag_uses.h"

#include <algorithm>

#include "trainer/config/choices.h"

namespace dtrain::config {
namespace {

using Names = std::vector<std::string_view>;

// A task of Tasks() is named in the rows of the flags that it uses.
const Names kImages = {"image_classification"};
const Names kMaskedLm = {"masked_lm"};
const Names kSentences = {"text_classification", "text_regression"};
const Names kClasses = {"image_classification", "text_classification"};
const Names kLabelled = {"image_classification", "text_classification", "text_regression"};
const Names kText = {"masked_lm", "text_classification", "text_regression"};

const std::vector<FlagUse>& Uses() {
  static const std::vector<FlagUse> uses = {
      // Whole sections.
      {.name = "image", .tasks = kImages},
      {.name = "text", .tasks = kText},
      // Single flags, in the order of the help.
      {.name = "predictions", .tasks = kLabelled},
      {.name = "label_offset", .tasks = kImages},
      {.name = "sampling", .tasks = kClasses},
      {.name = "eval_resize", .tasks = kImages, .also_off = {"256"}},  // config.json has it, derived from --image_size
      {.name = "sample_break", .tasks = kMaskedLm},
      {.name = "mask_prob", .tasks = kMaskedLm},
      {.name = "mask_whole_words", .tasks = kMaskedLm},
      {.name = "mask_special_tokens", .tasks = kMaskedLm},
      {.name = "text_column", .tasks = kSentences},
      {.name = "text_pair_column", .tasks = kSentences},
      {.name = "label_column", .tasks = kSentences},
      {.name = "num_classes", .tasks = kImages},
      {.name = "channels_last", .tasks = kImages, .also_off = {"false"}},
      {.name = "dropout", .also_off = {"0"}},
      {.name = "attention_dropout", .also_off = {"0"}},
      {.name = "drop_path", .also_off = {"0"}},
      {.name = "label_smoothing", .tasks = kClasses},
      {.name = "loss", .tasks = kImages},
      {.name = "class_weights", .tasks = kClasses},
      {.name = "memory_efficient_fp16", .tasks = kText},
      {.name = "sync_bn", .tasks = kImages},
  };
  return uses;
}

const FlagUse* Row(std::string_view name) {
  const auto found = std::find_if(Uses().begin(), Uses().end(), [&](const FlagUse& use) { return use.name == name; });
  return found == Uses().end() ? nullptr : &*found;
}

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
std::string WhoDoesNotUse(const Flag& flag, const FlagUse* use, const Config& config, const ModelFacts& models) {
  const std::string& task = config.run.task;
  if (use != nullptr && !use->tasks.empty() && task != "auto" && !Has(use->tasks, task)) {
    return "--task=" + task + " (it is for " + Listed(use->tasks) + ")";
  }
  const Names families = FamiliesWith(flag.name, models);
  if (models.family.empty() || families.empty() || Has(families, models.family)) return "";
  return "--model=" + config.model.name + " (it is for " + Listed(families) + ")";
}

bool HasProblem(const std::vector<Problem>& problems, const std::string& flag) {
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) { return problem.flag == flag; });
}

}  // namespace

std::vector<Choice> Tasks() {
  return {{"auto", "what the model and the data mean"},
          {"image_classification", "one of several classes for each image"},
          {"masked_lm", "the masked words of texts"},
          {"text_classification", "one of several classes for each sentence or pair of sentences"},
          {"text_regression", "a number for each sentence or pair of sentences"}};
}

const FlagUse* UseOf(const Flag& flag) {
  const FlagUse* own = Row(flag.name);
  return own != nullptr ? own : Row(flag.section);
}

void CheckUses(const Config& config, const ModelFacts& models, std::vector<Problem>& problems) {
  const Config defaults;
  for (const Flag& flag : Flags()) {
    if (!WasGiven(config, flag.name) || HasProblem(problems, flag.name)) continue;
    const FlagUse* use = UseOf(flag);
    const Value value = flag.get(config);
    if (value == flag.get(defaults) || (use != nullptr && Has(use->also_off, ToText(value)))) continue;
    const std::string unused = WhoDoesNotUse(flag, use, config, models);
    if (!unused.empty()) problems.push_back({.flag = flag.name, .hint = "leave it out", .unused = unused});
  }
}

}  // namespace dtrain::config
