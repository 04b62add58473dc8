// fairseq's defaults are those of its release 0.12.2: fairseq/dataclass/configs.py, fairseq/tasks/masked_lm.py,
// fairseq/optim/adam.py and sgd.py, fairseq/optim/lr_scheduler. What is not listed is the same here (the betas and
// epsilon of Adam, clipping, the masks' shares, polynomial_decay's power, dropout), or cannot change a number.
#include "trainer/config/foreign_programs.h"

#include <algorithm>
#include <optional>

namespace dtrain::config {
namespace {

using command_line::Argument;

const std::vector<ForeignProgram>& Programs() {
  static const std::vector<ForeignProgram> programs = {
      {.name = "fairseq",
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
       .defaults = {"--lr=0.25", "--lr_schedule=constant", "--weight_decay=0", "--epochs=1000000", "--seed=1",
                    "--sample_break=none", "--tokens_per_sample=1024", "--log_interval=100"},
       .rows = {{.name = "task",
                 .flag = "task",
                 .words = {{"masked_lm", "masked_lm", "--data_format=tokens --mask_special_tokens"}}},
                {.name = "optimizer",
                 .flag = "optimizer",
                 .words = {{"adam", "fairseq_adam"},
                           {"sgd", "sgd", "--momentum=0"},
                           {"adamw", "adamw"},
                           {"fairseq_adam", "fairseq_adam"}}}}}};
  return programs;
}

bool Has(const std::vector<Argument>& arguments, const Signature& signature) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].place.empty() || FlagName(arguments[i]) != signature.flag) continue;
    if (FlagValue(arguments, i).starts_with(signature.value)) return true;
  }
  return false;
}

std::optional<std::string> NamedProgram(const std::vector<Argument>& arguments) {
  std::optional<std::string> named;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (FlagName(arguments[i]) == "defaults_of") named = FlagValue(arguments, i);
  }
  return named == "auto" ? std::nullopt : named;
}

}  // namespace

std::string FlagName(const Argument& argument) {
  const size_t dashes = argument.text.find_first_not_of('-');
  if (dashes != 1 && dashes != 2) return {};
  std::string name = argument.text.substr(dashes, argument.text.find('=') - dashes);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string FlagValue(const std::vector<Argument>& arguments, size_t place) {
  const size_t equals = arguments[place].text.find('=');
  if (equals != std::string::npos) return arguments[place].text.substr(equals + 1);
  return place + 1 < arguments.size() ? arguments[place + 1].text : "";
}

const ForeignProgram* RecognisedProgram(const std::vector<Argument>& arguments) {
  const std::optional<std::string> named = NamedProgram(arguments);
  for (const ForeignProgram& program : Programs()) {
    const bool is_it = named ? *named == program.name
                             : std::any_of(program.signatures.begin(), program.signatures.end(),
                                           [&](const Signature& one) { return Has(arguments, one); });
    if (is_it) return &program;
  }
  return nullptr;
}

const Alias* FindAlias(std::string_view name, const ForeignProgram* program) {
  if (program != nullptr) {
    const auto own = std::find_if(program->rows.begin(), program->rows.end(),
                                  [&](const Alias& alias) { return alias.name == name; });
    if (own != program->rows.end()) return &*own;
  }
  return FindAlias(name);
}

}  // namespace dtrain::config
