// Scripts that train ResNets on ImageNet: PyTorch's examples/imagenet/main.py (pytorch/examples, of 2024), which
// torchelastic's example has, too; Horovod's examples/pytorch/pytorch_imagenet_resnet50.py, as of release 0.28.1; AWS's
// train_imagenet_resnet_hvd.py (aws-samples/deep-learning-models, TensorFlow with Horovod); and TensorFlow's
// tf_cnn_benchmarks (tensorflow/benchmarks, of 2019). What is not listed is the same here, or cannot change a number.
#include <algorithm>
#include <cmath>

#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

// With it, a process is started for each GPU of a machine, and --world-size and --rank count machines.
bool StartsProcesses(const ForeignCommand& command) { return command.Has({"multiprocessing_distributed"}); }

// -1 is none.
double MachinesOf(const ForeignCommand& command) { return std::max(1.0, command.Number({"world_size"}, 1)); }

// The batch is then that of a machine.
Translation BatchOfMachine(const std::string& value, const ForeignCommand& command) {
  const auto batch = NumberFrom(value);
  if (!StartsProcesses(command) || !batch) return {{"--batch_size=" + value}};
  return {{"--global_batch_size=" + ToText(*batch * MachinesOf(command))}};
}

Translation Machines(const std::string& value, const ForeignCommand& command) {
  if (value == "-1") return {};
  if (!StartsProcesses(command)) return {{"--world_size=" + value}};
  return MachinesOf(command) == 1 ? Translation() : Translation{{"--nnodes=" + value}};
}

Translation MachineIndex(const std::string& value, const ForeignCommand& command) {
  if (value == "-1") return {};
  if (!StartsProcesses(command)) return {{"--rank=" + value}};
  return MachinesOf(command) == 1 ? Translation() : Translation{{"--node_rank=" + value}};
}

// One process, or one machine's, has an address of its own.
Translation Address(const std::string& value, const ForeignCommand& command) {
  return MachinesOf(command) == 1 ? Translation() : AddressOfRank0(value, command);
}

std::vector<std::string> DefaultsOfPytorch(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags("--model=resnet18 --lr=0.1 --lr_schedule=step --lr_decay_epochs=30 --lr_per_epoch=true --log_interval=10",
           flags);
  if (!command.Has({"b", "batch_size", "global_batch_size"}))
    flags.push_back(BatchOfMachine("256", command).flags.front());
  return flags;
}

std::string BatchOf(const ForeignCommand& command) { return command.Value({"batch_size", "b"}, "32"); }

// Its rate is that of one device's batch.
Translation Rate(const std::string& value, const ForeignCommand& command) {
  return {{"--lr=" + value, "--lr_base_batch=" + BatchOf(command)}};
}

// The warmup begins with the rate of one device, and its first step is one above it; then the rate falls at fixed
// epochs.
std::vector<std::string> DefaultsOfHorovod(const ForeignCommand& command) {
  std::vector<std::string> flags;
  if (!command.Has({"lr", "base_lr"})) flags = Rate("0.0125", command).flags;
  if (!command.Has({"warmup_steps"})) flags.push_back("--warmup_epochs=5");
  const double start = command.Number({"base_lr"}, 0.0125) * command.Number({"batches_per_allreduce"}, 1);
  flags.push_back("--warmup_start_lr=" + ToText(start));
  AddFlags(
      "--warmup_from_one=true --lr_schedule=step --lr_decay_epochs=30,60,80 --schedule_through_warmup=true "
      "--weight_decay=5e-05 --seed=42",
      flags);
  return flags;
}

std::string DecayModeOf(const ForeignCommand& command) { return command.Value({"lr_decay_mode"}, "poly"); }

// AWS's last version, of 2019, counts, unless a command can only be one of 2018, which had a rate of 6.4, float32 and
// gammas of 1. In 2019 a list of rates took the place of the factor.
bool IsOf2018(const ForeignCommand& command) {
  return command.Has({"lr_decay_factor"}) || (DecayModeOf(command) == "steps" && !command.Has({"lr_decay_lrs"}));
}

void AddRate(const ForeignCommand& command, std::vector<std::string>& flags) {
  if (command.Has({"lr", "use_larc"})) return;
  if (IsOf2018(command)) return flags.push_back("--lr=6.4");
  AddFlags("--lr=0.1 --lr_base_batch=256", flags);
}

std::vector<std::string> DefaultsOfAws(const ForeignCommand& command) {
  std::vector<std::string> flags;
  if (!command.Has({"global_batch_size"})) flags.push_back("--batch_size=256");
  AddRate(command, flags);
  if (DecayModeOf(command) == "poly") flags.push_back("--end_lr=1e-05");
  AddFlags("--warmup_start_lr=0.001 --nesterov=true --decay_norm_and_bias=false", flags);
  if (!IsOf2018(command)) AddFlags("--precision=amp --zero_init_residual=true", flags);
  AddFlags(
      "--loss_scale=1024 --bn_eps=0.0001 --mean=0.47451,0.45098,0.392157 --std=0.27451,0.266667,0.278431 "
      "--eval_resize=280 --log_interval=50",
      flags);
  return flags;
}

// A single step would be a period here.
Translation Steps(const std::string& value, const ForeignCommand& command) {
  if (DecayModeOf(command) != "steps") return {};
  return {{"--lr_decay_epochs=" + value + (value.find(',') == std::string::npos ? ",1000000" : "")}};
}

Translation Batches(const std::string& value, const ForeignCommand& command) {
  if (command.Has({"num_epochs"})) return {.note = "--num_epochs counts instead"};
  return {{"--max_steps=" + value, "--epochs=1000000"}};
}

// tf_cnn_benchmarks measures ResNets on data that is made up. The load is the same here: network, batch, steps, type of
// numbers. Its commands that read data are refused, since they would train something else.
constexpr std::string_view kOtherData =
    "it distorts images otherwise, pads or normalises otherwise and decays other weights, so that the numbers would "
    "differ; --data_dir with --flagfile=scripts/recipes/resnet50_90ep.flags trains a ResNet-50";

// tf_cnn_benchmarks: resnet50 is v1; v2 normalises before it convolves, with v1's strides.
Translation ModelOfTensorflow(const std::string& value, const ForeignCommand& /*command*/) {
  for (const std::string_view layers : {"50", "101", "152"}) {
    const std::string name = "resnet" + std::string(layers), flag = "--model=" + name;
    if (value == name) return {{flag + "_v1"}};
    if (value == name + "_v1.5") return {{flag}};
    if (value == name + "_v2") {
      return {.flags = {flag + "_v1"}, .note = "v1 has the same convolutions, and normalises after them"};
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

Translation WarmupBatches(const std::string& value, const ForeignCommand& /*command*/) {
  return IsCount(value, 0) ? Translation() : Translation{.refused = "expected a whole number, 0 or more"};
}

double WarmupOfTensorflow(const ForeignCommand& command) { return command.Number({"num_warmup_batches"}, 10); }

Translation StepsOfTensorflow(const std::string& value, const ForeignCommand& command) {
  if (!IsCount(value, 1)) return {.refused = "expected a whole number, 1 or more"};
  return {{"--max_steps=" + ToText(*NumberFrom(value) + WarmupOfTensorflow(command))}};
}

Translation GpusOfTensorflow(const std::string& value, const ForeignCommand& command) {
  if (value == "1" || command.Value({"device"}, "gpu") == "cpu") return {};  // or a launcher starts the processes
  return {{"--nproc_per_node=" + value}};
}

std::vector<std::string> DefaultsOfTensorflow(const ForeignCommand& command) {
  std::vector<std::string> flags;
  AddFlags("--data_format=synthetic --eval_every_epochs=0 --save_every_epochs=0", flags);
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
  return Together(
      {Renamed("num_epochs=epochs display_every=log_interval init_learning_rate=lr train_dir=run_dir"),
       OnlyTaken("data_name=imagenet"),
       WithoutEffect(
           "it cannot change a number, nor the load",
           "all_reduce_spec local_parameter_device gpu_indices gpu_thread_mode per_gpu_thread_count num_inter_threads "
           "num_intra_threads network_topology gradient_repacking horovod_device fp16_loss_scale batch_group_size "
           "summary_verbosity autotune_threshold resize_method kmp_blocktime kmp_affinity kmp_settings "
           "agg_small_grads_max_bytes agg_small_grads_max_group",
           "distortions nodistortions hierarchical_copy compact_gradient_transfer use_datasets mkl xla xla_compile "
           "force_gpu_compatible datasets_use_prefetch print_training_accuracy fp16_enable_auto_loss_scale "
           "fuse_decode_and_crop cross_replica_sync nocross_replica_sync"),
       {{.name = "model", .translate = ModelOfTensorflow},
        {.name = "variable_update",
         .words = {{"parameter_server", ""}, {"replicated", ""}, {"distributed_*", ""}, {"horovod", ""}},
         .reason = "gradients are reduced among the ranks, as Horovod does it",
         .refused = "independent replicas would not train together"},
        {.name = "num_gpus", .translate = GpusOfTensorflow},
        {.name = "num_batches", .translate = StepsOfTensorflow},
        {.name = "num_warmup_batches", .translate = WarmupBatches},
        {.name = "use_fp16",
         .takes_value = false,
         .words = {{"false", ""}, {"0", ""}, {"float32", ""}, {"*", "", "--precision=fp16"}}},
        {.name = "optimizer", .flag = "optimizer", .words = {{"sgd", "sgd"}, {"momentum", "sgd", "--momentum=0.9"}}},
        {.name = "data_dir", .refused = kOtherData},
        {.name = "data_format",
         .flag = "data_format",
         .words = {{"NCHW", ""}, {"NHWC", ""}},
         .other_words_pass = true}}});
}

}  // namespace

const ForeignProgram& PytorchProgram() {
  static const ForeignProgram program = {
      .name = "pytorch",
      .called = "PyTorch's examples/imagenet",
      .signatures = {},
      .defaults = DefaultsOfPytorch,
      .rows = Together({Switches("multiprocessing_distributed=--nproc_per_node=auto no_accel=--backend=gloo "
                                 "pretrained=--init_weights=IMAGENET1K_V1"),
                        Translated(BatchOfMachine, "b batch_size"),
                        {{.name = "world_size", .translate = Machines},
                         {.name = "rank", .translate = MachineIndex},
                         {.name = "dist_url", .translate = Address}}}),
      .weak_signatures = {{"a", "resnet"}, {"arch", "resnet"}}};
  return program;
}

const ForeignProgram& HorovodProgram() {
  static const ForeignProgram program = {
      .name = "horovod",
      .called = "Horovod's example",
      .signatures = {},
      .defaults = DefaultsOfHorovod,
      .rows = Together({Renamed("batches_per_allreduce=grad_accum_steps"),
                        Switches("fp16_allreduce=--grad_compression=fp16 no_cuda=--backend=gloo"),
                        OnlyTaken("gradient_predivide_factor=1"),
                        WithoutEffect("--run_dir names the folder", "checkpoint_format"),
                        WithoutEffect(kEvaluationBatch, "val_batch_size"),
                        {{.name = "train_dir", .translate = TrainSplit},
                         {.name = "val_dir", .translate = ValSplit},
                         {.name = "base_lr", .translate = Rate}}}),
      .scripts = {"pytorch_imagenet_resnet50.py"}};
  return program;
}

const ForeignProgram& AwsProgram() {
  static const ForeignProgram program = {
      .name = "aws",
      .called = "AWS's train_imagenet_resnet_hvd.py",
      .signatures = {},
      .defaults = DefaultsOfAws,
      .rows = Together(
          {Renamed("m=model num_epochs=epochs lc_periods=cosine_periods lc_alpha=cosine_alpha lc_beta=cosine_beta "
                   "num_parallel_calls=workers mom=momentum wdecay=weight_decay display_every=log_interval "
                   "eval_interval=eval_every_epochs leta=lars_trust"),
           Switches("nofp16=--precision=fp32 adv_bn_init=--zero_init_residual noadv_bn_init=--nozero_init_residual "
                    "increased_aug=--color_jitter=0,0.4,0.4,0.065"),
           OnlyTaken("brightness=0.3 contrast=0.6 saturation=0.6 hue=0.13",
                     "it counts with --increased_aug, which has its default here; "
                     "--color_jitter=BRIGHTNESS,CONTRAST,SATURATION,HUE sets all four"),
           WithoutEffect("--workers sets the decoding threads",
                         "intra_op_parallelism_threads inter_op_parallelism_threads"),
           WithoutEffect("redirect the output in the shell to keep it; metrics.jsonl has the numbers", "log_name"),
           WithoutEffect("only rank 0 writes checkpoints, and the others get them from it", "", "local_ckpt"),
           WithoutEffect("the launcher or --nproc_per_node sets the number of devices", "num_gpus"),
           WithoutEffect(
               "--save_every_epochs and --save_every_seconds set when to save, --keep_checkpoints how many to keep",
               "save_checkpoints_steps"),
           WithoutEffect("--log_interval sets how often numbers are written", "save_summary_steps"),
           WithoutEffect("convolutions are always initialised that way", "", "adv_conv_init"),
           {{.name = "lr_decay_mode",
             .flag = "lr_schedule",
             .words = {{"poly", "poly", "--poly_power=2 --end_lr=1e-5"},
                       {"cosine", "cosine"},
                       {"steps", "step", "--lr_decay_epochs=30,60,80 --schedule_through_warmup"},
                       {"linear_cosine", "linear_cosine", "--cosine_periods=0.47 --cosine_beta=1e-5"}}},
            {.name = "lr_decay_steps", .translate = Steps},
            {.name = "lr_decay_lrs", .refused = "--lr_decay_factor sets the factor on the rate"},
            {.name = "num_batches", .translate = Batches},
            {.name = "use_larc",
             .takes_value = false,
             .implied = "--optimizer=lars --lars_clip --lars_trust=0.013 --decay_norm_and_bias --lr=3.7"}}}),
      .weak_signatures = {{"mom"}},  // short for --momentum elsewhere
      .scripts = {"train_imagenet_resnet_hvd.py"}};
  return program;
}

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
