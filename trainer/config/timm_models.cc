#include "trainer/config/timm_models.h"

#include <algorithm>
#include <array>

namespace dtrain::config {
namespace {

constexpr TimmModelDefaults kResNet = {"resnet", "", 224, 0.95};
constexpr auto kModels = std::to_array<TimmModelDefaults>({{"efficientnet_", "b0", 224, 0.875},
                                                           {"efficientnet_", "b1", 240, 0.9, true},
                                                           {"efficientnet_", "b2", 256, 0.875},
                                                           {"efficientnet_", "b3", 288, 0.875},
                                                           {"efficientnet_", "b4", 320, 0.875},
                                                           {"efficientnet_", "b5", 448, 1.0},  // squashed, cropped here
                                                           {"efficientnet_", "b6", 528, 0.942},
                                                           {"efficientnet_", "b7", 600, 0.949},
                                                           {"tf_efficientnet_", "b0", 224, 0.875},
                                                           {"tf_efficientnet_", "b1", 240, 0.882},
                                                           {"tf_efficientnet_", "b2", 260, 0.890},
                                                           {"tf_efficientnet_", "b3", 300, 0.904},
                                                           {"tf_efficientnet_", "b4", 380, 0.922},
                                                           {"tf_efficientnet_", "b5", 456, 0.934},
                                                           {"tf_efficientnet_", "b6", 528, 0.942},
                                                           {"tf_efficientnet_", "b7", 600, 0.949},
                                                           {"efficientnetv2_", "s", 288, 1.0},
                                                           {"efficientnetv2_", "m", 320, 1.0},
                                                           {"efficientnetv2_", "l", 384, 1.0},
                                                           {"tf_efficientnetv2_", "s", 300, 1.0, true},
                                                           {"tf_efficientnetv2_", "", 384, 1.0, true},  // likewise
                                                           {"vit_", "dinov2", 518, 1.0},
                                                           {"vit_", "_gap_240", 240, 0.95, true},
                                                           {"vit_", "_gap_256", 256, 0.95, true},
                                                           {"vit_", "_gap_384", 384, 0.95, true},  // likewise
                                                           {"vit_", "_384", 384, 1.0, true},
                                                           {"vit_", "_224", 224, 0.9, true},
                                                           {"deit", "_384", 384, 1.0},
                                                           {"deit", "_224", 224, 0.9},
                                                           {"convnext_", "nano", 224, 0.95},
                                                           {"convnext_", "tiny", 224, 0.95},
                                                           {"convnext_", "small", 224, 0.95},
                                                           {"convnextv2_", "huge", 384, 1.0},  // likewise
                                                           {"convnext", "", 224, 0.875}});

}  // namespace

const TimmModelDefaults& TimmModelOf(const std::string& model) {
  const auto* const found = std::ranges::find_if(kModels, [&](const TimmModelDefaults& one) {
    return model.starts_with(one.begins) && model.ends_with(one.ends);
  });
  return found == kModels.end() ? kResNet : *found;
}

}  // namespace dtrain::config
