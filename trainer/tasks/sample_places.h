// A place for each sample of a split among the sums of an evaluation. Each rank fills in those of its own samples, so
// that the sum over the ranks is what was found of all: for metrics that the parts of a split do not add up to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dtrain::tasks {

// Each rank has room for all. A task with numbers for each label or feature bounds the samples; up to three numbers
// take less memory than the sample's text.
struct SamplePlaces {
  int64_t samples = 0;  // the first ones of the split
  int64_t numbers = 0;  // of each

  // The sums that they take: a row for each sample, and a last one for whatever has no place.
  int64_t num_sums() const { return samples == 0 ? 0 : (samples + 1) * numbers; }

  // Fills in rows of these sums. `places` are the numbers of samples (kPlaces), int64 N; those from `samples` on have
  // no place. `rows` are N×numbers, and their first column is never 0, which is what samples have that were left out.
  void Fill(const at::Tensor& sums, const at::Tensor& places, const at::Tensor& rows) const;

  // Return all rows that were filled in, float64 N×numbers, or one of their columns, from sums on the host.
  at::Tensor Rows(const double* sums) const;
  std::vector<double> Column(const double* sums, int64_t column) const;
};

}  // namespace dtrain::tasks
