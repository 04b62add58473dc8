// The step is the training's own (StepComputation), without data, logging and saving.
#include "trainer/bench/benches.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "data/pipeline/batch.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/device/device.h"
#include "trainer/loop/step_computation.h"
#include "trainer/loop/step_graph.h"
#include "trainer/modes/session.h"
#include "trainer/optim/precision.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::bench {
namespace {

// The parts of a step that are timed, without communication.
struct StepParts {
  std::function<void()> forward, backward, update;
};

double NowMilliseconds(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

// Runs `steps` steps (1 or more) and returns the means. The host waits for the device after each part, so that its
// clock can be used: on a GPU the sum is longer than an unmeasured step, and only the shares can be trusted.
nlohmann::ordered_json MeasureParts(const StepParts& parts, at::Device device, int64_t steps) {
  double forward = 0, backward = 0, update = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const double start = NowMilliseconds(device);
    parts.forward();
    const double backward_start = NowMilliseconds(device);
    parts.backward();
    const double update_start = NowMilliseconds(device);
    parts.update();
    forward += backward_start - start;
    backward += update_start - backward_start;
    update += NowMilliseconds(device) - update_start;
  }
  const auto count = static_cast<double>(steps);
  return {{"forward_milliseconds", forward / count},
          {"backward_milliseconds", backward / count},
          {"update_milliseconds", update / count}};
}

constexpr int64_t kStepsInParts = 3;
constexpr int64_t kProbedSteps = 3;
constexpr double kMiB = 1024.0 * 1024.0;

// When the ranks reduce their gradients.
enum class Reduction { kOverlapped, kAfterBackward, kNever };

// As many samples as a micro-step has, of the greatest length.
config::BatchSizes OneMicroStep(const config::Config& config, int64_t ranks) {
  int64_t size = *config.batch.batch_size;
  if (config.text.max_tokens > 0) size = std::min(size, config.text.max_tokens / config.text.tokens_per_sample);
  return {.batch_size = size, .global_batch_size = size * ranks, .shards = ranks};
}

class BenchedStep {
 public:
  BenchedStep(const config::Config& config, at::Device device, distributed::Communicator& communicator)
      : communicator_(communicator),
        device_(device),
        seed_(config.batch.seed),
        sizes_(OneMicroStep(config, communicator.world_size())),
        rate_(*config.optimizer.lr),
        task_(tasks::KindOf(config).MakeTask(config, tasks::KindOf(config).BenchSizes(config), device)),
        computation_(config, sizes_, *task_, communicator),
        graph_(loop::MakeStepGraph(config.ranks.cuda_graphs, device,
                                   loop::WhyNotRecorded(device, /*elastic=*/false, task_->WhyNotRecorded()))),
        batch_(task_->RandomBatch(sizes_.batch_size)) {
    computation_.Connect(graph_.get(), distributed::BucketLayout{});
    if (!device.is_cpu()) rate_ = at::full({}, *config.optimizer.lr, at::TensorOptions(at::kFloat).device(device));
  }

  int64_t batch_size() const { return sizes_.batch_size; }
  torch::nn::Module& module() { return task_->module(); }
  const tasks::Task& task() const { return *task_; }
  // Of the last step: of all ranks, if it was one with an exchange. These wait for the device.
  double units() const { return Sum(loop::kUnits); }
  double loss() const { return Sum(loop::kLossSum) / Sum(loop::kWeight); }
  StepWork Work(const optim::Precision& precision) const {
    StepScale scale{.samples = sizes_.batch_size, .products = precision.products};
    for (const at::Tensor& weight : computation_.data_parallel().parameters()) scale.weights += weight.numel();
    for (const auto& [name, tensor] : computation_.update().State()) {
      scale.optimizer_bytes += static_cast<int64_t>(tensor.nbytes());
    }
    return WorkOfStep(task_->CostOfSample(), scale);
  }

  std::vector<int64_t> BucketBytes() {
    const auto parameters = module().parameters();
    std::vector<int64_t> sizes;
    for (const auto& bucket : computation_.data_parallel().bucket_layout()) {
      sizes.push_back(0);
      for (const size_t index : bucket) sizes.back() += static_cast<int64_t>(parameters[index].nbytes());
    }
    return sizes;
  }

  void Run(Reduction reduction) {
    loop::SeedTask(seed_, {.step = step_++}, device_);
    if (!graph_) return RunParts(batch_, reduction);
    graph_->Run(batch_, [this, reduction](const data::Batch& batch) { RunParts(batch, reduction); });
  }

  bool replayed() const { return graph_ && graph_->replayed(); }

  // The least number of steps before timing: the first lays out the buckets, and a graph is recorded after some.
  int64_t LeastWarmUp() const { return graph_ ? loop::StepGraph::kWarmUpSteps + 1 : 1; }

  // Forgets the graphs of steps that reduce their gradients in another way, and warms up.
  void WarmUp(Reduction reduction) {
    if (graph_) graph_->Forget();
    for (int64_t i = 0; i < LeastWarmUp(); ++i) Run(reduction);
  }

  // Returns the mean seconds of a step, which are the same on all ranks.
  double Time(int64_t steps, Reduction reduction) {
    communicator_.Barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < steps; ++i) Run(reduction);
    loss();  // waits for the device
    at::Tensor seconds = at::full({1}, report::SecondsSince(start), at::TensorOptions(at::kDouble));
    communicator_.Sum(seconds);
    return seconds.item<double>() / communicator_.world_size() / static_cast<double>(steps);
  }

  nlohmann::ordered_json Parts(int64_t steps) {
    return MeasureParts({.forward = [this] { Forward(batch_); },
                         .backward = [this] { Backward(Reduction::kNever); },
                         .update = [this] { computation_.Update(rate_); }},
                        device_, steps);
  }

 private:
  void RunParts(const data::Batch& batch, Reduction reduction) {
    Forward(batch);
    Backward(reduction);
    if (reduction != Reduction::kNever) computation_.Exchange();
    computation_.Update(rate_);
  }

  void Forward(const data::Batch& batch) {
    computation_.Begin();
    computation_.Forward(batch);
  }

  void Backward(Reduction reduction) {
    computation_.Backward(/*reduce=*/reduction == Reduction::kOverlapped);
    computation_.EndBackward();
    if (reduction == Reduction::kAfterBackward) computation_.data_parallel().ReduceNow();
  }

  double Sum(loop::StepSum sum) const { return computation_.sums()[sum].item<double>(); }

  distributed::Communicator& communicator_;
  at::Device device_;
  int64_t seed_;
  int64_t step_ = 0;  // steps done
  config::BatchSizes sizes_;
  optim::Rate rate_;  // a float32 scalar on a GPU, as training has it
  std::unique_ptr<tasks::Task> task_;
  loop::StepComputation computation_;
  std::unique_ptr<loop::StepGraph> graph_;
  data::Batch batch_;
};

nlohmann::ordered_json CommunicationCosts(BenchedStep& step, double overlapped_seconds, int64_t steps) {
  step.WarmUp(Reduction::kAfterBackward);
  const double after = step.Time(steps, Reduction::kAfterBackward);
  step.WarmUp(Reduction::kNever);  // comes last, since the ranks' weights diverge
  const double compute = step.Time(steps, Reduction::kNever);
  return {{"compute_milliseconds", 1000 * compute},
          {"reduced_after_milliseconds", 1000 * after},
          {"hidden_fraction", (after - overlapped_seconds) / (after - compute)},
          {"bucket_bytes", step.BucketBytes()}};
}

// Returns the number of steps to time: the same on all ranks, as the duration of a step is.
int64_t StepsToTime(BenchedStep& step, const StepBenchOptions& options) {
  if (options.seconds <= 0) return options.steps;
  const double one = step.Time(std::min(options.steps, kProbedSteps), Reduction::kOverlapped);
  return std::max(options.steps, static_cast<int64_t>(options.seconds / one) + 1);
}

nlohmann::ordered_json Describe(const config::Config& config, const BenchedStep& step, int64_t timed,
                                const distributed::Communicator& communicator, at::Device device) {
  const tasks::TaskKind& kind = tasks::KindOf(config);
  const tasks::SampleSize size = kind.SizeOf(config);
  return {{"model", config.model.name},
          {"task", kind.name()},
          {size.flag, size.value},
          {"precision", config.precision.name},
          {"channels_last", config.model.channels_last},
          {"world_size", communicator.world_size()},
          {"bucket_cap_mb", config.ranks.bucket_cap_mb},
          {"grad_compression", config.ranks.grad_compression},
          {"cuda_graphs", config.ranks.cuda_graphs},
          {"replayed", step.replayed()},
          {"steps", timed},
          {"device", device.str()}};
}

// Says so if the device's memory is too full to measure its limits.
nlohmann::ordered_json RoofOf(const StepWork& work, const optim::Precision& precision, at::Device device,
                              double seconds) {
  try {
    return DescribeRoof(work, MeasureLimits(device, precision.products), seconds);
  } catch (const c10::OutOfMemoryError&) {
    return {{"roof", "not measured: the GPU's memory is too full"}};
  }
}

}  // namespace

nlohmann::ordered_json BenchStep(const modes::RunContext& context, const StepBenchOptions& options) {
  modes::Session session(context);
  session.Connect(context.config, {{"steps", options.steps}, {"warmup", options.warmup}});
  if (options.threads > 0) device::UseThreads(static_cast<int>(options.threads));
  const int world_size = session.communicator->world_size();
  BenchedStep step(context.config, session.device, *session.communicator);
  for (int64_t i = 0; i < std::max(step.LeastWarmUp(), options.warmup); ++i) step.Run(Reduction::kOverlapped);
  step.loss();  // waits for the device
  const int64_t timed = StepsToTime(step, options);
  const double seconds = step.Time(timed, Reduction::kOverlapped);

  const optim::Precision& precision = optim::PrecisionNamed(context.config.precision.name);
  const StepWork work = step.Work(precision);
  nlohmann::ordered_json result = Describe(context.config, step, timed, *session.communicator, session.device);
  result.update({{"batch_size", step.batch_size()},
                 {report::SpeedKey(step.task().speed_unit()), step.units() / seconds},
                 {"step_milliseconds", seconds * 1000},
                 {"peak_memory_mib", static_cast<double>(device::PeakMemoryBytes(session.device)) / kMiB},
                 {"achieved_tflops", work.flops / seconds / 1e12},
                 {"loss", step.loss()}});
  if (session.device.is_cuda()) result.update(RoofOf(work, precision, session.device, seconds));
  if (world_size > 1) result.update(CommunicationCosts(step, seconds, options.steps));
  result.update(step.Parts(std::min(options.steps, kStepsInParts)));
  result.update(DescribeMachine());
  session.Leave();
  return result;
}

}  // namespace dtrain::bench
