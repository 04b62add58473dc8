// The text of the metrics, and clients of all kinds. tests/integration/test_metrics.py asks a training, and reads the
// text with Prometheus' own parser.
#include "trainer/report/metrics_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "trainer/errors.h"
#include "trainer/report/gpu_use.h"

namespace dtrain::report {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<GpuUse> NoGpus() { return {}; }

// The metrics of a run that has not begun.
std::shared_ptr<RunMetrics> IdleMetrics() { return std::make_shared<RunMetrics>(RunFacts{.model = "m"}, &NoGpus); }

// A connection to the endpoint, which the destructor closes.
class Visitor {
 public:
  explicit Visitor(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Visitor() { close(socket_); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  int descriptor() const { return socket_; }

  void Say(const std::string& text) const { send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Returns everything that arrives until the other side closes.
  std::string Answer() const {
    std::string text;
    char bytes[4096];
    ssize_t count = 0;
    while ((count = recv(socket_, bytes, sizeof(bytes), 0)) > 0) text.append(bytes, static_cast<size_t>(count));
    return text;
  }

 private:
  int socket_;
};

std::string Get(int port, const std::string& what = "/metrics") {
  const Visitor visitor(port);
  visitor.Say("GET " + what + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return visitor.Answer();
}

TEST(MetricsEndpoint, ServesWhatIsKnownNow) {
  const auto metrics = IdleMetrics();
  const MetricsEndpoint endpoint("127.0.0.1", 0, {metrics, nullptr});
  EXPECT_THAT(Get(endpoint.port()), StartsWith("HTTP/1.1 200 OK"));
  metrics->Train({.step = 12});
  EXPECT_THAT(Get(endpoint.port()), HasSubstr("\ndtrain_step_total 12\n"));
  EXPECT_THAT(Get(endpoint.port()), HasSubstr("Content-Type: text/plain"));
  EXPECT_THAT(Get(endpoint.port(), "/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get(endpoint.port(), "/../../etc/passwd"), Not(HasSubstr("root:")));
}

TEST(MetricsEndpoint, SaysWhetherTheRanksGoOn) {
  std::atomic<bool> alive = true;
  const auto health = [&alive] { return Health{alive, "after step 6"}; };
  const MetricsEndpoint endpoint("127.0.0.1", 0, {nullptr, health});
  EXPECT_THAT(Get(endpoint.port(), "/healthz"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\nafter step 6\n")));
  alive = false;
  EXPECT_THAT(Get(endpoint.port(), "/healthz"), AllOf(StartsWith("HTTP/1.1 503"), EndsWith("\r\n\r\nafter step 6\n")));
  EXPECT_THAT(Get(endpoint.port()), StartsWith("HTTP/1.1 404"));  // only rank 0 has the metrics
}

// Kubernetes asks again and again, and so may anybody else.
TEST(MetricsEndpoint, TenThousandConnections) {
  const MetricsEndpoint endpoint("127.0.0.1", 0, {nullptr, [] { return Health{true, "it lives"}; }});
  const int before = Visitor(endpoint.port()).descriptor();
  for (int i = 0; i < 200; ++i) {
    for (int j = 0; j < 49; ++j) {
      const Visitor visitor(endpoint.port());
      if (j % 2 == 0) visitor.Say("GET /healthz HTTP/1.1\r\n");  // and leaves
    }
    ASSERT_THAT(Get(endpoint.port(), "/healthz"), EndsWith("it lives\n"));
  }
  EXPECT_LE(Visitor(endpoint.port()).descriptor(), before + 70);  // those that left are closed
}

TEST(MetricsEndpoint, RudeVisitorsKeepNobodyOut) {
  const MetricsEndpoint endpoint("127.0.0.1", 0, {IdleMetrics(), nullptr});
  const int port = endpoint.port();
  std::vector<std::unique_ptr<Visitor>> rude;
  for (int i = 0; i < 3; ++i) {
    rude.push_back(std::make_unique<Visitor>(port));  // says nothing
    rude.push_back(std::make_unique<Visitor>(port));
    rude.back()->Say("GET /metrics HTTP/1.1\r\nHost: ");  // and never ends
    rude.push_back(std::make_unique<Visitor>(port));
    rude.back()->Say(std::string(200'000, '\xff'));
    rude.push_back(std::make_unique<Visitor>(port));
    rude.back()->Say("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n");
    rude.push_back(std::make_unique<Visitor>(port));
    for (int line = 0; line < 20'000; ++line) rude.back()->Say("X-Header-" + std::to_string(line) + ": x\r\n");
    Get(port, "/" + std::string(100'000, 'a'));
  }
  EXPECT_THAT(Get(port), HasSubstr("\ndtrain_step_total 0\n"));
}

// There are more connections than the endpoint serves at a time, and each sends a byte before its silence is too long.
TEST(MetricsEndpoint, ACrowdThatSpeaksSlowlyKeepsNobodyOut) {
  const MetricsEndpoint endpoint("127.0.0.1", 0, {IdleMetrics(), nullptr});
  std::vector<std::unique_ptr<Visitor>> slow;
  for (int i = 0; i < 70; ++i) slow.push_back(std::make_unique<Visitor>(endpoint.port()));
  std::atomic<bool> served = false, gave_up = false;
  std::thread speaker([&] {
    for (int i = 0; i < 100 && !served; ++i) {  // ten seconds
      for (const auto& visitor : slow) visitor->Say("G");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    gave_up = !served;
  });
  EXPECT_THAT(Get(endpoint.port()), HasSubstr("\ndtrain_step_total 0\n"));
  EXPECT_FALSE(gave_up);
  served = true;
  speaker.join();
}

TEST(MetricsEndpoint, IPv6TakesBothKindsOfVisitors) {
  std::optional<MetricsEndpoint> endpoint;
  try {
    endpoint.emplace("::", 0, MetricsEndpoint::Pages{IdleMetrics(), nullptr});
  } catch (const UsageError&) {
    GTEST_SKIP() << "needs IPv6: run it where the kernel has it (/proc/net/if_inet6)";
  }
  EXPECT_THAT(Get(endpoint->port()), HasSubstr("\ndtrain_step_total 0\n"));
}

TEST(MetricsEndpoint, SaysWhyItCannotListen) {
  std::optional<MetricsEndpoint> first;
  first.emplace("127.0.0.1", 0, MetricsEndpoint::Pages());
  const int port = first->port();
  EXPECT_ERROR(
      "--metrics_port: cannot listen at http://127.0.0.1:" + std::to_string(port) + "/metrics: Address already in use",
      MetricsEndpoint("127.0.0.1", port, {}));
  EXPECT_THROW(MetricsEndpoint("192.0.2.1", 0, {}), UsageError);
  EXPECT_ERROR("Cannot assign requested address", MetricsEndpoint("192.0.2.1", 9, {}));
  EXPECT_ERROR("http://[2001:db8::1]:9/metrics: ", MetricsEndpoint("2001:db8::1", 9, {}));
  first.reset();
  EXPECT_NO_THROW(MetricsEndpoint("127.0.0.1", port, {}));  // the next run can use the port at once
}

TEST(MetricsFile, IsThereAtOnceAndWithTheLastNumbersAtTheEnd) {
  const TemporaryFolder folder;
  const auto metrics = IdleMetrics();
  {
    const MetricsFile file(folder / "dtrain.prom", metrics, /*interval_seconds=*/3600);
    EXPECT_THAT(ReadAll(folder / "dtrain.prom"), HasSubstr("\ndtrain_step_total 0\n"));
    metrics->Train({.step = 5});
  }
  EXPECT_EQ(ReadAll(folder / "dtrain.prom").substr(0, 100), PrometheusText(metrics->Values()).substr(0, 100));
  EXPECT_THAT(ReadAll(folder / "dtrain.prom"), HasSubstr("\ndtrain_step_total 5\n"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // nothing half-written
  EXPECT_THROW(MetricsFile("/no/such/folder/dtrain.prom", metrics), StorageError);
}

TEST(MetricsFile, IsRenewedMeanwhile) {
  const TemporaryFolder folder;
  const auto metrics = IdleMetrics();
  const MetricsFile file(folder / "dtrain.prom", metrics, /*interval_seconds=*/0.01);
  metrics->Train({.step = 5});
  while (ReadAll(folder / "dtrain.prom").find("\ndtrain_step_total 5\n") == std::string::npos)
    std::this_thread::yield();
}

const RunFacts kFacts{.model = "resnet18", .world_size = 4, .total_steps = 100};

TEST(RunMetrics, BeforeTheFirstStepWhatIsKnown) {
  RunMetrics metrics(kFacts, &NoGpus);
  metrics.Resume(7, 0.5);
  const std::string text = PrometheusText(metrics.Values());
  EXPECT_THAT(text, HasSubstr("# HELP dtrain_step_total Optimizer steps done, as of the last logged one.\n"
                              "# TYPE dtrain_step_total counter\ndtrain_step_total 7\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE dtrain_ranks gauge\ndtrain_ranks 4\n"));
  EXPECT_THAT(text, HasSubstr("\ndtrain_planned_steps 100\n"));
  EXPECT_THAT(text, HasSubstr("\ndtrain_epoch 0.5\n"));
  EXPECT_THAT(text, HasSubstr(",model=\"resnet18\"} 1\n"));
  for (const char* none : {"dtrain_loss", "dtrain_val_", "dtrain_gpu_", "dtrain_checkpoint_", "images_per_second"}) {
    EXPECT_THAT(text, Not(HasSubstr(none)));
  }
}

TEST(RunMetrics, WhatWasLoggedLast) {
  RunMetrics metrics(kFacts, &NoGpus);
  metrics.Resume(10, 0.1);
  TrainPoint point{.step = 20,
                   .epoch = 0.2,
                   .loss = 2.5,
                   .lr = 0.1,
                   .speed = 1000,
                   .data_seconds = 0.25,
                   .step_seconds = 0.5,
                   .bad_records = 3,
                   .time = 1700000000.25};
  point.skipped_steps = 1;
  metrics.Train(point);
  point.step = 24;
  point.loss = 2;
  point.grad_norm = 1.5;
  point.loss_scale = 1024;
  point.skipped_steps = 2;
  point.checkpoint_seconds = 0.125;
  point.checkpoint_age = 100;
  metrics.Train(point);
  metrics.Validation({.metrics = {{"top1", 75.5}, {"a-b", 1}}});
  for (const char* set : {"v-2", "v_2"}) metrics.Validation({.metrics = {{"top1", 4}}, .split = set});
  metrics.Epoch({.epoch = 1, .epoch_seconds = 60});
  metrics.Finish({.step = 25, .epoch = 0.25});  // of 100: --limit_train_steps
  const std::string text = PrometheusText(metrics.Values());
  for (const char* line :
       {"step_total 25", "epoch 0.25", "finished 0", "loss 2", "learning_rate 0.1", "images_per_second 1000",
        "step_seconds 0.5", "gradient_norm 1.5", "loss_scale 1024", "last_step_timestamp_seconds 1700000000.25",
        "bad_records_total 3", "checkpoint_seconds 0.125", "val_top1 75.5", "val_a_b 1", "val_v_2_top1 4",
        "val_v_2_top1_1 4", "epoch_seconds 60", "data_wait_seconds_total 3.5", "skipped_steps_total 3"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\ndtrain_") + line + "\n"));
  }
  const std::string age = "\ndtrain_checkpoint_age_seconds ";
  ASSERT_THAT(text, HasSubstr(age));
  EXPECT_GE(std::stod(text.substr(text.find(age) + age.size())), 100);  // it grows between points
}

TEST(RunMetrics, NumbersThatAreNoneTokensAndNamesThatWouldEndALabel) {
  RunMetrics metrics({.model = "q\"b\\\nc"}, &NoGpus);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  metrics.Train({.step = 1, .loss = std::nan(""), .lr = -kInfinity, .speed = 1e300, .speed_unit = SpeedUnit::kTokens});
  EXPECT_THAT(PrometheusText(metrics.Values()),
              AllOf(HasSubstr("\ndtrain_loss NaN\n"), HasSubstr("\ndtrain_learning_rate -Inf\n"),
                    HasSubstr("\ndtrain_tokens_per_second 1e+300\n"), Not(HasSubstr("images")),
                    HasSubstr(",model=\"q\\\"b\\\\\\nc\"} 1\n")));
}

TEST(GpuUse, WithoutADriverThereAreNone) {
  EXPECT_TRUE(GpuUseReader("/no/such/library.so").Read().empty());
  EXPECT_TRUE(GpuUseReader("libm.so.6").Read().empty());  // a library without NVML's functions
  EXPECT_EQ(GpuUseReader("/no/such/library.so").Count(), std::nullopt);
  setenv("FAKE_NVML_FAILS", "1", 1);
  EXPECT_TRUE(GpuUseReader(FAKE_NVML).Read().empty());
  unsetenv("FAKE_NVML_FAILS");
}

}  // namespace
}  // namespace dtrain::report
