// Lists the operators of torch that would make the host wait if their tensors were on a GPU, because their result
// decides a shape or becomes a number on the host, and those that would fail there, because they read a tensor that has
// stayed on the host. For tests that compute on the CPU.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/pipeline/batch.h"

namespace dtrain {

class WaitsForDevice {
 public:
  // `host` is the batch of the step before data::CopyToDevice, which copies all that a device computes with.
  explicit WaitsForDevice(const data::Batch& host = {}) {
    Names().clear();
    OnHost().clear();
    for (const auto& [name, tensor] : host.tensors) OnHost()[tensor.storage().unsafeGetStorageImpl()] = name;
    for (const auto& [name, tensor] : host.on_host) OnHost()[tensor.storage().unsafeGetStorageImpl()] = name;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&Note).scopes({at::RecordScope::FUNCTION}).needsInputs(true));
  }
  ~WaitsForDevice() { at::removeCallback(handle_); }
  WaitsForDevice(const WaitsForDevice&) = delete;
  WaitsForDevice& operator=(const WaitsForDevice&) = delete;

  // The operators that this thread has called so far.
  const std::vector<std::string>& operators() const { return Names(); }

 private:
  static std::vector<std::string>& Names() {
    thread_local std::vector<std::string> names;
    return names;
  }
  // The names of tensors that stay on the host, by their storage.
  static std::map<const void*, std::string>& OnHost() {
    thread_local std::map<const void*, std::string> names;
    return names;
  }
  static std::unique_ptr<at::ObserverContext> Note(const at::RecordFunction& function) {
    static const std::set<std::string> waiting = {"aten::item",
                                                  "aten::_local_scalar_dense",
                                                  "aten::nonzero",
                                                  "aten::is_nonzero",
                                                  "aten::equal",
                                                  "aten::masked_select",
                                                  "aten::unique",
                                                  "aten::_unique2",
                                                  "aten::repeat_interleave"};
    if (waiting.contains(function.name())) Names().emplace_back(function.name());
    for (const c10::IValue& input : function.inputs()) {
      input.visit([&](const c10::IValue& part) {
        if (part.isTensor()) NoteIfOnHost(function.name(), part.toTensor());
        return false;  // visits the tensors of a list, too
      });
    }
    return nullptr;
  }
  static void NoteIfOnHost(const std::string& function, const at::Tensor& input) {
    if (!input.has_storage()) return;
    const auto found = OnHost().find(input.storage().unsafeGetStorageImpl());
    if (found != OnHost().end()) Names().push_back(function + " of " + found->second);
  }

  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace dtrain
