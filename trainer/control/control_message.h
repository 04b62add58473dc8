// The lines that pass over control connections: their only parser, and the handshake with which they begin. A sender is
// a stranger until it has proved that it knows the run's token, and may be broken even then. So every line is checked
// here for depth, types and ranges before anything in it is used. control_message.cc lists all messages.
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

// The handshake by which a client and the control server prove to each other that they know the run's token, without
// ever sending it: each answers the other's random number (nonce) with a proof that can only be computed with the
// token. The client proves first, so that the server reveals nothing about the token to strangers.
constexpr const char* kControlMagic = "dtrain control";
constexpr int kControlVersion = 2;

// Returns the hello of this process as `rank` of `world_size`, with a new nonce. Launchers are rank -1 of 0.
nlohmann::json MakeHello(int rank, int world_size);

// Returns a name for messages such as "rank 1 (host h, process 123)".
std::string NameOf(const nlohmann::json& hello);
// Returns the part in the brackets, "host h, process 123".
std::string PlaceOf(const nlohmann::json& hello);

// The proofs that the two sides send. `challenge` is the server's nonce; `hello` is the client's, with its nonce. A
// proof covers both nonces and the hello's rank and world size.
std::string ProofOfClient(const std::string& token, const std::string& challenge, const nlohmann::json& hello);
std::string ProofOfServer(const std::string& token, const std::string& challenge, const nlohmann::json& hello);

}  // namespace dtrain::control
