// The defaults of PyTorch's examples/imagenet/main.py (pytorch/examples, of 2024), which torchelastic's example has,
// too. What is not listed is the same here, or cannot change a number.
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

std::vector<std::string> DefaultsOfPytorch(const ForeignCommand& command) {
  std::vector<std::string> flags = {"--model=resnet18",    "--lr=0.1",
                                    "--lr_schedule=step",  "--lr_decay_epochs=30",
                                    "--lr_per_epoch=true", "--log_interval=10"};
  if (!command.Has({"b", "batch_size", "global_batch_size"}))
    flags.push_back(BatchOfMachine("256", command).flags.front());
  return flags;
}

}  // namespace

const ForeignProgram& PytorchProgram() {
  static const ForeignProgram program = {
      .name = "pytorch",
      .called = "PyTorch's examples/imagenet",
      .signatures = {},
      .defaults = DefaultsOfPytorch,
      .rows = {{.name = "multiprocessing_distributed", .takes_value = false, .implied = {"--nproc_per_node=auto"}},
               {.name = "b", .translate = BatchOfMachine},
               {.name = "batch_size", .translate = BatchOfMachine},
               {.name = "world_size", .translate = Machines},
               {.name = "rank", .translate = MachineIndex},
               {.name = "no_accel", .takes_value = false, .implied = {"--backend=gloo"}}},
      .weak_signatures = {{"a", "resnet"}, {"arch", "resnet"}}};
  return program;
}

}  // namespace dtrain::config
