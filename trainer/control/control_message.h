// The only parser of lines that arrive over control connections. A sender is a stranger until it has proved that it
// knows the run's token, and may be broken even then. So every line is checked here for depth, types and ranges before
// anything in it is used. control_server.h explains the messages.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dtrain::control {

// The sender of a line, which determines the kinds of message that are valid.
enum class Speaker {
  kClient,    // a process that the server has not admitted yet, to the server
  kLauncher,  // an admitted launcher, to the server
  kRank,      // an admitted rank, to the server
  kGreeting,  // the server, to a client
  kServer,    // the server, to an admitted rank or launcher
};

// Thrown for a line that no process of this program sends. what() says why, without quoting the line.
class BadControlLine : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns the message: an object whose "kind" is one of the speaker's, with all fields of that kind, each of the right
// type and within its range. Throws BadControlLine, and nothing else.
nlohmann::json ParseControlLine(std::string_view line, Speaker speaker);

// Returns the line for a message of a known kind, without the newline. Invalid UTF-8 is replaced, and texts are cut to
// the length that the parser accepts.
std::string ControlLine(nlohmann::json message);

constexpr size_t kLongestToStrangers = 8192;  // bytes of a line before admission, in both directions
constexpr size_t kLongestControlText = 4096;  // bytes of a text field: a reason, a file's name, a hint

}  // namespace dtrain::control
