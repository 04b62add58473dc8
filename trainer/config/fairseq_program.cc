// fairseq's defaults are those of its release 0.12.2: fairseq/dataclass/configs.py, fairseq/tasks/masked_lm.py,
// fairseq/optim/adam.py and sgd.py, fairseq/optim/lr_scheduler. What is not listed is the same here (the betas and
// epsilon of Adam, clipping, the masks' shares, polynomial_decay's power, dropout), or cannot change a number.
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"

namespace dtrain::config {
namespace {

// fairseq's own are for text, and so are the last ones here.
std::vector<std::string> DefaultsOfFairseq(const ForeignCommand& command) {
  std::vector<std::string> flags = {
      "--lr=0.25", "--lr_schedule=constant", "--weight_decay=0",         "--epochs=1000000",
      "--seed=1",  "--sample_break=none",    "--tokens_per_sample=1024", "--log_interval=100"};
  // The fixed schedule's warmup, unlike that of polynomial_decay, does not begin with a rate of 0.
  const bool is_fixed = command.Value({"lr_scheduler"}, "fixed") == "fixed";
  if (is_fixed && command.Has({"warmup_updates"})) flags.push_back("--warmup_from_one=true");
  if (!command.Value({"arch", "a", "model"}, "roberta").starts_with("roberta")) {
    std::erase_if(
        flags, [](const std::string& flag) { return FindFlag(flag.substr(2, flag.find('=') - 2))->section == "text"; });
  }
  return flags;
}

// fairseq fills a batch up to --max-sentences and cuts it to a multiple of --required-batch-size-multiple
// (fairseq/data/data_utils_fast.pyx), unless it has fewer rows than that.
Translation CutToMultiple(const std::string& value, const ForeignCommand& command) {
  const std::string flag = "--batch_size=";
  const double rows = NumberFrom(value).value_or(0), multiple = command.Number({"required_batch_size_multiple"}, 8);
  const auto whole = static_cast<int64_t>(rows), step = static_cast<int64_t>(multiple);
  if (step < 2 || whole < step || whole % step == 0) return {{flag + value}};
  return {.flags = {flag + std::to_string(whole - whole % step)},
          .note = "batches of at most " + value + " are cut to a multiple of " + std::to_string(step) +
                  " as in fairseq (--required-batch-size-multiple)"};
}

Translation MultipleOfRows(const std::string& value, const ForeignCommand& command) {
  if (value == "1" || !command.Has({"max_tokens"})) return {};
  const std::string difference = "batches of --max-tokens have as many rows as fit";
  if (value == "8") return {.note = difference + ", fairseq cuts them to a multiple of 8"};
  return {.refused = difference + "; --required-batch-size-multiple=1 is the same"};
}

// fairseq's schedule ends with its updates, even if --max-epoch ends the run before.
Translation MaxUpdate(const std::string& value, const ForeignCommand& command) {
  if (NumberFrom(value) == 0.0) return {};  // no limit
  if (!command.Has({"max_epoch", "epochs"})) return {{"--max_steps=" + value, "--epochs=1000000"}};
  if (command.Has({"total_num_update"})) return {{"--max_steps=" + value}};
  return {{"--max_steps=" + value, "--schedule_steps=" + value}};
}

}  // namespace

const ForeignProgram& FairseqProgram() {
  static const ForeignProgram program = {
      .name = "fairseq",
      .called = "fairseq-train",
      .signatures = {{"criterion"},
                     {"arch", "roberta"},
                     {"a", "roberta"},
                     {"sample_break_mode"},
                     {"max_sentences"},
                     {"update_freq"},
                     {"max_update"},
                     {"warmup_updates"},
                     {"total_num_update"}},
      .defaults = DefaultsOfFairseq,
      .rows = {{.name = "task",
                .flag = "task",
                .words = {{"masked_lm", "masked_lm", "--data_format=tokens --mask_special_tokens"}}},
               {.name = "optimizer",
                .flag = "optimizer",
                .words = {{"adam", "fairseq_adam"},
                          {"sgd", "sgd", "--momentum=0"},
                          {"adamw", "adamw"},
                          {"fairseq_adam", "fairseq_adam"}}},
               {.name = "batch_size", .translate = CutToMultiple},
               {.name = "max_update", .translate = MaxUpdate},
               {.name = "max_sentences", .translate = CutToMultiple},
               {.name = "required_batch_size_multiple", .translate = MultipleOfRows}},
      .turns_photographs = true};
  return program;
}

}  // namespace dtrain::config
