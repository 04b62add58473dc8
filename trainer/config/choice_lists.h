// The output of --list_optimizers and --list_schedules: the values that a flag takes, each with a description.
#pragma once

#include <string>

namespace dtrain::config {

// Returns a line for each choice of the flag, in the order of its help: "cosine       half a cosine, down to --end_lr".
// `flag` is optimizer or lr_schedule.
std::string ListOfChoices(const std::string& flag);

// Returns one line of such a list, with the newline.
std::string ListLine(const std::string& name, const std::string& description);

}  // namespace dtrain::config
