#include "trainer/report/metrics_endpoint.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <exception>
#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"
#include "trainer/report/log.h"

namespace dtrain::report {
namespace {

// Returns the shortest text that reads back as the same number.
std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof(digits), value).ptr};
}

std::string QuotedLabel(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? "\\n" : std::string(1, c);
  }
  return quoted + '"';
}

// Returns the name of a task's metric as a part of a Prometheus name, with an underscore for each other character.
std::string NamePart(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

void AddTraining(const TrainPoint& point, double seconds_since, std::vector<MetricValue>& values) {
  values.push_back({"loss", "Mean loss over the global batches since the previous log line.", point.loss});
  values.push_back({"learning_rate", "Learning rate of the last logged step.", point.lr});
  values.push_back(
      {SpeedKey(point.speed_unit), "Speed of all ranks together since the previous log line.", point.speed});
  values.push_back({"step_seconds", "Mean time of a step since the previous log line.", point.step_seconds});
  values.push_back(
      {"gradient_norm", "L2 norm of the gradients of the last logged step, before clipping.", point.grad_norm});
  values.push_back({"loss_scale", "Factor on the loss in mixed precision.", point.loss_scale});
  values.push_back(
      {"last_step_timestamp_seconds", "Time at which the last logged step ended, in seconds since 1970.", point.time});
  values.push_back({"bad_records_total", "Training records of all ranks that could not be read and were replaced.",
                    static_cast<double>(point.bad_records)});
  values.push_back({"checkpoint_age_seconds", "Time since a checkpoint was last written to disk, or since the start.",
                    point.checkpoint_age ? std::optional(*point.checkpoint_age + seconds_since) : std::nullopt});
  values.push_back({"checkpoint_seconds", "Time that writing the last checkpoint took, in parallel to the training.",
                    point.checkpoint_seconds});
}

void AddValidationGauges(const ValPoint& point, std::vector<MetricValue>& values) {
  const std::string set = point.split.empty() ? "" : NamePart(point.split) + "_";
  const std::string of = point.split.empty() ? "" : "on " + point.split + " ";
  for (const Metric& metric : point.metrics) {
    std::string name = "val_" + set + NamePart(metric.name);
    while (std::ranges::count(values, name, &MetricValue::name) > 0) name += "_1";  // of val-2 and val_2
    values.push_back(
        {std::move(name), "Result of the last validation " + of + "of " + metric.name + ".", metric.value});
  }
}

void AddGpus(const std::vector<GpuUse>& gpus, std::vector<MetricValue>& values) {
  const auto add = [&](const char* name, const char* help, const auto& value) {
    for (const GpuUse& gpu : gpus) values.push_back({name, help, value(gpu), {{"gpu", std::to_string(gpu.index)}}});
  };
  add("gpu_utilization_ratio", "Share of the time in which a GPU of rank 0's machine was busy, 0 to 1.",
      [](const GpuUse& gpu) { return gpu.utilization; });
  add("gpu_memory_used_bytes", "Memory in use on a GPU of rank 0's machine.",
      [](const GpuUse& gpu) { return static_cast<double>(gpu.memory_used_bytes); });
  add("gpu_memory_total_bytes", "Memory of a GPU of rank 0's machine.",
      [](const GpuUse& gpu) { return static_cast<double>(gpu.memory_total_bytes); });
}

constexpr unsigned kMostVisitors = 64;  // connections at a time; then the oldest one is closed
constexpr unsigned kPatienceSeconds = 2;
constexpr size_t kMostBytesOfRequest = 8192;

MHD_Result Answer(MHD_Connection* visitor, unsigned status, const std::string& text) {
  MHD_Response* response =
      MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;  // closes the connection
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  const MHD_Result queued = MHD_queue_response(visitor, status, response);
  MHD_destroy_response(response);
  return queued;
}

// The server calls this after a request's headers, and again when the whole request was read.
MHD_Result Serve(void* what, MHD_Connection* visitor, const char* path, const char* method, const char* /*version*/,
                 const char* /*body*/, size_t* /*body_bytes*/, void** seen) {
  static char once;
  if (std::strcmp(method, MHD_HTTP_METHOD_GET) != 0 && std::strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
    return Answer(visitor, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
  }
  if (std::exchange(*seen, &once) == nullptr) return MHD_YES;
  const auto& pages = *static_cast<const MetricsEndpoint::Pages*>(what);
  if (pages.metrics && std::strcmp(path, "/metrics") == 0)
    return Answer(visitor, MHD_HTTP_OK, PrometheusText(pages.metrics->Values()));
  if (pages.health && std::strcmp(path, "/healthz") == 0) {
    const Health health = pages.health();
    return Answer(visitor, health.alive ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, health.text + "\n");
  }
  return Answer(visitor, MHD_HTTP_NOT_FOUND,
                "not found: rank 0's metrics are at /metrics, a machine's health at /healthz\n");
}

// The server calls this when a connection begins and before it closes one.
void ComeOrGo(void* list, MHD_Connection* visitor, void** /*context*/, MHD_ConnectionNotificationCode what) {
  auto& visitors = *static_cast<std::deque<int>*>(list);
  const int socket = MHD_get_connection_info(visitor, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    std::erase(visitors, socket);
    return;
  }
  visitors.push_back(socket);
  if (visitors.size() > kMostVisitors) shutdown(visitors.front(), SHUT_RDWR);  // the server then closes it
}

// Errors of clients are not logged, because they do not concern the training.
void SayNothing(void* /*nobody*/, const char* /*format*/, va_list /*arguments*/) {}

}  // namespace

// Version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
std::string PrometheusText(const std::vector<MetricValue>& values) {
  std::string text, last_name;  // HELP and TYPE are written only when the name changes
  for (const MetricValue& value : values) {
    if (!value.value) continue;
    const std::string full = "dtrain_" + value.name;
    if (std::exchange(last_name, full) != full) {
      text.append("# HELP ").append(full).append(" ").append(value.help).append("\n");
      text.append("# TYPE ").append(full).append(full.ends_with("_total") ? " counter\n" : " gauge\n");
    }
    std::string braces;
    for (const auto& [label, said] : value.labels)
      braces += (braces.empty() ? "{" : ",") + label + "=" + QuotedLabel(said);
    text += full + (braces.empty() ? "" : braces + "}") + " " + Number(*value.value) + "\n";
  }
  return text;
}

RunMetrics::RunMetrics(RunFacts facts, GpuSource gpus) : facts_(std::move(facts)), gpus_(std::move(gpus)) {}

void RunMetrics::Resume(int64_t step, double epochs_done) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  epoch_ = epochs_done;
}

void RunMetrics::Train(const TrainPoint& point) {
  const std::lock_guard lock(mutex_);
  data_wait_seconds_ += point.data_seconds * static_cast<double>(point.step - step_);
  skipped_steps_ += point.skipped_steps;
  step_ = point.step;
  epoch_ = point.epoch;
  train_ = point;
  train_heard_ = Clock::now();
}

void RunMetrics::Validation(const ValPoint& point) {
  const std::lock_guard lock(mutex_);
  if (point.split.empty()) {
    validation_ = point;
    validation_->further.clear();
  } else if (validation_) {
    validation_->further.push_back(point);
  }
}

void RunMetrics::Epoch(const EpochPoint& point) {
  const std::lock_guard lock(mutex_);
  epoch_seconds_ = point.epoch_seconds;
}

void RunMetrics::Finish(const RunResult& result) {
  const std::lock_guard lock(mutex_);
  step_ = result.step;
  epoch_ = result.epoch;
  finished_ = result.step >= facts_.total_steps || !result.stopped_early.empty();
}

std::vector<MetricValue> RunMetrics::Values() const {
  const std::vector<GpuUse> gpus = gpus_();  // without the lock: the driver may be slow, and the loop must not wait
  const std::lock_guard lock(mutex_);
  std::vector<MetricValue> values = {
      {"build_info",
       "Always 1; the labels give the version and the model.",
       1,
       {{"version", DTRAIN_VERSION}, {"model", facts_.model}}},
      {"ranks", "Number of ranks of the run.", facts_.world_size},
      {"planned_steps", "Optimizer steps of the whole run.", static_cast<double>(facts_.total_steps)},
      {"step_total", "Optimizer steps done, as of the last logged one.", static_cast<double>(step_)},
      {"epoch", "Epochs done so far, as a fraction.", epoch_},
      {"finished", "1 when all steps are done.", finished_ ? 1 : 0},
      {"data_wait_seconds_total", "Time that steps have waited for data.", data_wait_seconds_},
      {"skipped_steps_total", "Steps whose gradients were not finite.", static_cast<double>(skipped_steps_)},
      {"epoch_seconds", "Duration of the last whole epoch.", epoch_seconds_}};
  if (train_) AddTraining(*train_, SecondsSince(train_heard_), values);
  if (validation_) {
    AddValidationGauges(*validation_, values);
    for (const ValPoint& further : validation_->further) AddValidationGauges(further, values);
  }
  AddGpus(gpus, values);
  return values;
}

MetricsEndpoint::MetricsEndpoint(const std::string& address, int port, Pages pages) : pages_(std::move(pages)) {
  const auto fail = [&](const std::string& why) {
    throw UsageError(
        "--metrics_port: cannot listen at " + MetricsUrl(address, port) + ": " + why,
        "choose another --metrics_port, which another run may have, or a --metrics_address of this machine");
  };
  std::string why;
  const int descriptor = launch::TryToListen(address, port, &why);
  if (descriptor < 0) fail(why);
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  port_ = launch::PortOf(descriptor);
  server_ = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, nullptr, nullptr,
                             &Serve, &pages_,  // first, because it gets later errors
                             MHD_OPTION_EXTERNAL_LOGGER, &SayNothing, nullptr, MHD_OPTION_LISTEN_SOCKET, descriptor,
                             MHD_OPTION_NOTIFY_CONNECTION, &ComeOrGo, &visitors_, MHD_OPTION_CONNECTION_LIMIT,
                             kMostVisitors + 1, MHD_OPTION_CONNECTION_TIMEOUT, kPatienceSeconds,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMostBytesOfRequest, MHD_OPTION_END);
  if (server_ == nullptr) {
    const int reason = errno;
    close(descriptor);
    fail(std::string("the server did not start: ") + std::strerror(reason));
  }
}

MetricsEndpoint::~MetricsEndpoint() { MHD_stop_daemon(server_); }

std::string MetricsUrl(const std::string& address, int port) {
  const bool brackets = address.find(':') != std::string::npos;
  return "http://" + (brackets ? "[" + address + "]" : address) + ":" + std::to_string(port) + "/metrics";
}

MetricsFile::MetricsFile(std::filesystem::path path, std::shared_ptr<const RunMetrics> metrics, double interval_seconds)
    : path_(std::move(path)), metrics_(std::move(metrics)) {
  Write();
  thread_ = data::Thread([this, interval_seconds](const std::stop_token& stop) { Run(stop, interval_seconds); });
}

MetricsFile::~MetricsFile() {
  thread_.request_stop();
  thread_.join();
  TryToWrite();
}

void MetricsFile::Write() const { checkpoint::WriteAtomically(path_, PrometheusText(metrics_->Values())); }

void MetricsFile::TryToWrite() {
  try {
    Write();
  } catch (const std::exception& error) {  // a failure must not end the run
    if (!std::exchange(warned_, true))
      LogWarning(std::string("--metrics_file cannot be written; the run continues without it: ") + error.what());
  }
}

void MetricsFile::Run(const std::stop_token& stop, double interval_seconds) {
  const std::chrono::duration<double> interval(interval_seconds);
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, interval, [&stop] { return stop.stop_requested(); })) TryToWrite();
}

}  // namespace dtrain::report
