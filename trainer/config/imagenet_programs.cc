// Scripts that train ResNets on ImageNet: PyTorch's examples/imagenet/main.py (pytorch/examples, of 2024), which
// torchelastic's example has, too; Horovod's examples/pytorch/pytorch_imagenet_resnet50.py, as of release 0.28.1; and
// AWS's train_imagenet_resnet_hvd.py (aws-samples/deep-learning-models, TensorFlow with Horovod). What is not listed is
// the same here, or cannot change a number.
#include <algorithm>

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
  return {{"--global_batch_size=" + ToText(Value(*batch * MachinesOf(command)))}};
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
  flags.push_back("--warmup_start_lr=" + ToText(Value(start)));
  AddFlags(
      "--warmup_from_one=true --lr_schedule=step --lr_decay_epochs=30,60,80 --schedule_through_warmup=true "
      "--weight_decay=5e-05 --seed=42",
      flags);
  return flags;
}

constexpr std::string_view kAllOfColor =
    "it counts with --increased_aug, which has its default here; --color_jitter=BRIGHTNESS,CONTRAST,SATURATION,HUE "
    "sets all four";
constexpr std::string_view kThreads = "--workers sets the decoding threads";

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

}  // namespace

const ForeignProgram& PytorchProgram() {
  static const ForeignProgram program = {
      .name = "pytorch",
      .called = "PyTorch's examples/imagenet",
      .signatures = {},
      .defaults = DefaultsOfPytorch,
      .rows = {{.name = "multiprocessing_distributed", .takes_value = false, .implied = "--nproc_per_node=auto"},
               {.name = "b", .translate = BatchOfMachine},
               {.name = "batch_size", .translate = BatchOfMachine},
               {.name = "world_size", .translate = Machines},
               {.name = "rank", .translate = MachineIndex},
               {.name = "dist_url", .translate = Address},
               {.name = "no_accel", .takes_value = false, .implied = "--backend=gloo"}},
      .weak_signatures = {{"a", "resnet"}, {"arch", "resnet"}}};
  return program;
}

const ForeignProgram& HorovodProgram() {
  static const ForeignProgram program = {
      .name = "horovod",
      .called = "Horovod's example",
      .signatures = {},
      .defaults = DefaultsOfHorovod,
      .rows = {{.name = "train_dir", .translate = TrainSplit},
               {.name = "val_dir", .translate = ValSplit},
               {.name = "checkpoint_format", .reason = "--run_dir names the folder"},
               {.name = "fp16_allreduce", .takes_value = false, .implied = "--grad_compression=fp16"},
               {.name = "batches_per_allreduce", .flag = "grad_accum_steps"},
               {.name = "gradient_predivide_factor", .words = {{"1", ""}}, .refused = kOnlyDefault},
               {.name = "val_batch_size", .reason = kEvaluationBatch},
               {.name = "base_lr", .translate = Rate},
               {.name = "no_cuda", .takes_value = false, .implied = "--backend=gloo"}},
      .scripts = {"pytorch_imagenet_resnet50.py"}};
  return program;
}

const ForeignProgram& AwsProgram() {
  static const ForeignProgram program = {
      .name = "aws",
      .called = "AWS's train_imagenet_resnet_hvd.py",
      .signatures = {},
      .defaults = DefaultsOfAws,
      .rows = {
          {.name = "m", .flag = "model"},
          {.name = "num_epochs", .flag = "epochs"},
          {.name = "lr_decay_mode",
           .flag = "lr_schedule",
           .words = {{"poly", "poly", "--poly_power=2 --end_lr=1e-5"},
                     {"cosine", "cosine"},
                     {"steps", "step", "--lr_decay_epochs=30,60,80 --schedule_through_warmup"},
                     {"linear_cosine", "linear_cosine", "--cosine_periods=0.47 --cosine_beta=1e-5"}}},
          {.name = "lc_periods", .flag = "cosine_periods"},
          {.name = "lc_alpha", .flag = "cosine_alpha"},
          {.name = "lc_beta", .flag = "cosine_beta"},
          {.name = "intra_op_parallelism_threads", .reason = kThreads},
          {.name = "inter_op_parallelism_threads", .reason = kThreads},
          {.name = "num_parallel_calls", .flag = "workers"},
          {.name = "lr_decay_steps", .translate = Steps},
          {.name = "lr_decay_lrs", .refused = "--lr_decay_factor sets the factor on the rate"},
          {.name = "log_name", .reason = "redirect the output in the shell to keep it; metrics.jsonl has the numbers"},
          {.name = "local_ckpt",
           .takes_value = false,
           .reason = "only rank 0 writes checkpoints, and the others get them from it"},
          {.name = "mom", .flag = "momentum"},
          {.name = "wdecay", .flag = "weight_decay"},
          {.name = "nofp16", .takes_value = false, .implied = "--precision=fp32"},
          {.name = "display_every", .flag = "log_interval"},
          {.name = "num_batches", .translate = Batches},
          {.name = "eval_interval", .flag = "eval_every_epochs"},
          {.name = "num_gpus", .reason = "the launcher or --nproc_per_node sets the number of devices"},
          {.name = "save_checkpoints_steps",
           .reason =
               "--save_every_epochs and --save_every_seconds set when to save, --keep_checkpoints how many to keep"},
          {.name = "save_summary_steps", .reason = "--log_interval sets how often numbers are written"},
          {.name = "adv_bn_init", .takes_value = false, .implied = "--zero_init_residual"},
          {.name = "noadv_bn_init", .takes_value = false, .implied = "--nozero_init_residual"},
          {.name = "adv_conv_init", .takes_value = false, .reason = "convolutions are always initialised that way"},
          {.name = "brightness", .words = {{"0.3", ""}}, .refused = kAllOfColor},
          {.name = "contrast", .words = {{"0.6", ""}}, .refused = kAllOfColor},
          {.name = "saturation", .words = {{"0.6", ""}}, .refused = kAllOfColor},
          {.name = "hue", .words = {{"0.13", ""}}, .refused = kAllOfColor},
          {.name = "increased_aug", .takes_value = false, .implied = "--color_jitter=0,0.4,0.4,0.065"},
          {.name = "use_larc",
           .takes_value = false,
           .implied = "--optimizer=lars --lars_clip --lars_trust=0.013 --decay_norm_and_bias --lr=3.7"},
          {.name = "leta", .flag = "lars_trust"},
      }};
  return program;
}

}  // namespace dtrain::config
