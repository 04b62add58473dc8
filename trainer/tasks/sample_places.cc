#include "trainer/tasks/sample_places.h"

#include <ATen/ATen.h>

namespace dtrain::tasks {

void SamplePlaces::Fill(const at::Tensor& sums, const at::Tensor& places, const at::Tensor& rows) const {
  if (samples == 0) return;
  sums.view({samples + 1, numbers}).index_copy_(0, places.clamp_max(samples), rows.to(at::kDouble));
}

at::Tensor SamplePlaces::Rows(const double* sums) const {
  const at::Tensor rows = at::from_blob(const_cast<double*>(sums), {samples, numbers}, at::kDouble);
  return rows.index_select(0, rows.select(1, 0).nonzero().squeeze(1));
}

std::vector<double> SamplePlaces::Column(const double* sums, int64_t column) const {
  std::vector<double> values;
  for (const double* row = sums; row < sums + samples * numbers; row += numbers) {
    if (*row != 0) values.push_back(row[column]);
  }
  return values;
}

}  // namespace dtrain::tasks
