// All events of a start of the program, including its configuration, have its first step or a later one. So after a
// resume exactly the events with a step after the restored one are void. They are removed from the files, and a running
// TensorBoard forgets them because of the step at which the new file starts. A file of which nothing is left but its
// version is kept, because a TensorBoard that is reading it would not go on to the next file if it disappeared.
// The field numbers are those of tensorboard/compat/proto/{event,summary,tensor}.proto,
// tensorboard/plugins/hparams/{plugin_data,api}.proto and google/protobuf/struct.proto.
#include "trainer/report/tensorboard_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "data/formats/protobuf.h"
#include "data/formats/tfrecord.h"
#include "data/shallow_json.h"
#include "trainer/report/log.h"

namespace dtrain::report {
namespace fs = std::filesystem;
namespace {

using data::ProtobufWriter;

constexpr uint64_t kString = 7;     // DataType DT_STRING
constexpr uint64_t kStart = 1;      // SessionLog.SessionStatus START
constexpr uint64_t kSucceeded = 1;  // hparams' Status STATUS_SUCCESS
constexpr uint64_t kRgb = 3;        // colorspace
constexpr char kStepKey = 2 << 3;

// Event { double wall_time = 1; int64 step = 2; … }. StepOf relies on this order.
ProtobufWriter EventAt(const EventTime& time) {
  ProtobufWriter event;
  event.Double(1, time.seconds).Varint(2, static_cast<uint64_t>(time.step));
  return event;
}

// Event { Summary summary = 5; }  Summary { repeated Value value = 1; }
std::string SummaryEvent(const EventTime& time, const std::vector<ProtobufWriter>& values) {
  ProtobufWriter summary;
  for (const ProtobufWriter& value : values) summary.Message(1, value);
  return data::FrameTfRecord(EventAt(time).Message(5, summary).bytes());
}

ProtobufWriter Tagged(const std::string& tag) { return ProtobufWriter().Bytes(1, tag); }

// SummaryMetadata { PluginData plugin_data = 1; }  PluginData { string plugin_name = 1; bytes content = 2; }
ProtobufWriter PluginMetadata(const std::string& plugin, const std::string& content) {
  return ProtobufWriter().Message(1, ProtobufWriter().Bytes(1, plugin).Bytes(2, content));
}

// google.protobuf.Value
ProtobufWriter ValueOf(const nlohmann::json& value) {
  ProtobufWriter written;
  if (value.is_boolean()) return written.Varint(4, value.get<bool>() ? 1 : 0);
  if (value.is_number()) return written.Double(2, value.get<double>());
  return written.Bytes(3, value.is_string() ? value.get<std::string>() : JsonText(value));
}

// HParamsPluginData { int32 version = 1; oneof { … SessionStartInfo = 3; SessionEndInfo = 4; } }, version 0.
std::string HparamsEvent(const EventTime& time, const std::string& tag, int field, const ProtobufWriter& info) {
  const std::string content = ProtobufWriter().Message(field, info).bytes();
  return SummaryEvent(time, {Tagged(tag).Message(9, PluginMetadata("hparams", content))});
}

int64_t StepOf(std::string_view event) {
  constexpr size_t kWallTimeBytes = 9;
  if (event.size() <= kWallTimeBytes || event[kWallTimeBytes] != kStepKey) return 0;
  uint64_t step = 0;
  unsigned shift = 0;
  for (size_t at = kWallTimeBytes + 1; at < event.size() && shift < 64; ++at, shift += 7) {
    step |= uint64_t{static_cast<uint8_t>(event[at]) & 0x7FU} << shift;
    if ((event[at] & 0x80) == 0) break;
  }
  return static_cast<int64_t>(step);
}

constexpr uint64_t kMostEventBytes = uint64_t{4} << 30;
constexpr char kFilePrefix[] = "events.out.tfevents.";

// Returns `text` as a block of code in markdown, indented by four spaces.
std::string AsBlock(const std::string& text) {
  std::string block = "    ";
  for (const char one : text) block += one == '\n' ? std::string("\n    ") : std::string(1, one);
  return block;
}

// Tells TensorBoard to forget the events of this step and later ones that it has read before.
std::string SessionStartEvent(const EventTime& time) {
  return data::FrameTfRecord(EventAt(time).Message(7, ProtobufWriter().Varint(1, kStart)).bytes());
}

std::string ImageEvent(const EventTime& time, const std::string& tag, const Picture& picture) {
  ProtobufWriter image;
  image.Varint(1, static_cast<uint64_t>(picture.height)).Varint(2, static_cast<uint64_t>(picture.width));
  image.Varint(3, kRgb).Bytes(4, picture.png);
  return SummaryEvent(time, {Tagged(tag).Message(4, image)});
}

// A text that TensorBoard renders as markdown.
// TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2; repeated bytes string_val = 8; }, of shape {1}.
std::string TextEvent(const EventTime& time, const std::string& tag, const std::string& markdown) {
  const ProtobufWriter shape = ProtobufWriter().Message(2, ProtobufWriter().Varint(1, 1));
  ProtobufWriter tensor;
  tensor.Varint(1, kString).Message(2, shape).Bytes(8, markdown);
  return SummaryEvent(time, {Tagged(tag).Message(8, tensor).Message(9, PluginMetadata("text", ""))});
}

// Makes the run a session on the page of hyperparameters; lists are shown as text, and null values are left out.
// SessionStartInfo { map<string, google.protobuf.Value> hparams = 1; … double start_time_secs = 5; }
std::string SessionEvent(const EventTime& time, const nlohmann::json& hyperparameters) {
  ProtobufWriter info;
  for (const auto& [name, value] : hyperparameters.items()) {
    if (!value.is_null()) info.Message(1, ProtobufWriter().Bytes(1, name).Message(2, ValueOf(value)));
  }
  return HparamsEvent(time, "_hparams_/session_start_info", 3, info.Double(5, time.seconds));
}

// Marks that session as successfully finished.
std::string SessionEndEvent(const EventTime& time) {
  return HparamsEvent(time, "_hparams_/session_end_info", 4,
                      ProtobufWriter().Varint(1, kSucceeded).Double(2, time.seconds));
}

}  // namespace

std::string FileVersionEvent(double seconds) {
  return data::FrameTfRecord(EventAt({.seconds = seconds, .step = 0}).Bytes(3, "brain.Event:2").bytes());
}

std::string ScalarsEvent(const EventTime& time, const std::vector<std::pair<std::string, double>>& values) {
  std::vector<ProtobufWriter> written;
  for (const auto& [tag, value] : values) written.push_back(Tagged(tag).Float(2, static_cast<float>(value)));
  return SummaryEvent(time, written);
}

std::string EventsUntil(std::string_view file, int64_t step) {
  std::string kept;
  while (const auto event = data::UnframeTfRecord(file)) {
    const size_t framed = event->size() + data::kTfRecordFrameBytes;
    if (StepOf(*event) <= step) kept += file.substr(0, framed);
    file.remove_prefix(framed);
  }
  return kept;
}

TensorboardLog::TensorboardLog(fs::path folder, Facts facts) : folder_(std::move(folder)), facts_(std::move(facts)) {}

std::vector<fs::path> TensorboardLog::Files() const {
  std::vector<fs::path> files;
  for (const std::string& name : checkpoint::NamesIn(folder_)) {
    if (name.starts_with(kFilePrefix) && fs::is_regular_file(folder_ / name)) files.push_back(folder_ / name);
  }
  std::ranges::sort(files);
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
  file_.emplace(folder_ / (kFilePrefix + Format("%010lld.", second) + HostName() + "." + std::to_string(::getpid())));
  const EventTime time{.seconds = SecondsSince1970(), .step = first_step_};
  file_->Append(FileVersionEvent(time.seconds) + SessionStartEvent(time) + SessionEvent(time, facts_.hyperparameters) +
                TextEvent(time, "config", AsBlock(JsonText(facts_.config, 2))));
}

void TensorboardLog::Write(const std::string& events) {
  if (!file_) Begin();
  file_->Append(events);
}

void TensorboardLog::FirstBatch(const Picture& picture) {
  Write(ImageEvent({.seconds = SecondsSince1970(), .step = first_step_}, "train/first_batch", picture));
}

void TensorboardLog::Train(const TrainPoint& point) {
  std::vector<std::pair<std::string, double>> scalars = {
      {"train/loss", point.loss},
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
  std::vector<std::pair<std::string, double>> scalars;
  for (const Metric& metric : point.metrics) scalars.emplace_back(prefix + metric.name, metric.value);
  Write(ScalarsEvent({.seconds = SecondsSince1970(), .step = point.step}, scalars));
}

// Writes nothing if this start has written no file: a finished run that was started again has its end event already.
void TensorboardLog::Finish(const RunResult& result) {
  if (file_) Write(SessionEndEvent({.seconds = SecondsSince1970(), .step = result.step}));
}

}  // namespace dtrain::report
