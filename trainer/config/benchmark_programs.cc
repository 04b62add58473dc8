// Programs whose published commands measure ResNets on data that is made up: TensorFlow's tf_cnn_benchmarks
// (tensorflow/benchmarks, scripts/tf_cnn_benchmarks, of 2019) and MXNet's
// example/image-classification/train_imagenet.py with --benchmark 1 (1.9.1). The load is the same here: network, batch,
// steps, type of numbers. Their commands that read data are refused, since they would train something else: see
// kOtherData.
#include <algorithm>
#include <cmath>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kOtherData =
    "it distorts images otherwise, pads or normalises otherwise and decays other weights, so that the numbers would "
    "differ; --data_dir with --flagfile=scripts/recipes/resnet50_90ep.flags trains a ResNet-50";
constexpr std::string_view kOfTheirLoad = "it cannot change a number, nor the load";
constexpr std::string_view kLoads = "--data_format=synthetic --eval_every_epochs=0 --save_every_epochs=0";

std::string Resnet(std::string_view layers, bool is_first) {
  return "--model=resnet" + std::string(layers) + (is_first ? "_v1" : "");
}

Translation PrecisionOfTensorflow(const std::string& value, const ForeignCommand& /*command*/) {
  const bool is_off = value == "False" || value == "false" || value == "0" || value == "float32";
  return is_off ? Translation() : Translation{{"--precision=fp16"}};
}

// tf_cnn_benchmarks: resnet50 is v1; v2 normalises before it convolves, with v1's strides.
Translation ModelOfTensorflow(const std::string& value, const ForeignCommand& /*command*/) {
  for (const std::string_view layers : {"50", "101", "152"}) {
    const std::string name = "resnet" + std::string(layers);
    if (value == name) return {{Resnet(layers, true)}};
    if (value == name + "_v1.5") return {{Resnet(layers, false)}};
    if (value == name + "_v2") {
      return {.flags = {Resnet(layers, true)}, .note = "v1 has the same convolutions, and normalises after them"};
    }
  }
  return {.refused =
              "of its models, of which trivial is the default, there are resnet50, resnet101 and resnet152, with _v1.5 "
              "and _v2"};
}

bool IsCount(const std::string& value, double least) {
  const double number = NumberFrom(value).value_or(-1);
  return number >= least && number <= 1e12 && number == std::floor(number);
}

Translation WarmupSteps(const std::string& value, const ForeignCommand& /*command*/) {
  return IsCount(value, 0) ? Translation() : Translation{.refused = "expected a whole number, 0 or more"};
}

double WarmupOfTensorflow(const ForeignCommand& command) { return command.Number({"num_warmup_batches"}, 10); }

Translation StepsOfTensorflow(const std::string& value, const ForeignCommand& command) {
  if (!IsCount(value, 1)) return {.refused = "expected a whole number, 1 or more"};
  return {{"--max_steps=" + ToText(Value(*NumberFrom(value) + WarmupOfTensorflow(command)))}};
}

Translation GpusOfTensorflow(const std::string& value, const ForeignCommand& command) {
  if (value == "1" || command.Value({"device"}, "gpu") == "cpu") return {};  // or a launcher starts the processes
  return {{"--nproc_per_node=" + value}};
}

std::vector<std::string> DefaultsOfTensorflow(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags(kLoads, flags);
  const std::string model = command.Value({"model"}, "trivial");
  if (!command.Has({"model"})) flags.push_back("--model=" + model);  // which is refused
  if (!command.Has({"batch_size"}))
    flags.push_back(model.starts_with("resnet50") ? "--batch_size=64" : "--batch_size=32");
  if (!command.Has({"num_batches", "num_epochs"})) flags.push_back(StepsOfTensorflow("100", command).flags.front());
  if (command.Has({"init_learning_rate"})) {
    flags.emplace_back("--lr_schedule=constant");
  } else {
    AddFlags(
        "--lr=0.128 --lr_base_batch=256 --lr_schedule=step --lr_decay_epochs=30,60,80,90 --warmup_epochs=5 "
        "--schedule_through_warmup=true",
        flags);
  }
  AddFlags("--momentum=0 --weight_decay=4e-05 --log_interval=10", flags);
  return flags;
}

std::vector<Alias> RowsOfTensorflow() {
  std::vector<Alias> rows = {
      {.name = "model", .translate = ModelOfTensorflow},
      {.name = "variable_update",
       .words = {{"parameter_server", ""}, {"replicated", ""}, {"distributed_*", ""}, {"horovod", ""}},
       .reason = "gradients are reduced among the ranks, as Horovod does it",
       .refused = "independent replicas would not train together"},
      {.name = "num_gpus", .translate = GpusOfTensorflow},
      {.name = "num_batches", .translate = StepsOfTensorflow},
      {.name = "num_epochs", .flag = "epochs"},
      {.name = "num_warmup_batches", .translate = WarmupSteps},
      {.name = "use_fp16", .takes_value = false, .translate = PrecisionOfTensorflow},
      {.name = "display_every", .flag = "log_interval"},
      {.name = "optimizer", .flag = "optimizer", .words = {{"sgd", "sgd"}, {"momentum", "sgd", "--momentum=0.9"}}},
      {.name = "init_learning_rate", .flag = "lr"},
      {.name = "train_dir", .flag = "run_dir"},
      {.name = "data_dir", .refused = kOtherData},
      {.name = "data_name", .words = {{"imagenet", ""}}, .refused = kOnlyDefault},
      {.name = "data_format", .flag = "data_format", .words = {{"NCHW", ""}, {"NHWC", ""}}, .other_words_pass = true},
  };
  AddWithoutEffect(kOfTheirLoad,
                   "all_reduce_spec local_parameter_device gpu_indices gpu_thread_mode per_gpu_thread_count "
                   "num_inter_threads num_intra_threads network_topology gradient_repacking horovod_device "
                   "fp16_loss_scale batch_group_size summary_verbosity autotune_threshold resize_method kmp_blocktime "
                   "kmp_affinity kmp_settings agg_small_grads_max_bytes agg_small_grads_max_group",
                   "distortions nodistortions hierarchical_copy compact_gradient_transfer use_datasets mkl xla "
                   "xla_compile force_gpu_compatible datasets_use_prefetch print_training_accuracy "
                   "fp16_enable_auto_loss_scale fuse_decode_and_crop cross_replica_sync nocross_replica_sync",
                   rows);
  return rows;
}

// MXNet's resnet is v2 with the strides of v1.5.
Translation Network(const std::string& value, const ForeignCommand& command) {
  const std::string layers = command.Value({"num_layers"}, "50");
  const std::vector<std::string> known = {"18", "34", "50", "101", "152"};
  const bool is_known = std::ranges::find(known, layers) != known.end();
  const bool is_bottleneck = layers.size() > 2 || layers == "50";
  if (is_known && value == "resnet-v1") return {{Resnet(layers, is_bottleneck)}};
  if (is_known && value == "resnet") {
    return {.flags = {Resnet(layers, false)}, .note = "the same convolutions, and it normalises after them"};
  }
  return {.refused = "of its networks there are resnet and resnet-v1 of 18, 34, 50, 101 and 152 layers"};
}

int64_t GpusOfMxnet(const ForeignCommand& command) {
  const std::string gpus = command.Value({"gpus"}, "");
  return 1 + std::ranges::count(gpus, ',');
}

// Its processes share their batch among their GPUs.
Translation BatchOfMxnet(const std::string& value, const ForeignCommand& command) {
  const double share = NumberFrom(value).value_or(0.5) / static_cast<double>(GpusOfMxnet(command));
  if (share != std::floor(share)) return {.refused = "--gpus must share it evenly"};
  return {{"--batch_size=" + ToText(Value(share))}};
}

Translation GpusByIndex(const std::string& value, const ForeignCommand& command) {
  if (value.empty()) return {{"--backend=gloo"}};
  if (value.find_first_not_of("0123456789,") != std::string::npos) return {.refused = "expected indices of GPUs"};
  const Translation batch = BatchOfMxnet(command.Value({"batch_size"}, "128"), command);
  if (!batch.refused.empty()) return {.refused = "they cannot share --batch-size evenly"};
  Translation gpus = {.note = "CUDA_VISIBLE_DEVICES chooses among the GPUs"};
  if (GpusOfMxnet(command) > 1) gpus.flags = {"--nproc_per_node=" + std::to_string(GpusOfMxnet(command))};
  return gpus;
}

// An epoch of made-up data has 500 steps.
Translation EpochsOfMxnet(const std::string& value, const ForeignCommand& /*command*/) {
  const auto epochs = NumberFrom(value);
  if (!epochs) return {.refused = "expected a number"};
  return {{"--max_steps=" + ToText(Value(*epochs * 500)), "--epochs=1000000"}};
}

Translation ImageShape(const std::string& value, const ForeignCommand& /*command*/) {
  const size_t first = value.find(','), last = value.rfind(',');
  if (!value.starts_with("3,") || first == last ||
      value.substr(first + 1, last - first - 1) != value.substr(last + 1)) {
    return {.refused = "expected 3,SIDE,SIDE"};
  }
  return {{"--image_size=" + value.substr(last + 1)}};
}

Translation Layers(const std::string& value, const ForeignCommand& command) {
  if (!Network("resnet", command).flags.empty()) return {};
  return {.refused = "no network of " + value + " layers is here; there are 18, 34, 50, 101 and 152"};
}

// A single epoch would be a period here.
Translation Milestones(const std::string& value, const ForeignCommand& /*command*/) {
  return {{"--lr_decay_epochs=" + value + (value.find(',') == std::string::npos ? ",1000000" : "")}};
}

std::vector<std::string> DefaultsOfMxnet(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags(kLoads, flags);
  if (!command.Has({"network"})) {
    const Translation network = Network("resnet", command);
    flags.insert(flags.end(), network.flags.begin(), network.flags.end());
  }
  if (!command.Has({"batch_size"})) {
    const Translation batch = BatchOfMxnet("128", command);
    flags.insert(flags.end(), batch.flags.begin(), batch.flags.end());
  }
  if (!command.Has({"num_epochs"})) {
    const Translation steps = EpochsOfMxnet("80", command);
    flags.insert(flags.end(), steps.flags.begin(), steps.flags.end());
  }
  AddFlags("--lr=0.1 --lr_schedule=step --lr_decay_epochs=30,60 --bn_eps=2e-05 --log_interval=20", flags);
  return flags;
}

}  // namespace

const ForeignProgram& TensorflowProgram() {
  static const ForeignProgram program = {.name = "tf_cnn_benchmarks",
                                         .called = "tf_cnn_benchmarks",
                                         .signatures = {{"variable_update"}},
                                         .defaults = DefaultsOfTensorflow,
                                         .rows = RowsOfTensorflow(),
                                         .scripts = {"tf_cnn_benchmarks.py"},
                                         .has_common_names = true};
  return program;
}

const ForeignProgram& MxnetProgram() {
  static const ForeignProgram program = {
      .name = "mxnet",
      .called = "MXNet's train_imagenet.py",
      .signatures = {{"kv_store"}, {"data_train"}, {"benchmark", "1"}, {"network", "resnet"}},
      .defaults = DefaultsOfMxnet,
      .rows = {{.name = "benchmark", .words = {{"1", ""}}, .refused = kOtherData},
               {.name = "network", .translate = Network},
               {.name = "num_layers", .translate = Layers},
               {.name = "gpus", .translate = GpusByIndex},
               {.name = "batch_size", .translate = BatchOfMxnet},
               {.name = "num_epochs", .translate = EpochsOfMxnet},
               {.name = "image_shape", .translate = ImageShape},
               {.name = "dtype", .words = {{"float32", ""}, {"float16", "", "--precision=fp16"}}},
               {.name = "kv_store", .reason = "gradients are reduced among the ranks, as Horovod does it"},
               {.name = "lr_factor", .flag = "lr_decay_factor"},
               {.name = "lr_step_epochs", .translate = Milestones},
               {.name = "disp_batches", .flag = "log_interval"},
               {.name = "model_prefix", .reason = "--run_dir names the folder"},
               {.name = "monitor", .words = {{"0", ""}}, .refused = kOnlyDefault},
               {.name = "test_io", .words = {{"0", ""}}, .refused = "dtrain_bench loader measures reading"},
               {.name = "top_k", .reason = "an evaluation has top1 and top5"},
               {.name = "num_examples", .reason = kOfTheirLoad},
               {.name = "data_nthreads", .flag = "workers"},
               {.name = "data_dir", .refused = kOtherData},
               {.name = "data_train", .refused = kOtherData},
               {.name = "data_val", .refused = kOtherData}},
      .has_common_names = true};
  return program;
}

}  // namespace dtrain::config
