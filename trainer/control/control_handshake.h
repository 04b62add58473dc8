// How a newcomer and the control server find out that both know the run's token, which is never sent: each answers the
// other's random number (nonce) with a proof that only the token makes. The newcomer proves first, so that the server
// says nothing about the token to strangers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dtrain::distributed {

constexpr const char* kControlMagic = "dtrain control";
constexpr int kControlVersion = 2;

// This process's, as `rank` of `world_size`; -1 of 0: a launcher. With a new nonce.
nlohmann::json MakeHello(int rank, int world_size);

// "rank 1 (host h, process 123)", for people.
std::string NameOf(const nlohmann::json& hello);

// What each side shows the other: of both nonces and of what the hello has said.
std::string ProofOfNewcomer(const std::string& token, const std::string& challenge, const nlohmann::json& hello);
std::string ProofOfServer(const std::string& token, const std::string& challenge, const nlohmann::json& hello);

}  // namespace dtrain::distributed
