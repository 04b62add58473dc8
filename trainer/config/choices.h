// The values of the flags that choose one of several things, each with a description: one list for each flag. The
// flag's help and check, --list_…, and the table that makes the thing read it.
#pragma once

#include <string>
#include <vector>

#include "data/choice.h"

namespace dtrain::config {

// The formats and the augmentations that data/ lists, and the values that only the trainer knows.
std::vector<Choice> DataFormats();
std::vector<Choice> Augmentations();

// flag_uses.cc lists the tasks, with the flags that each uses; trainer/tasks/task_kind.cc makes them.
std::vector<Choice> Tasks();
// trainer/optim/make_optimizer.cc makes the optimizers.
std::vector<Choice> Optimizers();
// trainer/optim/lr_schedule.cc computes the schedules.
std::vector<Choice> Schedules();
// trainer/tasks/image_task.cc computes the losses.
std::vector<Choice> Losses();

// trainer/optim/weight_average.cc computes what an average of the weights keeps at first.
std::vector<Choice> AverageStarts();

// Returns "sgd | adam | adamw".
std::string NamesOf(const std::vector<Choice>& choices);

// Returns "sgd: stochastic …; adam: …", of the choices that have a description.
std::string Described(const std::vector<Choice>& choices);

// Returns a line for each choice: "cosine                half a cosine, down to --end_lr".
std::string Lines(const std::vector<Choice>& choices);

}  // namespace dtrain::config
