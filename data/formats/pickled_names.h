// The names of Python's modules that a pickle of weights may ask for: all that torch.load's safe mode takes and weights
// have, and what training programs keep beside them.
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
// The command line of timm's and torchvision's training scripts: attributes, which are not looked at.
inline constexpr std::string_view kNamespace = "argparse.Namespace";

// The name itself, for ever; nullopt where it is not known.
std::optional<std::string_view> KnownPickledName(std::string_view name);

// "torch.FloatStorage" → F32; nullopt where the name is not a storage's.
std::optional<std::string_view> DtypeOfStorage(std::string_view name);

}  // namespace dtrain::data
