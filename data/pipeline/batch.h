// The output of the loader: a few named tensors of equal length.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace dtrain::data {

// A part of a training step: one micro-step of one shard of the global batch, all counted from 0. The first micro-step
// zeroes the gradients, the last one updates the weights.
struct StepPart {
  int64_t step = 0, shard = 0, micro_step = 0;
  int64_t micro_steps = 1;  // of a step
  bool first() const { return micro_step == 0; }
  bool last() const { return micro_step + 1 == micro_steps; }
};

// Contiguous tensors with one row per sample, as the loader makes them:
//   images  as the decoder's field says: uint8 N×H×W×3, or float32 N×3×H×W that is already normalised
//   labels  int64 N, from 0; -1 if the format has none
//   targets float32 N×T, if the labels are not classes but T numbers each (RecordSource::num_targets); labels are -1
//           (text has other fields: data/text/token_rows.h)
//   index   int64 N, position in the RecordSource (of the replacement, if a bad record was replaced); on the host
struct Batch {
  std::map<std::string, at::Tensor> tensors;  // on the host (pinned if LoaderOptions::pin_memory) or all on the device
  int64_t number = 0;                         // number passed to the BatchProvider
  StepPart part = {};                         // what it is for, in a training
  // What is never copied to a device: it is for messages and files, or shapes depend on it.
  std::map<std::string, at::Tensor> on_host = {};

  int64_t size() const { return (*this)["index"].size(0); }
  const at::Tensor& operator[](const std::string& name) const {
    const auto found = tensors.find(name);
    return found == tensors.end() ? on_host.at(name) : found->second;
  }
};

}  // namespace dtrain::data
