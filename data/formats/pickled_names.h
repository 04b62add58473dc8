// The names in Python modules that a pickle of weights may use: those that torch.load's safe mode accepts and weights
// have, and those that training programs save beside them.
#pragma once

#include <optional>
#include <string_view>

namespace dtrain::data {

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict";
inline constexpr std::string_view kRebuildTensor1 = "torch._utils._rebuild_tensor";
inline constexpr std::string_view kRebuildTensor2 = "torch._utils._rebuild_tensor_v2";
inline constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
inline constexpr std::string_view kSize = "torch.Size";
inline constexpr std::string_view kDevice = "torch.device";
// Holds the command line in files of timm's and torchvision's training scripts. Its attributes are ignored.
inline constexpr std::string_view kNamespace = "argparse.Namespace";

// Returns the same name with static lifetime; empty if it is not known.
std::optional<std::string_view> KnownPickledName(std::string_view name);

// Returns the dtype of a storage in safetensors' notation ("torch.FloatStorage" → F32); empty if the name is not that
// of a storage.
std::optional<std::string_view> DtypeOfStorage(std::string_view name);

}  // namespace dtrain::data
