#include "trainer/weights/fitting_model.h"

#include <cstdio>

#include "data/machine/limits.h"
#include "trainer/errors.h"

namespace dtrain::weights {

void RequireRoomFor(const torch::nn::Module& model) {
  constexpr double kGiB = 1 << 30;
  double bytes = 0;  // a sum of int64 could overflow
  for (const at::Tensor& weight : model.parameters()) bytes += static_cast<double>(weight.nbytes());
  const auto there = static_cast<double>(data::AvailableMemory());
  if (bytes <= there) return;
  char text[160];
  std::snprintf(text, sizeof(text), "the weights of this model need %.1f GiB of memory, and this machine has %.1f GiB",
                bytes / kGiB, there / kGiB);
  throw Error(ExitCode::kOutOfMemory, text,
              "check --num_classes, --vocab_size and --tokens_per_sample, and the sizes in a --model_config");
}

}  // namespace dtrain::weights
