// The one parser of lines that come over control connections. Whoever sends them is a stranger until he has proved that
// he knows the run's token, and may be broken after that: nothing is used that was not checked here for depth, types
// and ranges. What the lines mean: control_server.h.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dtrain::distributed {

// Who speaks, and so what may be said.
enum class Speaker {
  kNewcomer,  // to the server: not yet admitted
  kLauncher,  // to the server: admitted, no rank
  kRank,      // to the server
  kDoor,      // the server, to a newcomer
  kServer,    // to ranks and launchers that it has admitted
};

// A line that no process of this program sends; what() says why, without quoting it.
class BadControlLine : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The message: an object whose "kind" is one of the speaker's, with all fields of that kind, of their types and within
// their ranges. Throws BadControlLine, and nothing else.
nlohmann::json ParseControlLine(std::string_view line, Speaker speaker);

// The line for a message (without its end): what is no UTF-8 is replaced, and texts are cut to what the parser takes.
std::string ControlLine(nlohmann::json message);

constexpr size_t kLongestToStrangers = 8192;  // bytes of a line before admission, either way
constexpr size_t kLongestControlText = 4096;  // bytes of a reason, a file's name, a hint

}  // namespace dtrain::distributed
