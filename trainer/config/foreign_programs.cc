#include "trainer/config/foreign_programs.h"

#include <algorithm>
#include <string>

#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

using command_line::Argument;

const std::vector<const ForeignProgram*>& Programs() {
  static const std::vector<const ForeignProgram*> programs = {&TimmProgram(), &TorchvisionProgram(), &FairseqProgram()};
  return programs;
}

// Returns the first typed flag, as it was typed, that is one of these signatures; empty if there is none.
std::string TypedFlag(const std::vector<Argument>& arguments, const std::vector<Signature>& signatures) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].place.empty() ? FlagName(arguments[i]) : "";
    const bool is_one = !name.empty() && std::any_of(signatures.begin(), signatures.end(), [&](const Signature& one) {
      return one.flag == name && FlagValue(arguments, i).starts_with(one.value);
    });
    if (is_one) return arguments[i].text.substr(0, arguments[i].text.find('='));
  }
  return {};
}

const Alias* FindIn(const std::vector<Alias>& rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Alias& alias) { return alias.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace

Recognised RecogniseProgram(const std::vector<Argument>& arguments) {
  const std::string named = ForeignCommand(arguments).Value({"defaults_of"}, "auto");
  Recognised found;
  std::string first;
  for (const ForeignProgram* program : Programs()) {
    if (named == program->name) return {program};
    const std::string flag = TypedFlag(arguments, program->signatures);
    if (flag.empty()) continue;
    if (found.program != nullptr && found.mistake.empty()) {
      found.mistake = first + " is a flag of " + std::string(found.program->called) + ", " + flag + " one of " +
                      std::string(program->called) +
                      ": --defaults_of=timm|torchvision|fairseq|none says whose defaults count";
    }
    if (found.program == nullptr) first = flag, found.program = program;
  }
  if (named != "auto") return {};
  if (!found.mistake.empty()) found.program = nullptr;
  if (found.program != nullptr || !found.mistake.empty()) return found;
  for (const ForeignProgram* program : Programs()) {
    if (!TypedFlag(arguments, program->weak_signatures).empty()) return {program};
  }
  return {};
}

const Alias* FindAlias(std::string_view name, const ForeignProgram* program) {
  if (program != nullptr) {
    if (const Alias* own = FindIn(program->rows, name)) return own;
  }
  if (const Alias* shared = FindSharedAlias(name)) return shared;
  if (FindFlag(std::string(name)) != nullptr) return nullptr;
  for (const ForeignProgram* other : Programs()) {
    const Alias* row = FindIn(other->rows, name);
    if (row != nullptr) return row;
  }
  return nullptr;
}

}  // namespace dtrain::config
