// A command line with one argument per line, of dtrain_main if the first byte is even, else of dtrain_data. The lines
// after an empty one are a flagfile.
#include <string>
#include <vector>

#include "data/error.h"
#include "data/prepare/commands.h"
#include "tests/fuzz/fuzz_input.h"
#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"

namespace {

using namespace dtrain;

// Arguments that name flagfiles are left out, because those would be files of this machine.
std::vector<std::string> ArgumentsIn(std::string_view text) {
  std::vector<std::string> arguments;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string line(text.substr(0, end));
    if (line.find("flagfile") == std::string::npos) arguments.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return arguments;
}

void RunMain(const std::vector<std::string>& arguments) {
  auto line = config::ParseCommandLine(arguments);
  if (!line.answer.empty() || !config::Problems(line.config, 2, {}).empty()) return;
  config::Resolve(line.config, 2);
  config::ToJson(line.config).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const bool prepares = input.TakeByte() % 2 == 1;
  const std::string_view text = input.text();
  const size_t end = text.find("\n\n");
  std::string in_file;
  for (const std::string& line : ArgumentsIn(end == std::string_view::npos ? "" : text.substr(end + 2))) {
    in_file += line + "\n";
  }
  const fuzz::MemoryFile flagfile({reinterpret_cast<const uint8_t*>(in_file.data()), in_file.size()});
  std::vector<std::string> arguments = ArgumentsIn(text.substr(0, end));
  arguments.push_back("--flagfile=" + flagfile.path());
  try {
    if (prepares) {
      data::ParsePrepareCommandLine(arguments);
    } else {
      RunMain(arguments);
    }
  } catch (const Error& error) {
    fuzz::Require(error.code() == ExitCode::kUsage, "a mistake that is not one of usage");
  }
  return 0;
}
