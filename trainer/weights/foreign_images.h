// How models of other programs see images, which files beside their weights tell.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trainer/config/config.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {

// Adds flags' values by their names, to a model's name and image_size: of timm's config.json the normalisation and the
// size; of the preprocessor_config.json of transformers, too, as its image processors crop, though none squeezes a
// rectangle into a square here. Throws UsageError if a file is damaged, makes pixels of another scale while --mean and
// --std are not given, or (`requires_same`) makes other images than can be made here.
void AddForeignImageSettings(const WeightsPlace& place, const config::Config& config, bool requires_same,
                             nlohmann::json& settings);

}  // namespace dtrain::weights
