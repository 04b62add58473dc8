// The reducer settles on its bucket layout after the first backward pass, in the order in which gradients arrived. Here
// that happens at the end of the first step, not at the start of the second, so that every checkpoint holds the layout
// that the next step uses.
#include "trainer/distributed/data_parallel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "trainer/errors.h"

namespace dtrain::distributed {

// A reducer that gradients are missing in waits for them without a word; the next step's complaint has their numbers.
// What it knows is asked for here, at the end of the step: a flag, and the times at which gradients arrived.
class ObservedReducer : public c10d::Reducer {
 public:
  using Reducer::Reducer;

  void ForgetArrivals() { std::fill(backward_stats_.begin(), backward_stats_.end(), 0); }

  // Whether a gradient arrived in this backward pass, but not all did.
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

// As DistributedDataParallel starts: a small first bucket, so that reducing begins early; both results reversed, since
// gradients arrive from the last layer to the first.
std::pair<BucketLayout, std::vector<size_t>> InitialLayout(const std::vector<at::Tensor>& tensors, size_t cap_bytes) {
  auto [layout, limits] = c10d::compute_bucket_assignment_by_size(tensors, {c10d::kDefaultFirstBucketBytes, cap_bytes});
  std::reverse(layout.begin(), layout.end());
  return {layout, limits};
}

// A bucket is divided first, so that fp16 does not overflow in the sum, and comes back in its own type.
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

[[noreturn]] void ThrowUnused(const std::vector<std::string>& names, const std::string& on_whom) {
  constexpr size_t kShown = 5;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) list += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) list += " and " + std::to_string(names.size() - kShown) + " more";
  throw UsageError(
      (names.size() == 1 ? "parameter " : "parameters ") + list + " got no gradient in this step" + on_whom,
      "every parameter must take part in the loss of every step, on every rank: use it in forward, remove it from the "
      "model, or add its sum times 0 to the loss of the steps that do without it");
}

}  // namespace

DataParallel::DataParallel(std::vector<std::pair<std::string, at::Tensor>> parameters, Communicator& communicator,
                           double bucket_cap_mb, const BucketLayout& restored, const std::string& compression)
    : parameters_(std::move(parameters)), rank_(communicator.rank()), world_size_(communicator.world_size()) {
  if (communicator.is_alone()) return;
  const std::vector<at::Tensor> tensors = Tensors(parameters_);
  const auto cap_bytes = static_cast<int64_t>(bucket_cap_mb * 1024 * 1024);
  std::unordered_map<size_t, std::string> names;
  for (size_t i = 0; i < parameters_.size(); ++i) names[i] = parameters_[i].first;
  reducer_ = std::make_unique<ObservedReducer>(
      tensors, restored.empty() ? InitialLayout(tensors, cap_bytes).first : restored, communicator.group(),
      std::vector<bool>(tensors.size(), false), cap_bytes, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, names, c10d::kDefaultFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
  is_compressed_ = compression != "none";
  if (!is_compressed_) return;
  const at::ScalarType type = compression == "fp16" ? at::kHalf : at::kBFloat16;
  reducer_->register_comm_hook(std::make_unique<CompressedAllReduce>(communicator.group(), type));
}

DataParallel::~DataParallel() = default;

void DataParallel::ZeroGradients() {
  at::NoGradGuard no_grad;
  if (!reducer_) {
    // Undefined rather than zero: the backward pass then hands its own tensor over instead of adding to one.
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
    return;
  }
  std::vector<at::Tensor> defined;
  for (auto& gradient : gradients()) {
    if (gradient.defined()) defined.push_back(gradient);
  }
  if (!defined.empty()) at::_foreach_zero_(defined);
}

void DataParallel::BeforeForward() {
  if (reducer_) reducer_->prepare_for_forward();
}

void DataParallel::BeforeBackward(bool reduce) {
  if (!reducer_ || !reduce) return;
  reducer_->ForgetArrivals();
  reducer_->prepare_for_backward({});
}

void DataParallel::AfterBackward() {
  RequireAllGradients();
  if (reducer_) reducer_->rebuild_buckets();
}

void DataParallel::RequireAllGradients() const {
  std::vector<std::string> names;
  if (reducer_) {
    if (!reducer_->IsUnfinished()) return;
    for (const size_t index : reducer_->NotArrived()) names.push_back(parameters_[index].first);
    ThrowUnused(names, " on rank " + std::to_string(rank_));
  }
  for (const auto& [name, parameter] : parameters_) {
    if (!parameter.grad().defined()) names.push_back(name);
  }
  if (!names.empty()) ThrowUnused(names, "");
}

void DataParallel::ReduceNow() {
  if (!reducer_) return;
  at::NoGradGuard no_grad;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> futures;
  for (auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
    if (!is_compressed_) bucket.getBufferRef().div_(world_size_);  // what the reducer does as gradients arrive
    futures.push_back(reducer_->run_comm_hook(bucket));
  }
  for (const auto& future : futures) future->wait();
}

std::vector<at::Tensor> DataParallel::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters_) gradients.push_back(parameter.grad());
  return gradients;
}

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

}  // namespace dtrain::distributed
