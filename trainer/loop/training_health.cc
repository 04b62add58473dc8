#include "trainer/loop/training_health.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/joined.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

constexpr const char* kAgainstDivergence =
    "lower --lr, lengthen the warmup, or set --clip_norm; checkpoints are intact, if any were saved before";

std::string AdviceAgainstWaiting(WaitsFor waits_for, int64_t workers) {
  const std::string more_cores =
      " needs more cores: give this rank more of them, or raise --workers if it has more than " +
      std::to_string(workers);
  switch (waits_for) {
    case WaitsFor::kStorage:
      return "storage is slower than decoding: keep the data in memory with --cache=ram, warm or copy it first, pack "
             "small files into shards, or use --shuffle=shard";
    case WaitsFor::kCachedStorage:
      return "storage is slower than decoding, until the cache holds what fits into memory: warm or copy the data "
             "first, pack small files into shards, or use --shuffle=shard";
    case WaitsFor::kImageThreads:
      return "decoding" + more_cores + ", or pack the images resized (dtrain_data pack)";
    case WaitsFor::kMaskingThreads:
      return "masking" + more_cores;
    case WaitsFor::kSentenceThreads:
      return "padding sentences" + more_cores + "; a larger --batch_size makes each step longer";
  }
  return "";
}

}  // namespace

void WarnOfWaiting(double fraction, WaitsFor waits_for, int64_t workers) {
  report::LogWarning("training waits for data " + std::to_string(std::lround(100 * fraction)) + " % of the time; " +
                     AdviceAgainstWaiting(waits_for, workers));
}

void SkippedSteps::Line(int64_t step, int64_t skipped, std::optional<double> loss_scale) {
  const int64_t first = std::exchange(last_line_, step) + 1;
  total_ += skipped;
  if (skipped == 0 || total_ < 2 * warned_of_) return;
  warned_of_ = total_;
  const std::string count = CountOf(total_, "step") + " skipped so far";
  const std::string where = first == step ? "step " + std::to_string(step)
                                          : (total_ == skipped ? "among steps " : "the last among steps ") +
                                                std::to_string(first) + " to " + std::to_string(step);
  report::LogWarning(
      count + " (" + where + "): the gradients were not finite" +
      (loss_scale ? report::Format("; the loss scale, now %g, is adapting: a few such steps are normal", *loss_scale)
                  : "; lower --lr or set --clip_norm if this goes on"));
}

void NothingToLearn::Line(int64_t step, int64_t samples, int64_t steps) {
  const std::string until = " by step " + std::to_string(step);
  if (samples > 0 && !std::exchange(warned_of_samples_, true)) {
    report::LogWarning("nothing is learned from samples without a token (" + std::to_string(samples) + until +
                       "); metrics.jsonl counts them as empty_samples");
  }
  if (steps > 0 && !std::exchange(warned_of_steps_, true)) {
    report::LogWarning("nothing is learned in steps without a token to guess, or whose classes all weigh nothing (" +
                       std::to_string(steps) + until + "); raise --batch_size if there are many");
  }
}

void WarnOfUnmeasured(const report::TextCounts& counts, const std::string& split) {
  if (counts.empty_samples > 0) {
    report::LogWarning("samples without a token do not count in the evaluation: " +
                       std::to_string(counts.empty_samples) + " of " + split);
  }
  if (counts.guessed == 0) report::LogWarning(NothingToMeasure(split) + ": its metrics are no numbers");
}

std::string NothingToMeasure(const std::string& split) {
  return "none of the evaluated samples of " + split + " has a token to guess";
}

void RequireUpdates(int64_t skipped_in_a_row, int64_t limit, int64_t step) {
  if (skipped_in_a_row < limit) return;
  throw DivergedError("gradients were not finite in " + CountOf(skipped_in_a_row, "step") + " in a row, up to step " +
                          std::to_string(step),
                      kAgainstDivergence);
}

bool HasFiniteLoss(const report::ValPoint& point) {
  if (point.text && point.text->guessed == 0) return true;  // there was nothing to measure
  const auto is_finite = [](const report::Metric& metric) {
    return !metric.name.ends_with("loss") || std::isfinite(metric.value);
  };
  return std::ranges::all_of(point.metrics, is_finite) && std::ranges::all_of(point.further, HasFiniteLoss);
}

void RequireGoodEnd(const RunEnd& end) {
  constexpr int64_t kStepsOfFirstScale = 4;  // a dynamic loss scale may need as many to come down
  const std::string steps = CountOf(end.step, "step");
  if (!end.loss_is_finite) throw DivergedError("after " + steps + " the loss is not finite", kAgainstDivergence);
  RequireUpdates(end.skipped_in_a_row, std::min(end.most_skipped, std::max(kStepsOfFirstScale, end.step / 2)),
                 end.step);
}

}  // namespace dtrain::loop
