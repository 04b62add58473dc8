#include "trainer/config/foreign_programs.h"

#include <algorithm>
#include <functional>
#include <string>

#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

using command_line::Argument;

const Alias* FindIn(const std::vector<Alias>& rows, std::string_view name) {
  const auto row = std::ranges::find(rows, name, &Alias::name);
  return row == rows.end() ? nullptr : &*row;
}

// Whether this program has a row of the name, and neither another program nor a flag of ours has the name.
bool HasAlone(const ForeignProgram& program, const std::string& name) {
  if (program.has_common_names || !FindIn(program.rows, name) || FindIn(SharedAliases(), name) ||
      FindFlag(name) != nullptr)
    return false;
  return std::ranges::none_of(ForeignPrograms(), [&](const ForeignProgram* other) {
    return other != &program && !other->has_common_names && FindIn(other->rows, name) != nullptr;
  });
}

using IsSignature = std::function<bool(const std::string& name, const std::string& value)>;

bool IsBeside(std::string_view flags, const ForeignCommand& command) {
  const auto has = [&command](std::string_view flag) { return command.Has({std::string(flag)}); };
  return !command.Has({"data_dir", "dist_url", "dist_backend"}) && std::ranges::any_of(WordsOf(flags), has);
}

IsSignature AnyOf(const std::vector<Signature>& signatures, const ForeignCommand& command) {
  return [&signatures, &command](const std::string& name, const std::string& value) {
    return std::ranges::any_of(signatures, [&](const Signature& one) {
      return one.flag == name && Lower(value).starts_with(Lower(std::string(one.value))) &&
             (one.beside.empty() || IsBeside(one.beside, command));
    });
  };
}

// Returns the first typed flag, as it was typed, that is a signature; empty if there is none.
std::string TypedFlag(const std::vector<Argument>& arguments, const IsSignature& is_signature) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].place.empty() ? FlagName(arguments[i]) : "";
    if (name.empty() || !is_signature(name, FlagValue(arguments, i))) continue;
    return arguments[i].text.substr(0, arguments[i].text.find('='));
  }
  return {};
}

}  // namespace

const std::vector<const ForeignProgram*>& ForeignPrograms() {
  static const std::vector<const ForeignProgram*> programs = {
      &TimmProgram(),    &TorchvisionProgram(),  &FairseqProgram(), &NvidiaProgram(),     &AwsProgram(),
      &HorovodProgram(), &TransformersProgram(), &PytorchProgram(), &TensorflowProgram(), &MxnetProgram()};
  return programs;
}

std::vector<Choice> DefaultsToTake() {
  std::vector<Choice> values = {{"auto"}};
  for (const ForeignProgram* program : ForeignPrograms()) values.push_back({std::string(program->name)});
  values.push_back({"none"});
  return values;
}

const ForeignProgram* ProgramOfScript(const std::string& name) {
  for (const ForeignProgram* program : ForeignPrograms()) {
    if (std::ranges::find(program->scripts, name) != program->scripts.end()) return program;
  }
  return nullptr;
}

Recognised RecogniseProgram(const std::vector<Argument>& arguments) {
  const ForeignCommand command(arguments);
  const std::string named = command.Value({"defaults_of"}, "auto");
  const ForeignProgram* of_script = ProgramOfScript(command.Script());
  if (named == "auto" && of_script != nullptr) return {of_script};
  Recognised found;
  std::string first;
  for (const ForeignProgram* program : ForeignPrograms()) {
    if (named == program->name) return {program};
    const IsSignature is_listed = AnyOf(program->signatures, command);
    if (named == "auto" && program->has_common_names && !TypedFlag(arguments, is_listed).empty()) return {program};
    const std::string flag = TypedFlag(arguments, [&](const std::string& name, const std::string& value) {
      return HasAlone(*program, name) || is_listed(name, value);
    });
    if (flag.empty()) continue;
    if (found.program != nullptr && found.mistake.empty()) {
      found.mistake = first + " is a flag of " + std::string(found.program->called) + ", " + flag + " one of " +
                      std::string(program->called) + ": --defaults_of=NAME says whose defaults count, " +
                      FindFlag("defaults_of")->limits.Text();
    }
    if (found.program == nullptr) first = flag, found.program = program;
  }
  if (named != "auto") return {};
  if (!found.mistake.empty()) found.program = nullptr;
  if (found.program != nullptr || !found.mistake.empty()) return found;
  for (const ForeignProgram* program : ForeignPrograms()) {
    if (!TypedFlag(arguments, AnyOf(program->weak_signatures, command)).empty()) return {program};
  }
  // torchvision's file is called so, too, but takes its data by a flag of its own.
  return {command.Script() == "train.py" && !command.Has({"task"}) ? &TimmProgram() : nullptr};
}

const Alias* FindAlias(std::string_view name, const ForeignProgram* program) {
  if (program != nullptr) {
    if (const Alias* own = FindIn(program->rows, name)) return own;
  }
  if (const Alias* shared = FindIn(SharedAliases(), name)) return shared;
  if (FindFlag(std::string(name)) != nullptr) return nullptr;
  for (const ForeignProgram* other : ForeignPrograms()) {
    const Alias* row = other->has_common_names ? nullptr : FindIn(other->rows, name);
    if (row != nullptr) return row;
  }
  return nullptr;
}

}  // namespace dtrain::config
