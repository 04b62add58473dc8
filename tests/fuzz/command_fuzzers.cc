// What people write and what ranks send: command lines, and messages of the control plane.
#include <sys/socket.h>

#include <string>
#include <vector>

#include "data/error.h"
#include "data/prepare/commands.h"
#include "tests/fuzz/fuzz_target.h"
#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"
#include "trainer/config/problems.h"
#include "trainer/config/resolve.h"
#include "trainer/control/control_message.h"
#include "trainer/control/gathering.h"
#include "trainer/control/line_socket.h"
#include "trainer/control/stall_watch.h"

namespace dtrain::fuzz {
namespace {

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

// A command line with one argument per line, of dtrain_main if the first byte is even, else of dtrain_data. The lines
// after an empty one are a flagfile.
FUZZ_TARGET(command_line) {
  FuzzInput input(whole);
  const bool prepares = input.TakeByte() % 2 == 1;
  const std::string_view text = input.text();
  const size_t end = text.find("\n\n");
  std::string in_file;
  for (const std::string& line : ArgumentsIn(end == std::string_view::npos ? "" : text.substr(end + 2))) {
    in_file += line + "\n";
  }
  const MemoryFile flagfile({reinterpret_cast<const uint8_t*>(in_file.data()), in_file.size()});
  std::vector<std::string> arguments = ArgumentsIn(text.substr(0, end));
  arguments.push_back("--flagfile=" + flagfile.path());
  try {
    if (prepares) {
      data::ParsePrepareCommandLine(arguments);
    } else {
      RunMain(arguments);
    }
  } catch (const Error& error) {
    Require(error.code() == ExitCode::kUsage, "a mistake that is not one of usage");
  }
}

using namespace control;  // NOLINT(google-build-using-namespace)

void Use(const nlohmann::json& message, Speaker speaker) {
  const std::string line = ControlLine(message);
  Require(ParseControlLine(line, speaker) == message, "what is read is not what is written");
  if (message.contains("at")) {
    const Position position = PositionFromJson(message.at("at"));
    Require(!Describe(position).empty() && ToJson(position).size() == 5, "a position");
  }
  if (message.at("kind") != "bad_record") return;
  try {
    BadRecordCount().Add(message);
  } catch (const DataError&) {  // over the budget of bad records
  }
}

void Read(LineSocket& socket, Speaker speaker) {
  for (bool open = true; open;) {
    open = socket.Receive();
    while (const auto line = socket.NextLine()) {
      try {
        Use(ParseControlLine(*line, speaker), speaker);
      } catch (const BadControlLine&) {
        return;
      }
    }
  }
}

// Messages of a control connection. The first byte decides who sends them and whether they arrive in pieces. Messages
// that the parser accepts must do no harm where they are used.
FUZZ_TARGET(control) {
  FuzzInput input(whole);
  const uint8_t choice = input.TakeByte();
  const auto speaker = static_cast<Speaker>(choice % 5);
  const size_t piece = choice < 128 ? whole.size() : 7;
  int ends[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  LineSocket reader(ends[0]);
  reader.set_max_line(kLongestToStrangers);
  {
    LineSocket writer(ends[1]);
    while (!input.empty()) {
      const auto bytes = input.Take(piece);
      // more than the socket's buffer holds
      if (send(writer.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
    }
  }
  Read(reader, speaker);
}

}  // namespace
}  // namespace dtrain::fuzz
