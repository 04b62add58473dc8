// A flag that would have no effect is a mistake of the command: the user would think that it had one. Which tasks use a
// flag is in its row (flags.cc), which families of models with the family.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/flags.h"
#include "trainer/config/problem.h"

namespace dtrain::config {

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

// Adds a problem for every flag that was given and that the task or the model's family does not use, unless its value
// is the default or means the same as leaving it out, or the flag has a problem already. Settings that come from a run
// count as not given. With --task=auto no flag is refused for the task.
void CheckUses(const Config& config, const ModelFacts& models, std::vector<Problem>& problems);

}  // namespace dtrain::config
