// Tries each flag that takes a number at its least (where that is 0 and means off, also above it) and at its greatest
// value, with the task that it concerns most: text trains a step, images and what is large are only planned. A number
// may be refused or need too much memory, but the program says so: no run ends with 70 (a bug), by a signal or not at
// all. One beyond the limits is refused by name.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/data/safetensors_bytes.h"
#include "tests/data/text/write_tokens.h"
#include "tests/trainer/in_memory.h"
#include "trainer/config/choices.h"
#include "trainer/config/command_line.h"
#include "trainer/config/flags.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/failure.h"
#include "trainer/launch/launch.h"
#include "trainer/modes/run.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/run_settings.h"

namespace dtrain {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // a sanitizer reserves more address space than any limit allows
#else
constexpr bool kIsSanitized = false;
#endif

using Arguments = std::vector<std::string>;
using config::Flag;
using config::Kind;

// A value to try, and whether the flag's limits allow it.
struct Trial {
  std::string value;
  bool allowed = true;
  bool is_large = false;
};

constexpr double kTiny = 1e-300, kHuge = 1e308;

std::string NumberText(const Flag& flag, double number) {
  if (flag.kind != Kind::kInteger) return config::ToText(config::Value(number));
  if (number >= 0x1p63) return "9223372036854775807";
  return std::to_string(static_cast<int64_t>(number));
}

std::vector<Trial> TrialsOf(const Flag& flag) {
  const config::Limits& limits = flag.limits;
  const double step = flag.kind == Kind::kInteger ? 1 : kTiny;
  const bool has_least = std::isfinite(limits.minimum), has_greatest = std::isfinite(limits.maximum);
  const double least = has_least ? limits.minimum : -kHuge, greatest = has_greatest ? limits.maximum : kHuge;
  std::vector<Trial> trials;
  trials.push_back({NumberText(flag, limits.minimum_excluded ? least + step : least)});
  if (least == 0 && !limits.minimum_excluded) trials.push_back({NumberText(flag, step)});
  trials.push_back({NumberText(flag, limits.maximum_excluded ? std::nextafter(greatest, 0) : greatest), true, true});
  if (has_least) trials.push_back({NumberText(flag, limits.minimum_excluded ? least : least - step), false});
  const double above = limits.maximum_excluded       ? greatest
                       : flag.kind == Kind::kInteger ? greatest + 1
                                                     : std::nextafter(greatest, HUGE_VAL);
  trials.push_back({has_greatest                  ? NumberText(flag, above)
                    : flag.kind == Kind::kInteger ? "9223372036854775808"
                                                  : "inf",
                    false});
  if (flag.kind == Kind::kNumbers) {  // as many numbers as the default has
    const auto count = std::get<std::vector<double>>(flag.get(config::Config())).size();
    for (Trial& trial : trials) {
      const std::string one = trial.value;
      for (size_t i = 1; i < count; ++i) trial.value += "," + one;
    }
  }
  return trials;
}

// Flags that take words or numbers, or have a gap between 0 and the least number.
const std::map<std::string, std::vector<Trial>>& OwnTrials() {
  static const std::map<std::string, std::vector<Trial>> trials = {
      {"vocab_size", {{"0"}, {"5"}, {"16777216", true, true}, {"-1", false}, {"4", false}, {"16777217", false}}},
      {"loss_scale", {{"1e-300"}, {"3e38"}, {"0", false}, {"4e38", false}}},
      {"label_offset", {{"0"}, {"1000000000"}, {"-1", false}, {"1000000001", false}}},
      {"image_size_schedule", {{"0:1"}, {"0:8192", true, true}, {"0:0", false}, {"0:8193", false}}},
      {"profile_steps", {{"1:1"}, {"9223372036854775807:9223372036854775807"}, {"0:1", false}}},
      {"nproc_per_node", {{"1"}, {"1024", true, true}, {"0", false}, {"1025", false}}},
      {"nnodes", {{"1"}, {"0", false}}}};
  return trials;
}

// With other values than 1 they ask for ranks that nobody starts.
const std::set<std::string> kOfRanks = {"rank", "world_size", "local_rank", "node_rank", "nnodes", "nproc_per_node"};

// Throws UsageError as dtrain_main does before it does anything.
modes::RunContext Checked(const Arguments& arguments) {
  modes::RunContext context;
  context.config = config::ParseCommandLine(arguments).config;
  context.launch = launch::DetectLaunch(context.config.ranks, {}, {.cores = 1});
  weights::TakeImageSizeOfModel(context.config);
  tasks::ResolveTask(context.config);
  config::RequireValid(context.config, context.launch.world_size, tasks::ModelFactsOf(context.config.model));
  return context;
}

class FlagLimits : public testing::Test {
 protected:
  FlagLimits() {
    const std::vector<uint8_t> pixels(8 * 8 * 8 * 3, 77);
    const std::vector<int64_t> labels = {0, 1, 2, 0, 1, 2, 0, 1};
    folder_.Write("images.safetensors",
                  data::SafetensorsBytes(R"({"images":{"dtype":"U8","shape":[8,8,8,3],"data_offsets":[0,1536]},)"
                                         R"("labels":{"dtype":"I64","shape":[8],"data_offsets":[1536,1600]}})",
                                         data::RawBytes<uint8_t>(pixels) + data::RawBytes<int64_t>(labels)));
    std::filesystem::create_directory(folder_ / "tokens");
    const std::vector<std::vector<uint16_t>> lines(12, {4, 5, 6, 7, 8, 9, 2});
    for (const char* split : {"tokens/train", "tokens/valid"}) data::WriteTokens(folder_, split, lines);
    folder_.Write("tokens/dict.txt", "a 1\nb 1\nc 1\nd 1\ne 1\nf 1\n");
  }

  // The run of a step, or its plan, in which a flag is tried.
  Arguments RunWith(const Flag& flag, const Trial& trial) const {
    const bool has_task = flag.traits.used_by == 0 || config::TaskHas("masked_lm", flag.traits.used_by);
    const bool is_text = has_task && !flag.name.starts_with("bn_") && flag.name != "drop_path";
    Arguments arguments = {"--lr=0.01",
                           "--epochs=1",
                           "--batch_size=4",
                           "--limit_train_steps=1",
                           "--save_every_epochs=0",
                           "--workers=1",
                           "--run_dir=" + folder_.path("run"),
                           "--data_dir=" + folder_.path(is_text ? "tokens" : "images.safetensors")};
    if (is_text) {
      arguments.insert(arguments.end(), {"--model=roberta_tiny", "--tokens_per_sample=8", "--optimizer=adam"});
    } else {
      arguments.insert(arguments.end(), {"--model=resnet18", "--image_size=8"});
    }
    if (!is_text || trial.is_large || kOfRanks.contains(flag.name)) arguments.emplace_back("--dry_run");
    for (const Choice& one : config::Schedules()) {
      if (std::ranges::count(one.flags, flag.name) > 0) arguments.push_back("--lr_schedule=" + one.name);
    }
    arguments.push_back("--" + flag.name + "=" + trial.value);
    return arguments;
  }

  // Tries a value in a child. Returns its exit code, minus a signal's number, or -SIGALRM if it takes too long.
  int Try(const Arguments& arguments) {
    const pid_t child = fork();
    if (child == 0) Child(arguments);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  const TemporaryFolder folder_;

 private:
  [[noreturn]] void Child(const Arguments& arguments) {
    constexpr rlim_t kBytes = rlim_t{6} << 30;
    constexpr unsigned kSeconds = 60;
    const rlimit memory = {kBytes, kBytes};
    if (!kIsSanitized) setrlimit(RLIMIT_AS, &memory);
    alarm(kSeconds);
    int code = 0;
    try {
      Run(arguments);
    } catch (const std::exception& error) {
      code = static_cast<int>(FailureOf(error).code);
    }
    fflush(nullptr);
    _exit(code);
  }

  // What dtrain_main does in a process of one rank.
  static void Run(const Arguments& arguments) {
    modes::RunStatus status;
    modes::RunContext context = Checked(arguments);
    context.status = &status;
    config::Resolve(context.config, context.launch.world_size);
    if (context.config.run.dry_run) return modes::DryRun(context);
    if (context.config.data.workers == 0) context.config.data.workers = 1;
    modes::Train(context);
  }
};

std::vector<Trial> AllTrialsOf(const Flag& flag) {
  if (const auto own = OwnTrials().find(flag.name); own != OwnTrials().end()) return own->second;
  return flag.kind == Kind::kBool || flag.kind == Kind::kText ? std::vector<Trial>() : TrialsOf(flag);
}

TEST_F(FlagLimits, EndWithACodeOfTheirOwn) {
  int runs = 0;
  for (const Flag& flag : config::Flags()) {
    for (const Trial& trial : AllTrialsOf(flag)) {
      if (!trial.allowed || (trial.is_large && kIsSanitized)) continue;
      if (trial.value == config::ToText(flag.get(config::Config()))) continue;  // the other runs have the default
      const int code = Try(RunWith(flag, trial));
      ++runs;
      EXPECT_TRUE(code >= 0 && code != static_cast<int>(ExitCode::kInternal))
          << "--" << flag.name << "=" << trial.value << ": " << code;
      std::filesystem::remove_all(folder_ / "run");
    }
  }
  EXPECT_GE(runs, 200);
}

TEST_F(FlagLimits, AreNamedWhereTheyAreExceeded) {
  int inputs = 0;
  for (const Flag& flag : config::Flags()) {
    for (const Trial& trial : AllTrialsOf(flag)) {
      if (trial.allowed) continue;
      const std::string tried = "--" + flag.name + "=" + trial.value;
      ++inputs;
      try {
        Checked({"--data_format=synthetic", tried});
        ADD_FAILURE() << tried << " was taken";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("--" + flag.name)) << tried;
      }
    }
  }
  EXPECT_GE(inputs, 150);
}

}  // namespace
}  // namespace dtrain
