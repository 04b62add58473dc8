// Finds every mistake in a configuration before anything is opened or allocated. The functions are pure, so that a dry
// run on a laptop finds what a cluster would find. The table in flags.cc tells ranges, choices, uses and companions
// (flag_values.cc); the rules that relate one flag to another are in problems.cc.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/flags.h"

namespace dtrain::config {

// One mistake, as a value: all of them can be shown at once, whereas an exception would show only the first.
struct Problem {
  std::string flag;           // without the dashes
  std::string value = {};     // as the user would write it; empty: the flag was not given
  std::string expected = {};  // what would be accepted, for example a range
  std::string hint = {};      // what to do about it; may be empty
  std::string unused = {};    // what does not use the flag at all; if it is not empty, `expected` is not shown
};

// Returns a line for each problem: `--flag=value: expected …; hint` or `--flag=value: not used by …; hint`.
std::string Describe(const std::vector<Problem>& problems);

// The options of a family of models: flags that have no effect on a model of a family that does not list them.
struct FamilyOptions {
  std::string family;  // for people
  std::vector<std::string> options;
};

// What the checks of flags have to know of the models, since this folder knows none.
struct ModelFacts {
  std::vector<std::string> names = {};         // of all models that exist; empty: --model is not checked
  std::vector<FamilyOptions> families = {};    // all of them
  std::vector<std::string> of_any_shape = {};  // names of those whose shape --model_config tells
  std::string family = {};                     // that of --model; empty: unknown, so that no option is refused
};

// Returns all problems in the order of the help; empty if the configuration is valid. `world_size` is the number of
// ranks that the launcher announced.
std::vector<Problem> Problems(const Config& config, int world_size, const ModelFacts& models);

// Returns those of single flags: values outside of their ranges, words that are no choice.
std::vector<Problem> OutOfRange(const Config& config);

// Returns the flags in use that have an effect on randomly cropped images only: "--blur, --random_erasing".
std::string FlagsThatNeedCrops(const Config& config);

// A flag that would have no effect is a mistake of the command: the user would think that it had one. Which tasks use a
// flag is in its row (flags.cc), which families of models with the family, which schedules in choices.cc. Adds a
// problem for every flag that was given and that the task, the schedule or the model's family does not use, unless its
// value is the default or means the same as leaving it out, or the flag has a problem already. Settings that come from
// a run count as not given. With --task=auto, or an unknown one, no flag is refused for the task.
void CheckUses(const Config& config, const ModelFacts& models, std::vector<Problem>& problems);

// Adds a problem for every flag that was given without its companion (FlagTraits), unless its value is the default or
// means the same.
void CheckCompanions(const Config& config, std::vector<Problem>& problems);

// Returns the flag's value as one would write it; nothing if the flag was not given and has no default.
std::string ShownValue(const Flag& flag, const Config& config);

// Throws one UsageError that describes all problems if there are any.
void RequireValid(const Config& config, int world_size, const ModelFacts& models);

}  // namespace dtrain::config
