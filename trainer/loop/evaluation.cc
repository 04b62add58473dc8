// Each evaluation has a loader of its own, so that it holds no memory while training goes on.
#include "trainer/loop/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "data/error.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/distributed/shard_sum.h"
#include "trainer/errors.h"
#include "trainer/loop/batch_feed.h"
#include "trainer/loop/training_health.h"
#include "trainer/tasks/split_batches.h"

namespace dtrain::loop {
namespace {

// Puts a module into evaluation mode and switches gradients off, both for its own lifetime.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module) {
    module.apply([this](torch::nn::Module& part) {
      if (!part.is_training()) frozen_.push_back(&part);
    });
    module_.eval();
  }
  ~EvaluationMode() {
    module_.train();
    for (torch::nn::Module* part : frozen_) part->eval();
  }

 private:
  torch::nn::Module& module_;
  std::vector<torch::nn::Module*> frozen_;  // modules that are in evaluation mode during training, too
  at::NoGradGuard no_grad_;
};

// Returns the task's metrics of no sample. A task that has not seen its data may list what it has with either kind of
// them, and a name twice, of which the first one stays.
report::Metrics BlankMetrics(const tasks::Task& task) {
  report::Metrics metrics = task.MetricsOf(at::zeros({task.num_evaluation_sums()}, at::kDouble));
  std::set<std::string> names;
  std::erase_if(metrics, [&names](const report::Metric& metric) { return !names.insert(metric.name).second; });
  return metrics;
}

// Adds the metrics of the average of the weights, which tell which weights are the best unless --best_of says
// otherwise.
void AddOfAverage(const config::OptimizerConfig& config, report::Metrics metrics, report::ValPoint& point) {
  if (config.best_of != "raw") point.decides += metrics.size();
  for (report::Metric& metric : metrics) {
    metric.name = std::string(report::kOfAverage) + metric.name;
    metric.table_heading.clear();
    point.metrics.push_back(std::move(metric));
  }
}

// Returns the position of the metric that decides which weights are the best.
size_t DecisiveMetric(const std::string& best_metric, const tasks::Task& task, const report::Metrics& metrics) {
  const std::string wanted = best_metric == "auto" ? task.best_metric() : best_metric;
  if (wanted.empty()) return 0;
  std::string names;
  for (size_t i = 0; i < metrics.size(); ++i) {
    const report::Metric& metric = metrics[i];
    if (metric.name == wanted) return i;
    names += (i == 0 ? "" : i + 1 == metrics.size() ? " or " : ", ") + metric.name;
  }
  throw UsageError("--best_metric=" + wanted + " is no metric of this task", "give " + names + ", or auto");
}

// The sums of an evaluation over the shards of this rank and then over all ranks. Of a task with places for all samples
// they are large, so that there is no vector for each shard.
class SumOverShards {
 public:
  SumOverShards(const config::BatchSizes& sizes, int64_t sums, const at::TensorOptions& options,
                distributed::Communicator& communicator)
      : communicator_(communicator),
        shards_(config::DivisionOf(sizes.shards, communicator.rank(), communicator.world_size())),
        next_shard_(shards_.first),
        current_(at::zeros({sums}, options)) {
    if (sizes.elastic) tree_.emplace(sizes.shards, sums, options, communicator);
  }

  // Returns the sums of one of this rank's shards, which are asked for in their order.
  const at::Tensor& Of(int64_t shard) {
    for (; tree_ && next_shard_ <= shard; ++next_shard_) current_ = tree_->Next().zero_();
    return current_;
  }
  // A collective. Returns the sum over all shards, to which those of this rank have added `counts` at their end.
  at::Tensor Total(at::ArrayRef<double> counts) {
    const at::Tensor& last = Of(shards_.end - 1);
    if (shards_.count() > 0) last.slice(0, -static_cast<int64_t>(counts.size())).copy_(at::tensor(counts));
    if (tree_) return tree_->Sum();
    communicator_.Sum(current_);
    return current_;
  }

 private:
  distributed::Communicator& communicator_;
  const config::ShardRange shards_;
  int64_t next_shard_;
  std::optional<distributed::ShardSum> tree_;  // of an elastic run
  at::Tensor current_;
};

// Returns the numbers of the samples that --limit_val_steps takes, in their order, among which they have their places
// (tasks::SamplePlaces): a large split has places for its first ones alone.
at::Tensor SamplesOfLimited(const tasks::SplitBatches& batches) {
  std::vector<int64_t> samples;
  for (int64_t shard = 0; shard < batches.sizes().shards; ++shard) {
    for (const auto& batch : batches.EvaluationBatches(shard)) {
      for (const data::SampleRef& sample : batch) samples.push_back(sample.index);
    }
  }
  std::ranges::sort(samples);
  return at::tensor(samples, at::kLong);
}

}  // namespace

void RequireBestMetric(const std::string& best_metric, tasks::Task& task) {
  const report::Metrics plain = BlankMetrics(task);
  const bool is_plain = std::ranges::count(plain, best_metric, &report::Metric::name) > 0;
  if (best_metric != "auto" && !is_plain) task.CountConfusions();
  DecisiveMetric(best_metric, task, BlankMetrics(task));
}

Judgement JudgementOf(const config::Config& config, const tasks::Task& task, const tasks::DataSets& data) {
  report::ValPoint blank{.metrics = BlankMetrics(task)};
  blank.decides = DecisiveMetric(config.run.best_metric, task, blank.metrics);
  if (config.optimizer.ema_decay > 0) AddOfAverage(config.optimizer, blank.metrics, blank);
  report::RunResult result;
  for (const tasks::DataSplit* split : tasks::ValidationSets(data)) {
    if (!result.validation) {
      result.validation = result.best = blank;
      continue;
    }
    result.validation->further.push_back(blank);
    result.validation->further.back().split = split->name;
  }
  const std::vector<std::string> names = report::SmallerIsBetter(result);
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(std::next(name), names.end(), *name) == names.end()) continue;
    throw UsageError("--val_split: a set has a name that gives two numbers one name, " + *name,
                     "give the set another name");
  }
  return {blank.decisive().name, names};
}

std::optional<report::ValPoint> Evaluate(tasks::Task& task, const tasks::DataSplit& split, const config::Config& config,
                                         distributed::Communicator& communicator, control::ControlPlane& control,
                                         int64_t steps_done, data::Quarantine& quarantine,
                                         const EvaluationProgress& progress) {
  const auto start = std::chrono::steady_clock::now();
  control.Enter(control::Phase::kEvaluation);
  const EvaluationMode evaluation_mode(task.module());
  const auto all_batches = tasks::MakeEvaluationBatches(split, config, communicator.world_size());
  const config::BatchSizes& sizes = all_batches->sizes();
  const config::ShardRange shards = config::DivisionOf(sizes.shards, communicator.rank(), communicator.world_size());
  std::vector<data::BatchSamples> batches;
  for (int64_t shard = shards.first; shard < shards.end; ++shard) {
    for (auto& samples : all_batches->EvaluationBatches(shard)) {
      batches.push_back({std::move(samples), {.shard = shard}});
    }
  }
  // Ranks may differ by some batches, but all must pass the same points at which they may stop.
  const int64_t rounds = all_batches->EvaluationRounds(communicator.world_size());

  const auto provider = [&batches](int64_t number) -> std::optional<data::BatchSamples> {
    if (number >= static_cast<int64_t>(batches.size())) return std::nullopt;
    return batches[static_cast<size_t>(number)];
  };
  BatchFeed feed(split, task, config, provider, data::BadRecordPolicy::kLeaveOut, /*first_batch=*/0, quarantine);
  task.BeginEvaluation(split);
  at::Tensor chosen;  // of a limited evaluation of a task that has places
  // The task's sums, followed by the numbers of records that were evaluated and left out.
  const int64_t num_sums = task.num_evaluation_sums();
  SumOverShards sums_of_shards(sizes, num_sums + 2, at::TensorOptions(at::kDouble).device(task.device()), communicator);
  int64_t taken = 0, left_out = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    auto batch = feed.Next();
    if (batch) {
      taken += batch->size();
      left_out += static_cast<int64_t>(batches[static_cast<size_t>(batch->number)].samples.size()) - batch->size();
    }
    if (batch && batch->size() > 0) {
      if (config.run.limit_val_steps > 0 && batch->tensors.contains(tasks::kPlaces)) {
        if (!chosen.defined()) chosen = SamplesOfLimited(*all_batches).to(task.device());
        at::Tensor& places = batch->tensors[tasks::kPlaces];
        places = at::searchsorted(chosen, places);
      }
      task.AddEvaluationSums(*batch, sums_of_shards.Of(batch->part.shard).slice(0, 0, num_sums));
    }
    if (control.StopsHere(steps_done)) return std::nullopt;
    if (progress) progress(round + 1, rounds);
    control.Enter(control::Phase::kEvaluation);
  }
  control.Enter(control::Phase::kExchange);
  // The only line that waits for the device.
  const at::Tensor all_sums = sums_of_shards.Total({static_cast<double>(taken), static_cast<double>(left_out)}).cpu();
  const at::Tensor sums = all_sums.slice(0, 0, num_sums);
  const auto count = [&all_sums](int64_t sum) { return std::llround(all_sums[sum].item<double>()); };
  if (count(num_sums) == 0) {
    throw DataError("no record of split " + split.name + " could be read", "see quarantine.jsonl for the reasons");
  }
  report::ValPoint point{.metrics = task.MetricsOf(sums),
                         .bad_records = count(num_sums + 1),
                         .samples = count(num_sums),
                         .samples_of_split = split.source->size(),
                         .units = count(num_sums - 1),
                         .scores = task.ScoresOf(sums),
                         .confusions = task.ConfusionsOf(sums)};
  if (!HasFiniteLoss(point)) {  // outputs of NaN were counted as the first class
    for (report::Metric& metric : point.metrics) metric.value = std::numeric_limits<double>::quiet_NaN();
    point.scores.clear();
    point.confusions.clear();
  }
  point.decides = DecisiveMetric(config.run.best_metric, task, point.metrics);
  if (task.speed_unit() == report::SpeedUnit::kTokens) {
    point.text = report::TextCounts{
        .batches = rounds, .samples = point.samples, .tokens = point.units, .has_perplexity = task.has_perplexity()};
    task.AddCounts(sums, *point.text);
    point.text->seconds = report::SecondsSince(start);
  }
  return point;
}

Validation::Validation(const TrainerParts& parts) : parts_(parts) {
  for (const tasks::DataSplit* split : tasks::ValidationSets(parts.data)) {
    sets_.push_back(
        {*split, MakeRunQuarantine(*split, parts.config.data, parts.files.quarantine(parts.communicator.rank()),
                                   "left out", parts.control)});
  }
}

std::optional<report::ValPoint> Validation::Run(int64_t steps_done, optim::WeightAverage* average) {
  std::vector<report::ValPoint> points;
  for (Set& set : sets_) {
    auto point = Evaluated(set, steps_done);
    if (!point) return std::nullopt;
    if (&set != &sets_.front()) point->split = set.split.name;
    points.push_back(std::move(*point));
  }
  if (average != nullptr) {
    const optim::WeightAverage::Scope scope(*average);
    for (size_t i = 0; i < sets_.size(); ++i) {
      const auto averaged = Evaluated(sets_[i], steps_done);
      if (!averaged) return std::nullopt;
      AddOfAverage(parts_.config.optimizer, averaged->metrics, points[i]);
    }
  }
  report::ValPoint first = std::move(points.front());
  first.further.assign(std::make_move_iterator(points.begin() + 1), std::make_move_iterator(points.end()));
  return first;
}

std::optional<report::ValPoint> Validation::Evaluated(Set& set, int64_t steps_done) {
  auto point =
      Evaluate(parts_.task, set.split, parts_.config, parts_.communicator, parts_.control, steps_done, *set.quarantine,
               [this](int64_t done, int64_t total) { parts_.reporter.Evaluating(done, total); });
  if (!point) return std::nullopt;
  if (point->text && !std::exchange(set.warned_of_unmeasured, true) && parts_.communicator.rank() == 0) {
    WarnOfUnmeasured(*point->text, set.split.name);
  }
  point->step = steps_done;
  point->epoch = parts_.plan.EpochAt(steps_done);
  point->epoch_number = parts_.plan.EpochNumber(std::max<int64_t>(1, steps_done));
  return point;
}

}  // namespace dtrain::loop
