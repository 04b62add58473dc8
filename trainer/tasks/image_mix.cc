// Neither shapes nor branches depend on what was drawn: mixup blends every batch, where CutMix was drawn with the
// shares 1 and 0, and CutMix replaces a box in every batch, where mixup was drawn an empty one.
#include "trainer/tasks/image_mix.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trainer/optim/lr_schedule.h"

namespace dtrain::tasks {
namespace {

// Names of the tensors of a batch, and what their elements are. Shares are float32, places in pixels int64.
constexpr char kMixShares[] = "mix_shares", kMixBox[] = "mix_box";
enum Share { kOwnLabel, kOtherLabel, kOwnPixels, kOtherPixels };
enum Edge { kTop, kBottom, kLeft, kRight };

// Returns bool H×W: the pixels within the box.
at::Tensor Inside(const at::Tensor& box, int64_t height, int64_t width) {
  const auto within = [&box](int64_t length, Edge first, Edge end) {
    const at::Tensor places = at::arange(length, box.options());
    return places.ge(box[first]).logical_and(places.lt(box[end]));
  };
  return within(height, kTop, kBottom).unsqueeze(1).logical_and(within(width, kLeft, kRight).unsqueeze(0));
}

// The share has as many dimensions as the images, so that the product is float32: a scalar would be rounded to their
// type. Product and sum are rounded to it together.
at::Tensor Blended(const at::Tensor& images, const at::Tensor& others, const at::Tensor& shares) {
  const auto share = [&shares](Share which) { return shares.slice(0, which, which + 1).view({1, 1, 1, 1}); };
  return (images * share(kOwnPixels) + others * share(kOtherPixels)).to(images.scalar_type());
}

// Returns how many steps mix.
int64_t MixingSteps(const config::Config& config, int64_t samples) {
  const double batch = static_cast<double>(config.batch.global_batch_size.value_or(0)),
               epochs = config.image.mix_epochs;
  if (epochs == 0 || batch == 0 || samples == 0) return std::numeric_limits<int64_t>::max();
  const double steps = static_cast<double>(samples) / batch;
  return std::llround(optim::NextWhole(epochs * (config.data.last_batch == "drop" ? std::floor(steps) : steps)));
}

data::ImageSize SizeOf(const at::Tensor& images) {
  const bool interleaved = images.scalar_type() == at::kByte;  // N×H×W×3, otherwise N×3×H×W
  return {static_cast<int>(images.size(interleaved ? 2 : 3)), static_cast<int>(images.size(interleaved ? 1 : 2))};
}

}  // namespace

data::MixOptions MixOptionsOf(const config::ImageConfig& image) {
  return {image.mixup, image.cutmix, image.mix_prob, image.mix_switch_prob};
}

std::function<void(data::Batch& batch)> MixBatches(const config::Config& config, int64_t samples) {
  const data::MixOptions options = MixOptionsOf(config.image);
  if (!options.enabled()) return nullptr;
  return [options, steps = MixingSteps(config, samples), seed = config.batch.seed,
          shards = config.batch.elastic_shards](data::Batch& batch) {
    const data::StepPart& part = batch.part;
    if (part.step >= steps) return AddMix(batch, {});
    data::RandomKey key = {.seed = seed, .sample = batch.number, .repeat = part.shard};
    if (shards) {
      key.sample = part.step * *shards + part.shard;
      key.repeat = 0;
    }
    key.stream = data::RandomStream::kMix;
    data::RandomGenerator random(key);
    AddMix(batch, data::DrawMix(options, SizeOf(batch["images"]), random));
  };
}

void AddMix(data::Batch& batch, const data::Mix& mix) {
  const data::CropBox& box = mix.box;
  const bool cuts = box != data::CropBox{};
  const auto share = static_cast<float>(mix.own_share), rest = static_cast<float>(1 - mix.own_share);
  const std::vector<float> shares = {share, rest, cuts ? 1 : share, cuts ? 0 : rest};
  const std::vector<int64_t> edges = {box.y, box.y + box.height, box.x, box.x + box.width};
  batch.tensors[kMixShares] = at::tensor(shares, at::kFloat);
  batch.tensors[kMixBox] = at::tensor(edges, at::kLong);
}

at::Tensor MixedImages(const at::Tensor& images, const data::Batch& batch, const data::MixOptions& options) {
  // This is images.roll(1, 0), which a GPU would return in another memory format.
  const at::Tensor others = at::cat({images.slice(0, images.size(0) - 1), images.slice(0, 0, images.size(0) - 1)});
  at::Tensor mixed = images;
  if (options.mixup > 0) mixed = Blended(images, others, batch[kMixShares]);
  if (options.cutmix > 0) mixed = at::where(Inside(batch[kMixBox], images.size(2), images.size(3)), others, mixed);
  return mixed;
}

std::pair<at::Tensor, at::Tensor> LabelShares(const data::Batch& batch) {
  const at::Tensor& shares = batch[kMixShares];
  return {shares[kOwnLabel], shares[kOtherLabel]};
}

}  // namespace dtrain::tasks
