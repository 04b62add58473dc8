#include "trainer/control/control_handshake.h"

#include <unistd.h>

#include "data/shown.h"
#include "trainer/launch/run_token.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

std::string Proof(const char* who, const std::string& token, const std::string& challenge, const json& hello) {
  const std::string rank = std::to_string(hello.at("rank").get<int>());
  const std::string world_size = std::to_string(hello.at("world_size").get<int>());
  return launch::Proof(token, {who, challenge, hello.at("nonce").get_ref<const std::string&>(), rank, world_size});
}

}  // namespace

json MakeHello(int rank, int world_size) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return {{"kind", "hello"},
          {"magic", kControlMagic},
          {"version", kControlVersion},
          {"nonce", launch::RandomToken()},
          {"rank", rank},
          {"world_size", world_size},
          {"host", host},
          {"pid", getpid()}};
}

std::string NameOf(const json& hello) {
  return "rank " + std::to_string(hello.at("rank").get<int>()) + " (" + PlaceOf(hello) + ")";
}

std::string PlaceOf(const json& hello) {
  return "host " + Shown(hello.at("host").get_ref<const std::string&>()) + ", process " +
         std::to_string(hello.at("pid").get<int64_t>());
}

std::string ProofOfClient(const std::string& token, const std::string& challenge, const json& hello) {
  return Proof("client", token, challenge, hello);
}

std::string ProofOfServer(const std::string& token, const std::string& challenge, const json& hello) {
  return Proof("server", token, challenge, hello);
}

}  // namespace dtrain::control
