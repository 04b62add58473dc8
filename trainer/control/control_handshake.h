// The handshake by which a client and the control server prove to each other that they know the run's token, without
// ever sending it: each answers the other's random number (nonce) with a proof that can only be computed with the
// token. The client proves first, so that the server reveals nothing about the token to strangers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dtrain::control {

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
