// What the tasks of images have in common around their training (task_kind.h). They differ in their labels
// (data::LabelKind) and in their Task (image_task.h).
#pragma once

#include <memory>
#include <utility>

#include "data/record_source.h"
#include "models/image_model.h"
#include "trainer/tasks/image_task.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::tasks {

// Makes the Task of a model. `sizes` are those of the model, with names and scale of the outputs as far as they are
// known.
using ImageTaskMaker = std::unique_ptr<ImageTask> (*)(std::shared_ptr<models::ImageModel> model, const DataSizes& sizes,
                                                      const config::Config& config, at::Device device);
std::unique_ptr<const TaskKind> MakeImageKind(const char* name, data::LabelKind labels, ImageTaskMaker make);

// Returns the one kind of such tasks.
template <typename TaskType>
const TaskKind& ImageKindOf(const char* name, data::LabelKind labels) {
  static const auto kind = MakeImageKind(
      name, labels,
      [](std::shared_ptr<models::ImageModel> model, const DataSizes& sizes, const config::Config& config,
         at::Device device) {
        return std::unique_ptr<ImageTask>(std::make_unique<TaskType>(std::move(model), sizes, config, device));
      });
  return *kind;
}

// TaskKind::OpenData for images of any labels. --num_classes overrides the number of classes of the data.
DataSets OpenImageSets(const config::Config& config, const data::Classes& known, data::SharedIndexes* indexes);

// Makes the decoder of validation images, which are resized and cropped in the middle, for image files.
std::unique_ptr<data::SampleDecoder> MakeEvaluationDecoder(const config::Config& config);

// --mode=predict. For image files: writes a table with the likeliest classes of each image, with its labels or numbers
// (prediction_table.h), or --features. A file that cannot be read gets a line with the reason; a warning gives their
// number. Throws DataError if --input holds no image, or none that can be read. For a safetensors file with the tensor
// `images` (float32 N×3×H×W, normalised), if --output is no table: writes `logits` (float32 N×outputs; numbers in the
// labels' unit). Throws UsageError if --input is not a file, DataError if its tensors do not fit.
void PredictImages(const config::Config& config, at::Device device);

}  // namespace dtrain::tasks
