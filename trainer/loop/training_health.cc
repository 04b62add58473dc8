#include "trainer/loop/training_health.h"

#include <cmath>
#include <string>

#include "data/count_of.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::loop {
namespace {

std::string AdviceAgainstWaiting(bool for_storage, bool for_gpu, int64_t workers) {
  if (for_storage) {
    return "storage is slower than decoding: keep what was read with --cache=ram, warm or copy the data first, pack it "
           "into shards, or use --shuffle=shard";
  }
  if (for_gpu) return "the GPU has no time to decode: use --decode=cpu, or pack the images resized (dtrain_data pack)";
  return "decoding needs more cores: give this rank more, raise --workers if there are more than " +
         std::to_string(workers) + ", or pack the images resized (dtrain_data pack)";
}

}  // namespace

void WarnOfWaiting(double fraction, bool for_storage, bool for_gpu, int64_t workers) {
  report::LogWarning("training waits for data " + std::to_string(std::lround(100 * fraction)) + " % of the time; " +
                     AdviceAgainstWaiting(for_storage, for_gpu, workers));
}

void WarnOfSkippedSteps(int64_t skipped, std::optional<double> loss_scale, int64_t step) {
  const std::string scale = loss_scale ? "; the loss scale is now " + std::to_string(*loss_scale) : "";
  report::LogWarning(CountOf(skipped, "step") + " skipped up to step " + std::to_string(step) +
                     ", because gradients were not finite" + scale);
}

void RequireFinite(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw DivergedError("the loss is not finite by step " + std::to_string(step),
                      "lower --lr, lengthen the warmup, or set --clip_norm; the last checkpoint is intact");
}

void RequireUpdates(int64_t skipped_in_a_row, int64_t limit, int64_t step) {
  if (skipped_in_a_row < limit) return;
  throw DivergedError("gradients were not finite in " + CountOf(skipped_in_a_row, "step") + " in a row, up to step " +
                          std::to_string(step),
                      "lower --lr, lengthen the warmup, or set --clip_norm; the last checkpoint is intact");
}

}  // namespace dtrain::loop
