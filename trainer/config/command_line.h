// From argv to Config. The arguments are checked and rewritten before gflags parses a value, because gflags would end
// the process with 1 at the first mistake, knows the flags of every linked library, and treats a dash and an underscore
// as different. Three stages over plain lists: expand flagfiles → name flags and values → let gflags parse and store;
// the flags of other tools become ours between the first two (aliases.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/flags.h"

namespace dtrain::config {

// A flag of one executable only, such as --json of dtrain_bench: no part of Config.
struct ExtraFlag {
  std::string name;
  Kind kind = Kind::kText;
  std::string default_value;
  std::string help;
};

// What an executable accepts beyond the flags of Config.
struct Program {
  std::string name = "dtrain_main";
  std::string purpose = {};                // a line for --help
  std::vector<std::string> commands = {};  // where not empty, the first argument must be one of these
  std::vector<ExtraFlag> flags = {};
  std::string version = {};  // of --version; empty: the sources' alone
};

struct CommandLine {
  Config config;
  std::string command;                       // of Program::commands
  std::map<std::string, std::string> extra;  // every ExtraFlag's value; booleans are "true" or "false"
  std::vector<std::string> notes;            // of other tools' flags that mean nothing here (aliases.h)
  std::string answer;                        // not empty: --help or --version; print it and exit with 0
};

// Throws one UsageError that names every mistake. Leaves no trace in gflags: may be called again.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments, const Program& program = {});

// The same for main; argv[0] is skipped.
CommandLine ParseCommandLine(int argc, const char* const* argv, const Program& program = {});

}  // namespace dtrain::config
