// MXNet's example/image-classification/train_imagenet.py (1.9.1): what its common/fit.py, common/data.py and symbols/
// make of a command, and ImageRecordIter (src/io/image_aug_default.cc) of its images. By default these are the centre
// of each image as it is, without mirroring or jitter.
#include <algorithm>
#include <cmath>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

bool IsBenchmark(const ForeignCommand& command) { return command.Number({"benchmark"}, 0) != 0; }

Translation Network(const std::string& value, const ForeignCommand& command) {
  const std::string layers = command.Value({"num_layers"}, "50");
  const std::vector<std::string> known = {"18", "34", "50", "101", "152"};
  if (std::ranges::find(known, layers) == known.end() || !value.starts_with("resnet")) {
    return {.refused = "of its networks there are resnet and resnet-v1 of 18, 34, 50, 101 and 152 layers"};
  }
  if (value == "resnet") return {{"--model=resnet" + layers + "_v2"}};
  if (value != "resnet-v1" || !IsBenchmark(command)) return {.refused = "with data, there is resnet alone"};
  return {{"--model=resnet" + layers + (layers.size() > 2 || layers == "50" ? "_v1" : ""), "--bn_eps=2e-05"}};
}

double WholeBatchOf(const ForeignCommand& command) { return std::max(1.0, command.Number({"batch_size"}, 128)); }
double ExamplesOf(const ForeignCommand& command) { return std::max(1.0, command.Number({"num_examples"}, 1'281'167)); }

int64_t GpusOf(const ForeignCommand& command) {
  const std::string gpus = command.Value({"gpus"}, "");
  return 1 + std::ranges::count(gpus, ',');
}

// Its processes share their batch among their GPUs.
Translation BatchOfMxnet(const std::string& value, const ForeignCommand& command) {
  const double share = NumberFrom(value).value_or(0.5) / static_cast<double>(GpusOf(command));
  if (share != std::floor(share)) return {.refused = "--gpus must share it evenly"};
  return {{"--batch_size=" + ToText(share)}};
}

Translation GpusByIndex(const std::string& value, const ForeignCommand& command) {
  if (value.empty()) return {{"--backend=gloo"}};
  if (value.find_first_not_of("0123456789,") != std::string::npos) return {.refused = "expected indices of GPUs"};
  const Translation batch = BatchOfMxnet(command.Value({"batch_size"}, "128"), command);
  if (!batch.refused.empty()) return {.refused = "they cannot share --batch-size evenly"};
  Translation gpus = {.note = "CUDA_VISIBLE_DEVICES chooses among the GPUs"};
  if (GpusOf(command) > 1) gpus.flags = {"--nproc_per_node=" + std::to_string(GpusOf(command))};
  return gpus;
}

// Gradients of half precision are sums over a GPU's batch there; they are divided in the update, in float32.
Translation TypeOfNumbers(const std::string& value, const ForeignCommand& command) {
  if (value == "float32") return {};
  if (value != "float16") return {.refused = "expected float32 or float16"};
  return {{"--precision=fp16", "--loss_scale=" + ToText(WholeBatchOf(command) / static_cast<double>(GpusOf(command)))}};
}

Translation EpochsOfMxnet(const std::string& value, const ForeignCommand& command) {
  const auto epochs = NumberFrom(value);
  if (!epochs) return {.refused = "expected a number"};
  if (!IsBenchmark(command)) return {{"--epochs=" + value}};
  const double steps = std::floor(ExamplesOf(command) / WholeBatchOf(command));
  return {{"--max_steps=" + ToText(*epochs * steps), "--epochs=1000000"}};
}

// The rate falls after whole numbers of steps, of which an epoch has as many as begin in it. A single epoch would be a
// period here.
Translation Milestones(const std::string& value, const ForeignCommand& command) {
  const double steps = std::ceil(ExamplesOf(command) / WholeBatchOf(command));
  auto epochs = NumberListFrom(value);
  if (!epochs) return {.refused = "expected epochs with commas between them; a power of its own has no equivalent"};
  for (double& epoch : *epochs) epoch = epoch * steps * WholeBatchOf(command) / ExamplesOf(command);
  if (epochs->size() == 1) epochs->push_back(1'000'000);
  return {{"--lr_decay_epochs=" + ToText(*epochs)}};
}

Translation FactorOfMxnet(const std::string& value, const ForeignCommand&) {
  return {{"--lr_decay_factor=" + (NumberFrom(value).value_or(0) >= 1 ? "1" : value)}};
}

Translation ImageShape(const std::string& value, const ForeignCommand&) {
  const size_t first = value.find(','), last = value.rfind(',');
  if (!value.starts_with("3,") || first == last ||
      value.substr(first + 1, last - first - 1) != value.substr(last + 1)) {
    return {.refused = "expected 3,SIDE,SIDE"};
  }
  if (NumberFrom(value.substr(last + 1)).value_or(0) <= 32) {
    return {.refused = "for images of 32 pixels a side and less, its networks begin otherwise"};
  }
  return {{"--image_size=" + value.substr(last + 1)}};
}

Translation Layers(const std::string& value, const ForeignCommand& command) {
  if (!Network("resnet", command).flags.empty()) return {};
  return {.refused = "no network of " + value + " layers is here; there are 18, 34, 50, 101 and 152"};
}

// Ours, --mean and --std, are of images scaled to 0 to 1.
template <const char* flag>
Translation OfLevels(const std::string& value, const ForeignCommand&) {
  auto parts = NumberListFrom(value);
  if (!parts) return {.refused = "expected numbers"};
  for (double& part : *parts) part /= 255;
  return {{flag + ToText(*parts)}};
}
constexpr char kMean[] = "--mean=", kStd[] = "--std=";

Translation OneOfSeveral(const std::string& value, const ForeignCommand&) {
  return NumberFrom(value) ? Translation() : Translation{.refused = "expected a number"};
}

// --benchmark 1 ignores data. A split has all files whose names go on after its own, by a digit or a sign.
template <Translator of_split>
Translation Split(const std::string& path, const ForeignCommand& command) {
  if (IsBenchmark(command)) return {.note = "--benchmark 1 does not read it"};
  const std::string train = command.Value({"data_train"}, path), val = command.Value({"data_val"}, path);
  const auto begins = [](const std::string& one, const std::string& other) {
    return one != other && one.ends_with(".rec") && other.starts_with(one.substr(0, one.size() - 4));
  };
  if (begins(train, val) || begins(val, train)) {
    return {.refused = "the name of one file begins with that of the other: rename it"};
  }
  return of_split(path, command);
}

std::vector<std::string> DefaultsOfMxnet(const ForeignCommand& command) {
  std::vector<std::string> flags;
  const auto add = [&](const char* name, Translator translate, const std::string& value) {
    if (command.Has({name})) return;
    const Translation translation = translate(value, command);
    flags.insert(flags.end(), translation.flags.begin(), translation.flags.end());
  };
  add("network", Network, "resnet");
  add("batch_size", BatchOfMxnet, "128");
  add("num_epochs", EpochsOfMxnet, "80");
  add("lr_step_epochs", Milestones, "30,60");
  AddFlags("--lr=0.1 --lr_schedule=step --log_interval=20", flags);
  if (IsBenchmark(command)) {
    AddFlags("--data_format=synthetic --eval_every_epochs=0 --save_every_epochs=0", flags);
    return flags;
  }
  add("rgb_mean", OfLevels<kMean>, "123.68,116.779,103.939");
  add("rgb_std", OfLevels<kStd>, "1,1,1");
  AddFlags(
      "--num_classes=1000 --label_offset=0 --crop=native_centre --hflip=0 --lr_in_momentum=true --decay_bias=false",
      flags);
  if (command.Has({"data_train"}) && !command.Has({"data_val"})) flags.emplace_back("--eval_every_epochs=0");
  const auto of = [&](const char* name, double otherwise) { return command.Number({name}, otherwise); };
  const std::vector<double> hls = {of("max_random_h", 0), of("max_random_l", 0), of("max_random_s", 0)};
  const std::vector<double> scale = {of("min_random_scale", 1), of("max_random_scale", 1)};
  if (hls != std::vector<double>(3, 0)) flags.push_back("--hls_jitter=" + ToText(hls));
  if (scale != std::vector<double>(2, 1)) flags.push_back("--native_scale=" + ToText(scale));
  return flags;
}

std::vector<Alias> RowsOfMxnet() {
  return Together(
      {Renamed("disp_batches=log_interval save_period=save_every_epochs data_nthreads=workers"),
       OnlyTaken("optimizer=sgd initializer=default gc_type=none monitor=0 test_io=0 fill_value=127"),
       OnlyTaken("pad_size=0 max_random_aspect_ratio=0 min_random_aspect_ratio=None max_random_rotate_angle=0 "
                 "max_random_shear_ratio=0",
                 "images are not padded, turned, sheared or stretched; small ones are enlarged"),
       OnlyTaken("random_resized_crop=0 min_crop_size=-1 max_crop_size=-1",
                 "it draws other shapes, and resizes without antialiasing; --crop=resized is torchvision's"),
       OnlyTaken("brightness=0 contrast=0 saturation=0 pca_noise=0",
                 "its greys swap red and blue, and it rounds towards 0; --color_jitter is torchvision's"),
       WithoutEffect("what it belongs to is refused",
                     "max_random_area min_random_area macrobatch_size warmup_epochs warmup_strategy gc_threshold"),
       WithoutEffect("it cannot change a number",
                     "data_train_idx data_val_idx profile_worker_suffix profile_server_suffix"),
       WithoutEffect("--run_dir names the folder", "model_prefix"),
       WithoutEffect("an evaluation has top1 and top5", "top_k"),
       WithoutEffect("it is always shown", "loss"),
       WithoutEffect("in 1.9.1 it changes defaults after the command has been read, and so nothing",
                     "use_imagenet_data_augmentation"),
       // Several of these make one of ours: see DefaultsOfMxnet.
       Translated(OneOfSeveral,
                  "num_examples max_random_h max_random_s max_random_l max_random_scale min_random_scale"),
       {{.name = "benchmark", .words = {{"0", ""}, {"1", ""}}},
        {.name = "network", .translate = Network},
        {.name = "num_layers", .translate = Layers},
        {.name = "gpus", .translate = GpusByIndex},
        {.name = "batch_size", .translate = BatchOfMxnet},
        {.name = "num_epochs", .translate = EpochsOfMxnet},
        {.name = "image_shape", .translate = ImageShape},
        {.name = "dtype", .translate = TypeOfNumbers},
        {.name = "kv_store",
         .words = {{"local*", ""}, {"device", ""}, {"nccl", ""}, {"dist_sync*", ""}, {"dist_device_sync*", ""}},
         .reason = "gradients are reduced among the ranks, as Horovod does it",
         .refused = "ranks wait for each other's gradients"},
        {.name = "lr_factor", .translate = FactorOfMxnet},
        {.name = "lr_step_epochs", .translate = Milestones},
        {.name = "load_epoch", .refused = kResumes},
        {.name = "data_train", .translate = Split<TrainSplit>},
        {.name = "data_val", .translate = Split<ValSplit>},
        {.name = "rgb_mean", .translate = OfLevels<kMean>},
        {.name = "rgb_std", .translate = OfLevels<kStd>},
        {.name = "random_crop", .words = {{"0", ""}, {"1", "", "--crop=native"}}},
        {.name = "random_mirror", .words = {{"0", ""}, {"1", "", "--hflip=0.5"}}}}});
}

}  // namespace

const ForeignProgram& MxnetProgram() {
  static const ForeignProgram program = {
      .name = "mxnet",
      .called = "MXNet's train_imagenet.py",
      .signatures = {{"kv_store"}, {"data_train"}, {"benchmark", "1"}, {"network", "resnet"}},
      .defaults = DefaultsOfMxnet,
      .rows = RowsOfMxnet(),
      .has_common_names = true};
  return program;
}

}  // namespace dtrain::config
