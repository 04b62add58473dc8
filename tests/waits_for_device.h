// Lists the operators of torch that would make the host wait if their tensors were on a GPU, because their result
// decides a shape or becomes a number on the host. For tests that compute on the CPU.
#pragma once

#include <ATen/record_function.h>

#include <set>
#include <string>
#include <vector>

namespace dtrain {

class WaitsForDevice {
 public:
  WaitsForDevice() {
    Names().clear();
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Note).scopes({at::RecordScope::FUNCTION}));
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
    return nullptr;
  }

  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace dtrain
