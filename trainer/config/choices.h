// The values of the flags that choose one of several things, each with a description: one list for each flag. The
// flag's help and check, --list_…, and the table that makes the thing read it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain {

struct Choice {
  std::string name;
  std::string description = {};              // may be empty
  std::vector<std::string_view> flags = {};  // that it reads, of those that not all of its kind read
};

}  // namespace dtrain

namespace dtrain::config {

// The formats and the augmentations that data/ lists, and the values that only the trainer knows.
std::vector<Choice> DataFormats();
std::vector<Choice> Augmentations();
// Returns what is wrong with `text` as one of timm's augmentations; empty: nothing.
std::string WhyNotTimms(const std::string& text);
bool IsTimmAugmentation(const std::string& text);
std::vector<Choice> Erasings();

// What a task reads and learns. The rows of flags (flags.cc) say which of these use the flag.
enum TaskTrait : unsigned {
  kImages = 1,
  kText = 2,
  kMaskedWords = 4,
  kSentences = 8,
  kLabels = 16,
  kClasses = 32,
  kSeveralLabels = 64,
  kClassWeights = 128,
  kNumbers = 256,
  kTaught = 512,
  kVectors = 1024
};

struct TaskFacts {
  std::string name, description;
  unsigned has;  // TaskTraits
};
// trainer/tasks/task_kind.cc makes the tasks.
const std::vector<TaskFacts>& Tasks();
// Whether `task` has one of these TaskTraits. False for auto and unknown names.
bool TaskHas(const std::string& task, unsigned any_of);
std::vector<Choice> TaskChoices();  // and auto

// What the checks, the defaults and the descriptions know of an optimizer.
struct OptimizerFacts {
  std::string name, description = {};
  std::vector<std::string_view> flags = {};  // that it reads, of those that not all optimizers read
  std::optional<double> rate = {};           // --lr where it is not given; empty: it must be given
  double batch_of_rate = 0;                  // the global batch that `rate` is for; 0: any
  std::string_view defaults = {};            // values of flags where they are not given: "--name=value --name=value"

  bool Takes(std::string_view flag) const;
};
// trainer/optim/optimizer.cc makes the optimizers.
const std::vector<OptimizerFacts>& Optimizers();
// Returns the facts of --optimizer; those of an unknown one have no name.
const OptimizerFacts& FactsOf(const OptimizerConfig& optimizer);
std::vector<Choice> OptimizerChoices();
// Returns the names of those that read a flag, of which there may be none: "sgd, lars or lamb".
std::string OptimizersWith(std::string_view flag);

// trainer/optim/lr_schedule.cc computes the schedules.
std::vector<Choice> Schedules();
std::string SchedulesWith(std::string_view flag);
// False for a flag that only other schedules read.
bool ScheduleReads(const std::string& schedule, std::string_view flag);
// trainer/tasks/image_task.cc computes the losses.
struct LossFacts {
  std::string name, description;
  unsigned of;             // tasks that have one of these TaskTraits; the first one of a task is its default
  std::string shown = {};  // in DescribeOptimizer; empty: it goes without saying
};
const std::vector<LossFacts>& Losses();
std::vector<Choice> LossChoices();
// Returns the names of the losses of a task of images.
std::vector<std::string> LossesOf(const std::string& task);

// data/image/native_crop.h has those that are not resized.
std::vector<Choice> Crops();

// trainer/optim/weight_average.cc computes what an average of the weights keeps at first.
std::vector<Choice> AverageStarts();

// Returns the names, of which there is one at least, for a sentence: "sgd, lars or lamb".
std::string Enumerated(std::vector<std::string_view> names, const std::string& conjunction);

// Returns "sgd | adam | adamw".
std::string NamesOf(const std::vector<Choice>& choices);

// Returns "sgd: stochastic …; adam: …", of the choices that have a description.
std::string Described(const std::vector<Choice>& choices);

// Returns a line for each choice: "cosine                half a cosine, down to --end_lr".
std::string Lines(const std::vector<Choice>& choices);

// For the plan of --dry_run, which people compare with a paper. Returns "crop and flip, randaugment (bilinear), mixup
// 0.2". `by_default` is what --augment=auto means for the data.
std::string DescribeAugmentation(const Config& config, const std::string& by_default);

// Returns "sgd, momentum 0.9 (Nesterov), weight decay 0.0001 (none on norms and biases)".
std::string DescribeOptimizer(const Config& config);

}  // namespace dtrain::config
