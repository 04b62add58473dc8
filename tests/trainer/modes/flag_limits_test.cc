// Walks over all flags that take a number: a run of one step of each task with the flag at its least (where that is 0
// and means off, also above it) and at its greatest value. A number may be refused or need too much memory, but the
// program says so: no run ends with 70 (a bug), by a signal or not at all. One beyond the limits is refused by name.
// Each run is a child of this process, which has loaded LibTorch once.
//
// By default each flag is tried with the tasks that it concerns most, and large sizes are only planned (--dry_run).
// DTRAIN_LONG_TESTS=1 trains with all tasks and sizes, except where a flag asks for other ranks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "tests/data/safetensors_bytes.h"
#include "tests/data/text/write_tokens.h"
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

// Runs save their results with fsync, for which a disk would take longer than all of the rest.
[[maybe_unused]] const bool is_in_memory =
    access("/dev/shm", W_OK) == 0 && setenv("TMPDIR", "/dev/shm", /*overwrite=*/0) == 0;

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

// What makes a flag count.
const std::map<std::string, std::string>& Companions() {
  static const std::map<std::string, std::string> companions = {
      {"drop_path", "--model=efficientnet_b0"},
      {"lars_trust", "--optimizer=lars"},
      {"rmsprop_alpha", "--optimizer=rmsprop_tf"},
      {"rmsprop_eps", "--optimizer=rmsprop_tf"},
      {"momentum", "--optimizer=sgd"},
      {"end_lr", "--lr_schedule=cosine"},
      {"lr_decay_factor", "--lr_schedule=exponential"},
      {"lr_decay_epochs", "--lr_schedule=step"},
      {"ema_every", "--ema_decay=0.9"},
      {"loss_scale_window", "--precision=fp16"},
      {"loss_scale", "--precision=fp16"},
      {"warmup_start_lr", "--warmup_steps=1"},
      {"image_size_schedule", "--augment=basic"},
      {"stop_after_epochs_without_gain", "--eval_every_epochs=1"}};
  return companions;
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

struct Task {
  std::string name;
  Arguments flags;
};

class FlagLimits : public testing::Test {
 protected:
  FlagLimits() {
    const std::vector<uint8_t> pixels(8 * 8 * 8 * 3, 77);
    const std::vector<int64_t> labels = {0, 1, 2, 0, 1, 2, 0, 1}, ids = {4, 5, 6, 7, 8, 9, 2, 4};
    folder_.Write("images.safetensors",
                  data::SafetensorsBytes(R"({"images":{"dtype":"U8","shape":[8,8,8,3],"data_offsets":[0,1536]},)"
                                         R"("labels":{"dtype":"I64","shape":[8],"data_offsets":[1536,1600]}})",
                                         data::RawBytes<uint8_t>(pixels) + data::RawBytes<int64_t>(labels)));
    folder_.Write("rows.safetensors",
                  data::SafetensorsBytes(R"({"input_ids":{"dtype":"I64","shape":[8,1],"data_offsets":[0,64]}})",
                                         data::RawBytes<int64_t>(ids)));
    std::filesystem::create_directory(folder_ / "tokens");
    const std::vector<std::vector<uint16_t>> lines(12, {4, 5, 6, 7, 8, 9, 2});
    for (const char* split : {"tokens/train", "tokens/valid"}) data::WriteTokens(folder_, split, lines);
    folder_.Write("tokens/dict.txt", "a 1\nb 1\nc 1\nd 1\ne 1\nf 1\n");
    const std::string text = "--model=roberta_tiny";
    tasks_ = {
        {"images", {"--data_dir=" + folder_.path("images.safetensors"), "--model=resnet18", "--image_size=8"}},
        {"tokens", {"--data_dir=" + folder_.path("tokens"), text, "--tokens_per_sample=8", "--optimizer=adam"}},
        {"rows", {"--data_dir=" + folder_.path("rows.safetensors"), text, "--vocab_size=10", "--tokens_per_sample=2"}}};
  }

  // Tries a value in a child. Returns its exit code, minus a signal's number, or -SIGALRM if it takes too long.
  int Try(const Arguments& arguments) {
    const pid_t child = fork();
    if (child == 0) Child(arguments);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string Said() const { return ReadAll(folder_ / "said"); }

  const TemporaryFolder folder_;
  std::vector<Task> tasks_;

 private:
  [[noreturn]] void Child(const Arguments& arguments) {
    const int said = open(folder_.path("said").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    constexpr rlim_t kBytes = rlim_t{6} << 30;
    constexpr unsigned kSeconds = 60;
    const rlimit memory = {kBytes, kBytes};
    if (!kIsSanitized) setrlimit(RLIMIT_AS, &memory);
    alarm(kSeconds);
    int code = 0;
    try {
      Run(arguments);
    } catch (const std::exception& error) {
      const report::Failure failure = FailureOf(error);
      code = static_cast<int>(failure.code);
      dprintf(STDERR_FILENO, "%s; %s\n", failure.message.c_str(), failure.hint.c_str());
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

bool IsLong() {
  const char* const value = std::getenv("DTRAIN_LONG_TESTS");
  return value != nullptr && std::string(value) == "1";
}

bool IsForText(const Flag& flag) {
  const bool has_task = flag.traits.used_by == 0 || config::TaskHas("masked_lm", flag.traits.used_by);
  return has_task && !flag.name.starts_with("bn_") && flag.name != "drop_path";
}

bool Concerns(const Flag& flag, const std::string& task) {
  const std::string& section = flag.section;
  if (IsLong() || flag.name == "batch_size") return true;
  if (!IsForText(flag)) return task == "images";
  return task == "tokens" || (task == "rows" && (section == "text" || section == "batch"));
}

bool OnlyPlans(const Flag& flag, const Trial& trial, const std::string& task) {
  if (kOfRanks.contains(flag.name)) return true;
  return !IsLong() && (trial.is_large || (task == "images" && flag.name != "image_size" && flag.name != "batch_size"));
}

std::vector<Trial> AllTrialsOf(const Flag& flag) {
  if (const auto own = OwnTrials().find(flag.name); own != OwnTrials().end()) return own->second;
  return flag.kind == Kind::kBool || flag.kind == Kind::kText ? std::vector<Trial>() : TrialsOf(flag);
}

TEST_F(FlagLimits, EndWithACodeOfTheirOwn) {
  std::map<int, int> codes;
  int runs = 0;
  for (const Task& task : tasks_) {
    for (const Flag& flag : config::Flags()) {
      if (!Concerns(flag, task.name)) continue;
      for (const Trial& trial : AllTrialsOf(flag)) {
        if (!trial.allowed || (trial.is_large && kIsSanitized)) continue;
        const std::string tried = "--" + flag.name + "=" + trial.value, run_dir = folder_.path("run");
        Arguments arguments = task.flags;
        for (const std::string common : {"--lr=0.01", "--epochs=1", "--batch_size=4", "--limit_train_steps=1",
                                         "--save_every_epochs=0", "--workers=1"}) {
          arguments.push_back(common);
        }
        arguments.push_back("--run_dir=" + run_dir);
        if (Companions().contains(flag.name)) arguments.push_back(Companions().at(flag.name));
        const bool plans = OnlyPlans(flag, trial, task.name);
        if (plans) arguments.emplace_back("--dry_run");
        arguments.push_back(tried);
        const int code = Try(arguments);
        ++runs;
        ++codes[code];
        EXPECT_TRUE(code >= 0 && code != static_cast<int>(ExitCode::kInternal))
            << task.name << " " << tried << ": " << code << "\n"
            << Said();
        if (plans && code == static_cast<int>(ExitCode::kOutOfMemory)) {  // by its estimate, not by trying
          EXPECT_THAT(Said(), testing::HasSubstr("GiB of memory")) << task.name << " " << tried;
        }
        std::filesystem::remove_all(run_dir);
      }
    }
  }
  std::string shares;
  for (const auto& [code, count] : codes) shares += ", " + std::to_string(count) + " with " + std::to_string(code);
  std::printf("%d runs ended%s\n", runs, shares.c_str());
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
  std::printf("%d inputs beyond the limits\n", inputs);
  EXPECT_GE(inputs, 150);
}

}  // namespace
}  // namespace dtrain
