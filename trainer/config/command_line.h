// Turns argv into a Config. The arguments are checked and rewritten before gflags parses a value, because gflags would
// end the process with 1 at the first mistake, knows the flags of every linked library, and treats a dash and an
// underscore as different. There are three stages over plain lists: flagfiles are expanded, flags and values are told
// apart, gflags parses and stores the values. Between the first two the flags of other programs are translated
// (aliases.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/flags.h"

namespace dtrain::config {

// A flag of one executable only, such as --json of dtrain_bench. It is not part of Config.
struct ExtraFlag {
  std::string name;
  Kind kind = Kind::kText;
  std::string default_value;
  std::string help;
  data::PathUse path = data::PathUse::kNone;
};

// The parts of an executable's command line beyond the flags of Config.
struct Program {
  std::string name = "dtrain_main";
  std::string purpose = {};                // shown by --help below the usage line
  std::vector<std::string> commands = {};  // if not empty, the first argument must be one of these
  std::vector<ExtraFlag> flags = {};
  std::string version = {};  // shown by --version; empty: the version of the sources alone
};

struct CommandLine {
  Config config;
  std::string command;                       // one of Program::commands; empty if there are none
  std::map<std::string, std::string> extra;  // the value of every ExtraFlag; booleans are "true" or "false"
  std::vector<std::string> notes;            // on flags of other programs (Rewritten::notes)
  std::string answer;                        // of --help or --version, to print before exiting with 0; else empty
};

// `arguments` are without the program's name. Throws one UsageError that names every mistake; `understood`, if not
// null, has the other flags then. May be called repeatedly, since gflags is left as it was.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments, const Program& program = {},
                             Config* understood = nullptr);

// The same for the arguments of main; skips argv[0].
CommandLine ParseCommandLine(int argc, const char* const* argv, const Program& program = {},
                             Config* understood = nullptr);

// The texts of --help and --help=TOPIC, made from the table of flags: grouped by concern, at most 100 columns wide.
std::string Help(const Program& program);

// Returns --help=json: {"program", "version", "commands", "flags"}. Each flag has "name", "type", "default", "help"
// and, as far as they say something, "unit", "minimum", "maximum" (and whether they are excluded), "choices", "tasks"
// (those that use it, if not all do) and "aliases" (its names in other programs).
std::string HelpJson(const Program& program);

// If `topic` names a section (data, optimizer, …), returns the help on its flags, otherwise on the flags whose names
// contain `topic`. Returns an empty string if there are none.
std::string HelpOn(const std::string& topic);

// Returns the names of the sections: "run | data | …".
std::string HelpTopics();

}  // namespace dtrain::config
