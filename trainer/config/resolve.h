// Fills in the values that follow from others, so that --print_config and config.json show what a run really uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/config/config.h"

namespace dtrain::config {

// The folder of the runs that --run_dir does not name.
inline constexpr char kRuns[] = "runs";

// Whether the mode is one rank's, whatever a training's command says of ranks and of the batch that they share.
bool IsOfOneRank(const RunConfig& run);

// The factor by which --lr is multiplied for this global batch, from --lr_base_batch and --lr_scaling; 1 without them.
double LearningRateFactor(const OptimizerConfig& optimizer, int64_t global_batch_size);

// Returns the decay of the average of the weights, after --ema_scaling; 0: there is none.
double EmaDecay(const OptimizerConfig& optimizer, double epochs, int64_t global_batch_size);

// The names in --val_split. The first one decides.
std::vector<std::string> ValSplits(const DataConfig& data);
// Whether one was named; whoever gives the default, as --print_config does, names none.
bool NamesValSplit(const Config& config);

// Returns I and K of --val_fold=I/K; empty unless 1 ≤ I ≤ K and K is 2 to 1000.
std::optional<std::pair<int64_t, int64_t>> ParseFold(const std::string& text);

// The side of the images that the model is evaluated with, in pixels.
int64_t EvalImageSize(const ImageConfig& image);

// The filter that they are resized with: bilinear | bicubic.
std::string EvalInterpolation(const ImageConfig& image);

// The short side, in pixels, if --eval_resize was not given.
int64_t DefaultEvalResize(int64_t image_size);

// Fills in what depends on the device. --precision=amp, which other programs' --amp means, becomes fp16 on a GPU, and
// bf16 on a CPU, where fp16 would spend its first steps on finding a loss scale; --unpad, unless it was given, is set
// for sentences on a CPU, where it is faster. Returns a sentence for people on amp on a CPU, otherwise nothing. Called
// when --task is known, before the checks, which know no amp.
std::string ResolveForDevice(Config& config, bool has_gpu);

// Fills in the batch sizes and --elastic_shards, --lr, --eval_resize and what the optimizer sets where they were not
// given, and the precision that --memory_efficient_fp16 implies. Called on a configuration without problems, and again
// when a run that goes on has taken its batch sizes.
void Resolve(Config& config, int world_size);

// A range of training steps, such as "10:12"; both ends are included and count from 1.
struct StepRange {
  int64_t first = 0;
  int64_t last = 0;
  bool operator==(const StepRange&) const = default;
};

// Returns empty unless `text` is two whole numbers with a colon between them, 1 ≤ first ≤ last.
std::optional<StepRange> ParseStepRange(const std::string& text);

}  // namespace dtrain::config
