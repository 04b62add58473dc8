// Image files go through the decoder of validation images, so that an evaluation would count the same predictions.
#include "trainer/tasks/image_kinds.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "data/formats/image_folder.h"
#include "data/image/check_images.h"
#include "data/joined.h"
#include "data/pipeline/loader.h"
#include "data/progress.h"
#include "data/storage.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/config/batch_sizes.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/predictions.h"
#include "trainer/tasks/task_kind.h"
#include "trainer/weights/foreign_network.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::tasks {
namespace {

// Splits --input at its commas, unless the whole text is the path of something that exists.
std::vector<std::string> InputPaths(const std::string& input) {
  if (data::Exists(input)) return {input};
  std::vector<std::string> paths;
  std::istringstream parts(input);
  for (std::string part; std::getline(parts, part, ',');) {
    if (!part.empty()) paths.push_back(part);
  }
  return paths;
}

// The reasons why files could not be read, by index. Loader threads add to it.
class Reasons {
 public:
  data::QuarantineOptions Options() {
    return {.split = "input", .max_bad_records = 1, .on_bad_record = [this](const data::BadRecord& bad) {
              const std::lock_guard lock(mutex_);
              reasons_[bad.index] = bad.reason;
            }};
  }
  std::string Of(int64_t index) {
    const std::lock_guard lock(mutex_);
    return reasons_[index];
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::string> reasons_;
};

// Returns the tensor `images` of the file, float32 N×3×H×W. Throws UsageError if there is no file, else DataError.
at::Tensor ReadImages(const std::string& path) {
  if (!data::IsFile(path)) {
    throw UsageError("--input=" + path + " is not a file",
                     "name a safetensors file with the tensor images; for images, --output=" + data::TableFiles());
  }
  for (const auto& [name, tensor] : checkpoint::ReadSafetensors(path).tensors) {
    if (name != "images") continue;
    if (tensor.scalar_type() == at::kFloat && tensor.dim() == 4 && tensor.size(1) == 3 && tensor.size(0) > 0)
      return tensor;
    throw DataError("images in " + path + " is not float32 N×3×H×W", "normalise the images and store them as float32");
  }
  throw DataError("no tensor images in " + path, "store the images under that name: float32 N×3×H×W, normalised");
}

std::unique_ptr<ImageTask> TrainedTask(const config::Config& config, const weights::TrainedWeights& weights,
                                       at::Device device) {
  std::unique_ptr<Task> task = KindOf(config).MakeInferenceTask(config, weights, {}, device);
  task->module().eval();
  return std::unique_ptr<ImageTask>(&dynamic_cast<ImageTask&>(*task.release()));
}

class Predictor {
 public:
  Predictor(const config::Config& config, at::Device device, const weights::TrainedWeights& weights)
      : config_(config),
        files_(InputPaths(config.run.input)),
        task_(TrainedTask(config, weights, device)),
        table_(config, {"file"}, OutcomeOf(config, weights::NumClassesFor(config, weights)),
               KindOf(config).ClassesOf(config, weights).names) {
    if (const std::string ignored = data::ToText(files_.ignored()); !ignored.empty()) report::LogInfo(ignored);
    if (config.image.exif_orientation) return;
    const std::string turned = data::SayTurned(files_, "--input");
    if (!turned.empty()) report::LogWarning(turned);
  }

  // Writes --output or --features, and returns as PredictionTable::Write does. Throws DataError if none of the images
  // can be read.
  int64_t Write() {
    const std::string& features = config_.run.features;
    const auto run = [this](const AppendSample& append) { Run(append); };
    if (features.empty()) return table_.Write(run);
    return WriteFeatures(features, files_.size(), task_->NumFeatures(), {"file"}, run);
  }

  int64_t readable() const { return readable_; }
  int64_t unreadable() const { return files_.size() - readable_; }

 private:
  // Gives `append` the result of each file, in their order.
  void Run(const AppendSample& append) {
    const at::NoGradGuard no_grad;
    const int64_t batch_size = config::ResolveBatch(config_.batch, 1).batch_size;
    const auto decoder = MakeEvaluationDecoder(config_);
    data::Quarantine quarantine(files_.size(), reasons_.Options());
    const auto provider = [&](int64_t number) -> std::optional<std::vector<data::SampleRef>> {
      std::vector<data::SampleRef> samples;
      const int64_t end = std::min(files_.size(), (number + 1) * batch_size);
      for (int64_t i = number * batch_size; i < end; ++i) samples.push_back({.index = i});
      return samples.empty() ? std::nullopt : std::optional(std::move(samples));
    };
    data::Loader loader(files_, *decoder, provider,
                        {.decode_threads = config_.data.workers,
                         .prefetch_batches = config_.data.prefetch_batches,
                         .bad_records = data::BadRecordPolicy::kLeaveOut},
                        &quarantine);
    data::Progress progress("predicting " + config_.run.input, "images", files_.size());
    int64_t shown = 0;
    const auto show = [&] { progress.Add(next_ - std::exchange(shown, next_), /*bytes=*/0); };
    while (const auto batch = loader.Next()) {
      GiveResults(*batch, append);
      show();
    }
    GiveUnreadable(files_.size(), append);
    show();
    if (readable_ > 0) return;
    throw DataError(
        "--input=" + config_.run.input + " holds no file that can be read as an image (" +
            CountOf(unreadable(), "file") + " tried); the first is " + files_.Place(0).file + ": " + reasons_.Of(0),
        "for a folder of images, dtrain_data verify shows what is wrong with each file; a safetensors file needs "
        "--output=FILE.safetensors");
  }

  void GiveResults(const data::Batch& batch, const AppendSample& append) {
    if (batch.size() == 0) return;
    const at::Tensor& images = batch["images"];
    const at::Tensor values_NC = (config_.run.features.empty() ? task_->Logits(images) : task_->Features(images)).cpu();
    for (int64_t row = 0; row < batch.size(); ++row) {
      const int64_t index = batch["index"][row].item<int64_t>();
      GiveUnreadable(index, append);
      append({.inputs = {files_.Place(index).file}, .values_C = values_NC[row]});
      ++next_;
      ++readable_;
    }
  }

  // Gives the files before `index` that have no result yet: they could not be read.
  void GiveUnreadable(int64_t index, const AppendSample& append) {
    for (; next_ < index; ++next_) append({.inputs = {files_.Place(next_).file}, .error = reasons_.Of(next_)});
  }

  const config::Config& config_;
  const data::ImageFiles files_;
  const std::unique_ptr<ImageTask> task_;
  const PredictionTable table_;
  Reasons reasons_;
  int64_t next_ = 0;  // index of the file whose result comes next
  int64_t readable_ = 0;
};

void PredictPixels(const config::Config& config, at::Device device) {
  const at::Tensor images = ReadImages(config.run.input);
  weights::RequireImageSize(config, images.size(2), images.size(3));
  const weights::TrainedWeights weights = WeightsToPredict(config);
  const auto task = TrainedTask(config, weights, device);

  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> logits;
  for (const at::Tensor& chunk : images.split(config::ResolveBatch(config.batch, 1).batch_size)) {
    logits.push_back(task->Logits(chunk).cpu());
  }
  WriteLogits(config.run.output, at::cat(logits), &weights.classes);
}

}  // namespace

void PredictImages(const config::Config& config, at::Device device) {
  if (WantsTensors(config)) return PredictPixels(config, device);
  const int64_t side = config::EvalImageSize(config.image);
  weights::RequireImageSize(config, side, side);
  const weights::TrainedWeights weights = WeightsToPredict(config);
  Predictor predictor(config, device, weights);
  const int64_t not_finite = predictor.Write();
  if (predictor.unreadable() > 0) {
    const std::string& features = config.run.features;
    report::LogWarning(CountOf(predictor.unreadable(), "file") + " could not be read; the reasons are in " +
                       (features.empty() ? config.run.output : RowNamesFile(features) + ", and their rows are NaN"));
  }
  PrintCounts(config, predictor.readable() - not_finite, predictor.unreadable(), not_finite);
}

}  // namespace dtrain::tasks
