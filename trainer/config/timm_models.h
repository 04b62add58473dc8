// What timm's default_cfg of models says where ours differs (timm/models, release 1.0.22); its train.py evaluates with
// it.
#pragma once

#include <string>
#include <string_view>

namespace dtrain::config {

struct TimmModelDefaults {
  std::string_view begins, ends;  // the name
  int image_size;
  double crop_pct;                 // part of the resized short side that evaluation crops
  bool has_plain_numbers = false;  // a mean and a standard deviation of 0.5
};

// Returns those of a model; of an unknown one, a ResNet's.
const TimmModelDefaults& TimmModelOf(const std::string& model);

}  // namespace dtrain::config
