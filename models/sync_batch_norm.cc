// Each layer needs two sums over ranks: (Σx, Σx², count) forward and (Σdy, Σdy·(x−μ)) backward. They are float64, in
// which E[x²] − E[x]² is exact enough.
#include "models/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dtrain::models {
namespace {

constexpr int64_t kBatch = 0, kHeight = 2, kWidth = 3;

// (C) → (1, C, 1, 1), which broadcasts over (N, C, H, W).
at::Tensor PerChannel(const at::Tensor& v_C) { return v_C.view({1, -1, 1, 1}); }

at::Tensor SumOverPixels(const at::Tensor& x_NCHW) { return x_NCHW.sum({kBatch, kHeight, kWidth}, false, at::kDouble); }

struct Function : torch::autograd::Function<Function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& variance,
                            const at::Tensor& count, double epsilon, const SumOverRanks* sum) {
    context->save_for_backward({x, weight, mean, at::rsqrt(variance + epsilon), count});
    context->saved_data["sum"] = reinterpret_cast<int64_t>(sum);
    return std::get<0>(
        at::native_batch_norm(x, weight, bias, mean, variance, /*training=*/false, /*momentum=*/0.0, epsilon));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &inverse_std = saved[3], &count = saved[4];
    const auto& sum = *reinterpret_cast<const SumOverRanks*>(context->saved_data["sum"].toInt());
    const at::Tensor dy = gradients[0].to(at::kFloat);
    const at::Tensor centred = x.to(at::kFloat) - PerChannel(mean);

    const at::Tensor local_dy = SumOverPixels(dy);
    const at::Tensor local_dy_centred = SumOverPixels(dy * centred);
    at::Tensor sums = at::cat({local_dy, local_dy_centred});
    sum(sums);
    const auto channels = weight.size(0);
    const at::Tensor mean_dy = (sums.slice(0, 0, channels) / count).to(at::kFloat);
    const at::Tensor mean_dy_centred = (sums.slice(0, channels) / count).to(at::kFloat);

    const at::Tensor slope = mean_dy_centred * inverse_std * inverse_std;
    const at::Tensor dx = (dy - PerChannel(mean_dy) - centred * PerChannel(slope)) * PerChannel(inverse_std * weight);
    const at::Tensor dweight = local_dy_centred.to(at::kFloat) * inverse_std;
    return {dx.to(x.scalar_type()), dweight, local_dy.to(at::kFloat), {}, {}, {}, {}, {}};
  }
};

}  // namespace

// What is summed is (Σx, Σx², count) per channel, flat: (2C + 1) float64.
RankStatistics OverRanks(const at::Tensor& mean_C, const at::Tensor& variance_C, int64_t rows,
                         const SumOverRanks& sum) {
  const at::Tensor own_mean = mean_C.to(at::kDouble), own_variance = variance_C.to(at::kDouble);
  const at::Tensor own_count = at::full({1}, static_cast<double>(rows), own_mean.options());
  at::Tensor sums = at::cat({own_mean * own_count, (own_variance + own_mean * own_mean) * own_count, own_count});
  sum(sums);
  const int64_t channels = mean_C.size(0);
  const at::Tensor count = sums[2 * channels], mean = sums.slice(0, 0, channels) / count;
  const at::Tensor mean_square = sums.slice(0, channels, 2 * channels) / count;
  return {mean.to(at::kFloat), (mean_square - mean * mean).clamp_min(0).to(at::kFloat), count};
}

void UpdateRunning(const RankStatistics& batch, const RunningStatistics& running) {
  at::Tensor(running.mean).lerp_(batch.mean, running.momentum);
  at::Tensor(running.variance)
      .lerp_(batch.variance * (batch.count / (batch.count - 1)).to(at::kFloat), running.momentum);
}

SyncBatchNormResult SyncBatchNorm(const at::Tensor& x_NCHW, const at::Tensor& weight, const at::Tensor& bias,
                                  double epsilon, const SumOverRanks& sum) {
  const RankStatistics statistics = [&] {
    const at::NoGradGuard no_grad;
    const auto [variance, mean] = at::var_mean(x_NCHW.to(at::kFloat), {kBatch, kHeight, kWidth}, 0);
    return OverRanks(mean, variance, x_NCHW.numel() / x_NCHW.size(1), sum);
  }();
  return {Function::apply(x_NCHW, weight, bias, statistics.mean, statistics.variance, statistics.count, epsilon, &sum),
          statistics};
}

}  // namespace dtrain::models
