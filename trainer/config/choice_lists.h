// What --list_optimizers and --list_schedules print: the words that a flag takes, each with a sentence.
#pragma once

#include <string>

namespace dtrain::config {

// "cosine       half a cosine down to --end_lr": a line for each choice of the flag, in its order. `flag` is optimizer
// or lr_schedule.
std::string ListOfChoices(const std::string& flag);

// A line of such a list.
std::string ListLine(const std::string& name, const std::string& description);

}  // namespace dtrain::config
