// Adam for models whose weights and gradients are of half precision (fairseq's --memory-efficient-fp16), with moments
// of half precision, too: 8 bytes per parameter in all instead of 16. It computes in float32, on a part of the
// parameters at a time.
//
// Half precision reaches from 6e-8 to 65,504, and moments are often smaller than that. So the first moment m and the
// square root of the second moment are stored as fractions of a bound that no element exceeds,
// |m| ≤ peak ← β1·peak + (1 − β1)·max|g|, and likewise for the root. The root is stored because its range is that of
// the gradients; the second moment itself has twice the range of exponents. Weights are rounded as in fairseq.
#pragma once

#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// State: `exp_avg.<parameter>` and `exp_avg_sq_root.<parameter>` (half precision), `peaks` (float32: for each group the
// bounds of the first moments and of the roots), and `step` (skipped steps do not count).
class MemoryEfficientAdam : public Optimizer {
 public:
  // The parameters must be of half precision.
  MemoryEfficientAdam(std::vector<ParameterGroup> groups, const AdamOptions& options);
  bool takes_factor() const override { return true; }
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  // The moments of one group.
  struct Moments {
    std::vector<at::Tensor> average, root;  // as fractions of the peaks, by parameter
    at::Tensor peaks;                       // a view of the group's row of peaks_
  };
  at::Tensor NextPeaks(const ParameterGroup& group, const Moments& moments) const;
  void StepPart(size_t group, size_t begin, size_t end, const at::Tensor& next_peaks, const Rate& learning_rate,
                const std::optional<at::Tensor>& found_inf);

  AdamOptions options_;
  std::vector<Moments> moments_;  // by group
  at::Tensor step_;               // float32 scalar on the parameters' device
  at::Tensor peaks_;              // float32, groups × 2
};

}  // namespace dtrain::optim
