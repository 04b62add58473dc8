// A program whose published commands measure ResNets on data that is made up: TensorFlow's tf_cnn_benchmarks
// (tensorflow/benchmarks, scripts/tf_cnn_benchmarks, of 2019). The load is the same here: network, batch, steps, type
// of numbers. Its commands that read data are refused, since they would train something else: see kOtherData.
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

}  // namespace dtrain::config
