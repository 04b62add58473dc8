#include "trainer/tasks/timm_folder.h"

#include "models/registry.h"
#include "trainer/config/resolve.h"

namespace dtrain::loop {

nlohmann::ordered_json TimmConfig(const std::string& model, int64_t num_classes, const data::Classes& classes,
                                  const config::ImageConfig& image) {
  const int64_t side = config::EvalImageSize(image);
  const int64_t resize = image.eval_resize > 0 ? image.eval_resize : config::DefaultEvalResize(side);
  nlohmann::ordered_json trained = {
      {"architecture", model},
      {"num_classes", num_classes},
      {"input_size", {3, side, side}},
      {"interpolation", config::EvalInterpolation(image)},
      {"crop_pct", static_cast<double>(side) / static_cast<double>(resize)},
      {"crop_mode", "center"},
      {"mean", image.mean},
      {"std", image.std},
  };
  if (!classes.names.empty()) trained["label_names"] = classes.names;
  return {{"architecture", model}, {"num_classes", num_classes}, {"pretrained_cfg", trained}};
}

}  // namespace dtrain::loop
