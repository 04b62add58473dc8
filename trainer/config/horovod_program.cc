// Horovod's defaults are those of its examples/pytorch/pytorch_imagenet_resnet50.py, as of release 0.28.1. What is not
// listed is the same here, or cannot change a number.
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

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
  flags.insert(flags.end(),
               {"--warmup_start_lr=" + ToText(Value(start)), "--warmup_from_one=true", "--lr_schedule=step",
                "--lr_decay_epochs=30,60,80", "--schedule_through_warmup=true", "--weight_decay=5e-05", "--seed=42"});
  return flags;
}

}  // namespace

const ForeignProgram& HorovodProgram() {
  static const ForeignProgram program = {
      .name = "horovod",
      .called = "Horovod's example",
      .signatures = {},
      .defaults = DefaultsOfHorovod,
      .rows = {{.name = "train_dir", .translate = TrainSplit},
               {.name = "val_dir", .translate = ValSplit},
               {.name = "checkpoint_format", .reason = "--run_dir names the folder"},
               {.name = "fp16_allreduce", .takes_value = false, .implied = {"--grad_compression=fp16"}},
               {.name = "batches_per_allreduce", .flag = "grad_accum_steps"},
               {.name = "gradient_predivide_factor", .words = {{"1", ""}}, .refused = kOnlyDefault},
               {.name = "val_batch_size", .reason = kEvaluationBatch},
               {.name = "base_lr", .translate = Rate},
               {.name = "no_cuda", .takes_value = false, .implied = {"--backend=gloo"}}},
      .scripts = {"pytorch_imagenet_resnet50.py"}};
  return program;
}

}  // namespace dtrain::config
