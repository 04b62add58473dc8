// After the first backward pass the reducer chooses its final bucket layout from the order in which gradients arrived.
// Here that happens at the end of the first step, not at the start of the second, so that every checkpoint holds the
// layout that the next step uses.
//
// A run that was interrupted after any step must continue with the same bits, although its next step is then the first
// of a new reducer. A reducer multiplies gradients by 1/ranks while it copies them into a bucket, but divides those
// that are in a bucket already; so the division is done by a communication hook here. In later steps gradients are
// added to zeros, which turns -0 into 0; so they are added to zeros in the first step, too.
#include "trainer/distributed/data_parallel.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/default_comm_hooks.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "data/joined.h"
#include "trainer/errors.h"

namespace dtrain::distributed {
// A reducer waits silently for missing gradients, and throws only in the next step, with numbers in place of names.
// This class reads its protected members at the end of a step: a flag, and the times at which gradients arrived.
class ObservedReducer : public c10d::Reducer {
 public:
  using Reducer::Reducer;

  void ForgetArrivals() { std::ranges::fill(backward_stats_, 0); }

  // Whether some, but not all gradients have arrived in this backward pass.
  bool IsUnfinished() const { return require_finalize_; }

  std::vector<size_t> NotArrived() const {
    std::vector<size_t> indices;
    for (size_t i = 0; i < backward_stats_.size(); ++i) {
      if (backward_stats_[i] == 0) indices.push_back(i);
    }
    return indices;
  }
};
namespace {

std::vector<at::Tensor> Tensors(const std::vector<std::pair<std::string, at::Tensor>>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

// Returns the layout with which DistributedDataParallel starts: the first bucket is small, so that its reduction begins
// early, and the layout is reversed, because gradients arrive from the last layer to the first.
std::pair<BucketLayout, std::vector<size_t>> InitialLayout(const std::vector<at::Tensor>& tensors, size_t cap_bytes) {
  auto [layout, limits] = c10d::compute_bucket_assignment_by_size(tensors, {c10d::kDefaultFirstBucketBytes, cap_bytes});
  std::ranges::reverse(layout);
  return {layout, limits};
}

// The types of gradients on their way, by the names of --grad_compression. For other names, they have their own.
const std::map<std::string, at::ScalarType> kCompressedTypes = {{"fp16", at::kHalf}, {"bf16", at::kBFloat16}};

// Divides a bucket before the sum, so that fp16 does not overflow, and converts the result back to the bucket's type.
class CompressedAllReduce : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  CompressedAllReduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::ScalarType type)
      : CppCommHookInterface(group), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor whole = bucket.getBufferRef();
    std::vector<at::Tensor> compressed = {whole.div(state_->getSize()).to(type_)};
    return state_->allreduce(compressed)
        ->getFuture()
        ->then(
            [whole, compressed](c10::ivalue::Future&) {
              at::Tensor target = whole;
              target.copy_(compressed.front());
              return c10::IValue(target);
            },
            c10::TensorType::get());
  }

 private:
  at::ScalarType type_;
};

[[noreturn]] void ThrowUnused(const std::vector<std::string>& names, const std::string& where) {
  constexpr size_t kShown = 5;
  std::string list = Joined(std::span(names).first(std::min(names.size(), kShown)));
  if (names.size() > kShown) list += " and " + std::to_string(names.size() - kShown) + " more";
  throw UsageError((names.size() == 1 ? "parameter " : "parameters ") + list + " got no gradient in this step" + where,
                   "every parameter must take part in the loss of every step, on every rank: use it in forward, remove "
                   "it from the model, or add its sum times 0 to the loss of the steps that do not use it");
}

// Throws StorageError unless the layout contains each parameter exactly once, as the reducer's layouts do.
void RequireLayoutFits(const BucketLayout& layout, size_t num_parameters) {
  std::vector<bool> seen(num_parameters, false);
  bool fits = true;
  for (const auto& bucket : layout) {
    fits = fits && !bucket.empty();
    for (const size_t index : bucket) {
      fits = fits && index < num_parameters && !seen[index];
      if (fits) seen[index] = true;
    }
  }
  if (fits && std::ranges::count(seen, false) == 0) return;
  throw StorageError(
      "the checkpoint's bucket_layout does not fit the model's " + std::to_string(num_parameters) + " parameters",
      "name an earlier checkpoint with --resume=PATH, or start anew with --resume=none");
}

}  // namespace

DataParallel::DataParallel(std::vector<std::pair<std::string, at::Tensor>> parameters, Communicator& communicator,
                           const DataParallelOptions& options, const BucketLayout& restored)
    : parameters_(std::move(parameters)),
      rank_(communicator.rank()),
      keeps_gradients_(options.reduces && options.accumulates) {
  if (communicator.is_alone() || !options.reduces) return;
  if (!restored.empty()) RequireLayoutFits(restored, parameters_.size());
  DefineGradients();
  const std::vector<at::Tensor> tensors = Tensors(parameters_);
  const auto cap_bytes = static_cast<int64_t>(options.bucket_cap_mb * 1024 * 1024);
  std::unordered_map<size_t, std::string> names;
  for (size_t i = 0; i < parameters_.size(); ++i) names[i] = parameters_[i].first;
  reducer_ = std::make_unique<ObservedReducer>(
      tensors, restored.empty() ? InitialLayout(tensors, cap_bytes).first : restored, communicator.group(),
      std::vector<bool>(tensors.size(), false), cap_bytes, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, names, c10d::kDefaultFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
  if (const auto type = kCompressedTypes.find(options.compression); type != kCompressedTypes.end()) {
    reducer_->register_comm_hook(std::make_unique<CompressedAllReduce>(communicator.group(), type->second));
  } else {
    reducer_->register_builtin_comm_hook(c10d::BuiltinCommHookType::ALLREDUCE);  // divides the bucket first
  }
}

DataParallel::~DataParallel() = default;

void DataParallel::DefineGradients() {
  for (auto& [name, parameter] : parameters_) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter.detach());
  }
}

void DataParallel::ZeroGradients() {
  at::NoGradGuard no_grad;
  if (!reducer_ && !keeps_gradients_) {
    // The gradients become undefined, not zero, so that the backward pass hands over its tensors instead of adding.
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
    return;
  }
  if (const auto defined = gradients(); !defined.empty()) at::_foreach_zero_(defined);
}

void DataParallel::BeforeBackward(bool reduce) {
  if (!reducer_ || !reduce) return;
  reducer_->ForgetArrivals();
  reducer_->prepare_for_forward();
  reducer_->prepare_for_backward({});
}

void DataParallel::AfterBackward() {
  RequireGradients();
  if (reducer_) reducer_->rebuild_buckets();
  if (keeps_gradients_ && std::exchange(is_first_step_, false) && !reducer_) AddZero();
}

// In the first step the gradients were undefined, so that those that are missing are found. Adding 0 turns its -0 into
// 0 as in later steps.
void DataParallel::AddZero() {
  at::NoGradGuard no_grad;
  if (const auto defined = gradients(); !defined.empty()) at::_foreach_add_(defined, 0);
}

std::vector<size_t> DataParallel::MissingGradients() const {
  if (reducer_) return reducer_->IsUnfinished() ? reducer_->NotArrived() : std::vector<size_t>{};
  std::vector<size_t> missing;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].second.grad().defined()) missing.push_back(i);
  }
  return missing;
}

void DataParallel::RequireGradients() const {
  std::vector<std::string> names;
  for (const size_t index : MissingGradients()) names.push_back(parameters_[index].first);
  if (!names.empty()) ThrowUnused(names, reducer_ ? " on rank " + std::to_string(rank_) : "");
}

void DataParallel::ReduceNow() {
  if (!reducer_) return;
  at::NoGradGuard no_grad;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> futures;
  for (auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
    futures.push_back(reducer_->run_comm_hook(bucket));
  }
  for (const auto& future : futures) future->wait();
}

std::vector<at::Tensor> DataParallel::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

void DataParallel::ReplaceGradients(const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i].second;
    parameter.mutable_grad() = gradients[i].to(parameter.scalar_type());
  }
}

std::vector<at::Tensor> DataParallel::parameters() const { return Tensors(parameters_); }

BucketLayout DataParallel::bucket_layout() const {
  BucketLayout layout;
  if (!reducer_) return layout;
  std::unordered_map<const void*, size_t> index;
  for (size_t i = 0; i < parameters_.size(); ++i) index[parameters_[i].second.unsafeGetTensorImpl()] = i;
  for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
    layout.emplace_back();
    for (const auto& parameter : bucket.getParameters())
      layout.back().push_back(index.at(parameter.unsafeGetTensorImpl()));
  }
  return layout;
}

// Autograd's engine calls the callbacks that were queued during a pass at its end, in the order of queueing. The
// reducer queues its wait with its last bucket; a hook on the loss runs at the start of the pass, so it queues earlier.
void AfterLastGradient(const at::Tensor& loss, std::function<void()> then) {
  loss.register_hook([then = std::move(then)](const at::Tensor&) {
    torch::autograd::Engine::get_default_engine().queue_callback(then);
  });
}

}  // namespace dtrain::distributed
