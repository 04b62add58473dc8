// All events of a start of the program, including its configuration, have its first step or a later one. So after a
// resume exactly the events with a step after the restored one are void. They are removed from the files, and a running
// TensorBoard forgets them because of the step at which the new file starts. A file of which nothing is left but its
// version is kept, because a TensorBoard that is reading it would not go on to the next file if it disappeared.
#include "trainer/report/tensorboard_log.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/tensorboard_events.h"

namespace dtrain::report {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMostEventBytes = uint64_t{4} << 30;
constexpr char kFilePrefix[] = "events.out.tfevents.";

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns `text` as a block of code in markdown, indented by four spaces.
std::string AsBlock(const std::string& text) {
  std::string block = "    ";
  for (const char one : text) block += one == '\n' ? std::string("\n    ") : std::string(1, one);
  return block;
}

std::string HostName() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

TensorboardLog::TensorboardLog(fs::path folder, Facts facts) : folder_(std::move(folder)), facts_(std::move(facts)) {}

std::vector<fs::path> TensorboardLog::Files() const {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator entry(folder_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kFilePrefix) && entry->is_regular_file(error)) {
      files.push_back(entry->path());
    }
  }
  if (error) checkpoint::ThrowSystemError("list", folder_, error.value());
  std::sort(files.begin(), files.end());
  return files;
}

void TensorboardLog::CutBack(int64_t step) {
  for (const fs::path& path : Files()) {
    const std::string content = checkpoint::ReadTextFile(path, kMostEventBytes);
    const std::string kept = EventsUntil(content, step);
    if (kept != content) checkpoint::WriteAtomically(path, kept);
  }
}

void TensorboardLog::Resume(int64_t step, double /*epochs_done*/) {
  first_step_ = step + 1;
  CutBack(step);
}

// TensorBoard expects the second in the file's name; it is raised so that the name sorts after those of earlier files.
void TensorboardLog::Begin() {
  auto second = static_cast<long long>(SecondsSince1970());
  const std::vector<fs::path> earlier = Files();
  if (!earlier.empty()) {
    const std::string last = earlier.back().filename().string().substr(sizeof(kFilePrefix) - 1);
    second = std::max(second, 1 + std::atoll(last.c_str()));
  }
  char number[32];
  std::snprintf(number, sizeof(number), "%010lld", second);
  file_.emplace(folder_ / (kFilePrefix + std::string(number) + "." + HostName() + "." + std::to_string(::getpid())));
  const EventTime time{.seconds = SecondsSince1970(), .step = first_step_};
  file_->Append(FileVersionEvent(time.seconds) + SessionStartEvent(time) + SessionEvent(time, facts_.hyperparameters) +
                TextEvent(time, "config", AsBlock(facts_.config.dump(2))));
}

void TensorboardLog::Write(const std::string& events) {
  if (!file_) Begin();
  file_->Append(events);
}

void TensorboardLog::FirstBatch(const Picture& picture) {
  Write(ImageEvent({.seconds = SecondsSince1970(), .step = first_step_}, "train/first_batch", picture));
}

void TensorboardLog::Train(const TrainPoint& point) {
  Scalars scalars = {{"train/loss", point.loss},
                     {"train/lr", point.lr},
                     {std::string("train/") + SpeedKey(point.speed_unit), point.speed},
                     {"train/epoch", point.epoch},
                     {"train/data_seconds", point.data_seconds},
                     {"train/step_seconds", point.step_seconds}};
  for (const Metric& metric : point.metrics) scalars.emplace_back("train/" + metric.name, metric.value);
  if (point.grad_norm) scalars.emplace_back("train/grad_norm", *point.grad_norm);
  if (point.loss_scale) scalars.emplace_back("train/loss_scale", *point.loss_scale);
  Write(ScalarsEvent({.seconds = point.time, .step = point.step}, scalars));
}

void TensorboardLog::Validation(const ValPoint& point) {
  const std::string prefix = point.split.empty() ? "val/" : "val_" + point.split + "/";
  Scalars scalars;
  for (const Metric& metric : point.metrics) scalars.emplace_back(prefix + metric.name, metric.value);
  Write(ScalarsEvent({.seconds = SecondsSince1970(), .step = point.step}, scalars));
}

// Writes nothing if this start has written no file: a finished run that was started again has its end event already.
void TensorboardLog::Finish(const RunResult& result) {
  if (file_) Write(SessionEndEvent({.seconds = SecondsSince1970(), .step = result.step}));
}

}  // namespace dtrain::report
