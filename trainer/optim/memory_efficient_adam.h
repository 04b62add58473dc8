// Adam for models whose weights and gradients are of half precision (fairseq's --memory-efficient-fp16), with moments
// of half precision, too: 8 bytes a parameter in all instead of 16. The arithmetic is that of Adam in float32, on some
// parameters at a time.
//
// Half precision reaches from 6e-8 to 65,504, and moments are far smaller. So the first moment and the root of the
// second one (of the same size as gradients, where the square would need twice the exponents) are stored as fractions
// of a bound that no element exceeds: m ≤ peak ← β1·peak + (1 − β1)·max|g|, and likewise for the root. Weights are
// rounded to the nearest half, as fairseq rounds them.
#pragma once

#include <vector>

#include "trainer/optim/optimizer.h"

namespace dtrain::optim {

// State: `exp_avg.<parameter>` and `exp_avg_sq_root.<parameter>` (half), `peaks` (float32: for each group the bound of
// the first moments and of the roots), and `step`, which skipped steps do not advance.
class MemoryEfficientAdam : public Optimizer {
 public:
  // The groups' parameters are of half precision.
  MemoryEfficientAdam(std::vector<ParameterGroup> groups, const AdamOptions& options);
  bool takes_factor() const override { return true; }
  void Step(const Rate& learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt) override;
  std::vector<NamedTensor> State() const override;

 private:
  // Of one group.
  struct Moments {
    std::vector<at::Tensor> average, root;
    at::Tensor peaks;  // a part of peaks_
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
