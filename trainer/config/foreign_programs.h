// Programs whose whole commands are taken over: if one is recognised by its flags, what it does where a command is
// silent counts here, too, because a pasted command would otherwise train something else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/command_line/parser.h"
#include "trainer/config/aliases.h"
#include "trainer/config/choices.h"

namespace dtrain::config {

// A flag that tells which program a command is for, with the beginning of its value.
struct Signature {
  std::string_view flag;
  std::string_view value = {};
  // Flags with spaces between them, one of which must be there, too, but neither --data_dir, which is ours, nor
  // --dist-url and --dist-backend, which are PyTorch's; empty: none.
  std::string_view beside = {};
};

struct ForeignProgram {
  std::string_view name;    // the value of --defaults_of
  std::string_view called;  // for people
  // One of them in a typed command is enough. So are the rows whose names no other program has, nor a flag of ours.
  std::vector<Signature> signatures;
  // Returns flags of ours, "--name=value", where its defaults differ from ours in this command. Those that the command
  // gives are left out afterwards.
  std::vector<std::string> (*defaults)(const ForeignCommand& command);
  std::vector<Alias> rows;         // its own flags, and those whose names other programs have with another meaning
  bool turns_photographs = false;  // as their EXIF orientation says, or reads none
  std::vector<Signature> weak_signatures = {};  // flags that count only if no program has a signature
  std::vector<std::string_view> scripts = {};   // its files, one of which may stand first in a command
  bool has_common_names = false;  // its rows have names that mean other things elsewhere: only signatures tell
};

const ForeignProgram& FairseqProgram();
// Returns a command of fairseq-hydra-train as one of fairseq-train: group.key=value is --key=value, and the settings in
// DIR/NAME.yaml of --config-dir and --config-name come first; ~group.key and a value of false or null take a setting
// away, and -m and hydra.… mean nothing for one job. Others are returned as they are.
std::vector<command_line::Argument> WithoutHydra(const std::vector<command_line::Argument>& arguments,
                                                 std::vector<std::string>& mistakes);
const ForeignProgram& TimmProgram();
const ForeignProgram& TorchvisionProgram();
const ForeignProgram& NvidiaProgram();
const ForeignProgram& AwsProgram();
const ForeignProgram& HorovodProgram();
const ForeignProgram& PytorchProgram();
const ForeignProgram& TransformersProgram();
const ForeignProgram& TensorflowProgram();
const ForeignProgram& MxnetProgram();
// Returns all of them.
const std::vector<const ForeignProgram*>& ForeignPrograms();

// Returns the values of --defaults_of: their names, auto and none.
std::vector<Choice> DefaultsToTake();

// Returns the program that has a file of this name; or null.
const ForeignProgram* ProgramOfScript(const std::string& name);

struct Recognised {
  const ForeignProgram* program = nullptr;  // whose defaults count; may be null
  std::string mistake = {};                 // if not empty: two programs have flags in the command
};

// Returns the program whose defaults count: that of --defaults_of, whose file stands first, or whose flags were typed.
// Flags in flag files make no program, because our own recipes share some names with others.
Recognised RecogniseProgram(const std::vector<command_line::Argument>& arguments);

// Returns the row of the flag `name` (with underscores) in this program (may be null), in the tables that all share, or
// in any other program; or null.
const Alias* FindAlias(std::string_view name, const ForeignProgram* program);

}  // namespace dtrain::config
