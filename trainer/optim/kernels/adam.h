// Adam's step for many weights in one launch, which also writes the copies of the weights in a half type. The work of a
// thread is an ordinary function, so that a test runs it on the CPU. Each element is read and written once: of 4 bytes
// the weight, its gradient and two moments are read, the weight and the moments written, and 2 bytes of the copy; 30
// bytes an element take 125 M elements 1.25 ms at 3.0 TB/s. ATen's kernel, which has at most 320 blocks a launch,
// leaves a part of the memory's speed unused.
#pragma once

#include <cmath>
#include <cstdint>

#include "models/kernels/channels_last.h"

namespace dtrain::optim::kernels {

using models::kernels::Eight;
using models::kernels::Element;
using models::kernels::kWidth;

constexpr int kMostWeights = 64;  // of one launch, whose arguments may have 4 KiB
constexpr int kAdamThreads = 256;
constexpr int64_t kElementsAtOnce = int64_t{kAdamThreads} * kWidth;  // of a block
constexpr int64_t kElementsOfBlock = 2 * kElementsAtOnce;

// Pointers are to the device's memory. Each tensor's elements are neighbours, and in the same order in all of them.
struct AdamWeight {
  float *weight, *average, *average_of_squares;
  const float* gradient;
  void* copy;  // of the type that `Element` names; null: there is none
  int64_t elements;
};

struct AdamArguments {
  AdamWeight weights[kMostWeights];
  unsigned first_block[kMostWeights + 1];  // of each weight, and in the end the number of blocks
  int count;                               // of weights
  const float *rate, *step;                // the step's number, from 1
  const float* factor;                     // of the gradients; null: 1
  const float* found_inf;                  // null, or 1 if nothing is to change
  float beta1, beta2, weight_decay, epsilon;
  bool decoupled_weight_decay;
};
static_assert(sizeof(AdamArguments) <= 4096);

inline unsigned BlocksOf(int64_t elements) {
  return static_cast<unsigned>((elements + kElementsOfBlock - 1) / kElementsOfBlock);
}

// The values of a step that are the same for all elements.
struct AdamStep {
  float factor, rate, size, root_of_correction;

  DTRAIN_HOST_DEVICE explicit AdamStep(const AdamArguments& of)
      : factor(of.factor != nullptr ? *of.factor : 1.0F),
        rate(*of.rate),
        size(rate / (1.0F - powf(of.beta1, *of.step))),
        root_of_correction(sqrtf(1.0F - powf(of.beta2, *of.step))) {}
};

// With the operations of ATen's kernel, in its order: the results differ by rounding alone.
DTRAIN_HOST_DEVICE inline void UpdateElement(const AdamArguments& of, const AdamStep& step, float gradient,
                                             float& weight, float& average, float& average_of_squares) {
  gradient *= step.factor;
  if (of.weight_decay != 0 && of.decoupled_weight_decay) {
    weight = fmaf(-(step.rate * of.weight_decay), weight, weight);
  } else if (of.weight_decay != 0) {
    gradient = fmaf(weight, of.weight_decay, gradient);
  }
  const float square = gradient * gradient;
  average = fmaf(of.beta1, average, fmaf(-of.beta1, gradient, gradient));
  average_of_squares = fmaf(of.beta2, average_of_squares, fmaf(-of.beta2, square, square));
  const float root = sqrtf(average_of_squares) / step.root_of_correction + of.epsilon;
  weight -= step.size * average / root;
}

DTRAIN_HOST_DEVICE inline bool IsAligned(const AdamWeight& of) {
  constexpr uintptr_t kAlignment = 16;
  const uintptr_t bits = reinterpret_cast<uintptr_t>(of.weight) | reinterpret_cast<uintptr_t>(of.average) |
                         reinterpret_cast<uintptr_t>(of.average_of_squares) | reinterpret_cast<uintptr_t>(of.gradient) |
                         reinterpret_cast<uintptr_t>(of.copy);
  return bits % kAlignment == 0;
}

template <typename Copy>
DTRAIN_HOST_DEVICE void UpdateEight(const AdamArguments& of, const AdamStep& step, const AdamWeight& tensors,
                                    int64_t at) {
  using models::kernels::LoadEight, models::kernels::StoreEight;
  const Eight<float> gradient = LoadEight<float>(tensors.gradient, at);
  Eight<float> weight = LoadEight<float>(tensors.weight, at), average = LoadEight<float>(tensors.average, at),
               squares = LoadEight<float>(tensors.average_of_squares, at);
  Eight<Copy> copy;
  DTRAIN_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    UpdateElement(of, step, gradient.values[i], weight.values[i], average.values[i], squares.values[i]);
    copy.values[i] = static_cast<Copy>(weight.values[i]);
  }
  StoreEight<float>(tensors.weight, at, weight);
  StoreEight<float>(tensors.average, at, average);
  StoreEight<float>(tensors.average_of_squares, at, squares);
  if (tensors.copy != nullptr) StoreEight<Copy>(tensors.copy, at, copy);
}

// Returns which weight the block works on.
DTRAIN_HOST_DEVICE inline int WeightOf(const AdamArguments& of, unsigned block) {
  int weight = 0;
  for (int beyond = of.count; beyond - weight > 1;) {
    const int middle = (weight + beyond) / 2;
    if (of.first_block[middle] <= block) {
      weight = middle;
    } else {
      beyond = middle;
    }
  }
  return weight;
}

// The work of a thread: eight neighbouring elements at a time.
template <typename Copy>
DTRAIN_HOST_DEVICE void AdamThread(const AdamArguments& of, unsigned block, int thread) {
  if (of.found_inf != nullptr && *of.found_inf == 1) return;
  const int number = WeightOf(of, block);
  const AdamWeight& tensors = of.weights[number];
  const AdamStep step(of);
  const bool aligned = IsAligned(tensors);
  const int64_t first = static_cast<int64_t>(block - of.first_block[number]) * kElementsOfBlock + thread * kWidth;
  for (int64_t at = first; at < first + kElementsOfBlock && at < tensors.elements; at += kElementsAtOnce) {
    if (aligned && at + kWidth <= tensors.elements) {
      UpdateEight<Copy>(of, step, tensors, at);
      continue;
    }
    for (int64_t i = at; i < at + kWidth && i < tensors.elements; ++i) {
      UpdateElement(of, step, tensors.gradient[i], tensors.weight[i], tensors.average[i],
                    tensors.average_of_squares[i]);
      if (tensors.copy != nullptr) static_cast<Copy*>(tensors.copy)[i] = static_cast<Copy>(tensors.weight[i]);
    }
  }
}

// Starts a launch on `stream` (a cudaStream_t) of the current device. `copies` is the type of the copies, kFloat if
// there are none. Returns a cudaError_t.
int LaunchAdam(const AdamArguments& arguments, Element copies, void* stream);

}  // namespace dtrain::optim::kernels
