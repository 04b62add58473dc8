// Under torchrun the agent's store is only where rank 0 posts its address: what an earlier attempt left there leads to
// a server that is gone, or whose run has another token, and the next look finds the new one.
#include "trainer/distributed/rendezvous.h"

#include <sys/socket.h>

#include <future>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::distributed {
namespace {

using Store = c10::intrusive_ptr<c10d::TCPStore>;

std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// TCPStore by itself listens on all interfaces; given a socket it uses that.
Store Serve(const std::string& address, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.masterListenFd = ListenOn(address, 0);
  options.port = static_cast<uint16_t>(PortOf(*options.masterListenFd));
  options.waitWorkers = false;
  options.timeout = Milliseconds(timeout_seconds);
  return c10::make_intrusive<c10d::TCPStore>(address, options);
}

// A TCPStore client that meets a silent listener waits far longer than its timeout: it gets a thread of its own, which
// is left behind then.
Store Connect(const std::string& host, int port, double timeout_seconds) {
  auto promise = std::make_shared<std::promise<Store>>();
  std::future<Store> connected = promise->get_future();
  std::thread([promise, host, port, timeout_seconds] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(port);
    options.waitWorkers = false;
    options.timeout = Milliseconds(timeout_seconds);
    try {
      promise->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  const std::string name = host + ":" + std::to_string(port);
  const std::string hint = "is it running, and is its port reachable from this machine?";
  if (connected.wait_for(Milliseconds(timeout_seconds)) != std::future_status::ready) {
    throw PeerLostError("the store at " + name + " does not answer", hint);
  }
  try {
    return connected.get();
  } catch (const std::exception&) {
    throw PeerLostError("no store answers at " + name, hint);
  }
}

std::string RandomToken() {
  std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

std::string BoardKey(const launch::Launch& launch) {
  return "dtrain/" + std::to_string(launch.restart_count) + "/rank 0";
}

// Rank 0's: the server's socket, and where the others (and rank 0 itself) find it.
struct Listening {
  int descriptor = -1;
  Endpoint endpoint;
};

Listening ListenForRanks(const RendezvousOptions& options, const std::string& local_address) {
  const launch::Launch& launch = options.launch;
  Listening listening;
  listening.endpoint = {launch.agent_store ? local_address : launch.master_addr, 0, options.token};
  if (launch.agent_store && options.token.empty()) listening.endpoint.token = RandomToken();
  listening.descriptor = options.listen_fd >= 0
                             ? options.listen_fd
                             : ListenOn(listening.endpoint.host, launch.agent_store ? 0 : launch.master_port);
  listening.endpoint.port = PortOf(listening.descriptor);
  return listening;
}

Endpoint ReadBoard(c10d::Store& board, const std::string& key) {
  try {
    const auto posted = nlohmann::json::parse(Text(board.get(key)));
    return {posted.at("host"), posted.at("port"), posted.at("token")};
  } catch (const std::exception&) {
    throw PeerLostError("rank 0 did not post its address on the launcher's store in time",
                        "look at rank 0's output; --init_timeout sets how long the others wait");
  }
}

}  // namespace

Rendezvous::Rendezvous(const RendezvousOptions& options, ControlPlaneOptions control) : launch_(options.launch) {
  const double timeout = options.init_timeout_seconds;
  local_address_ = AddressTowards(launch_.master_addr, launch_.master_port, Clock::now() + Milliseconds(timeout));
  Store board;
  if (launch_.agent_store) board = Connect(launch_.master_addr, launch_.master_port, timeout);
  JoinOptions join{.locate =
                       [&] {
                         return Endpoint{launch_.master_addr, launch_.master_port, options.token};
                       },
                   .rank = launch_.rank,
                   .world_size = launch_.world_size,
                   .timeout_seconds = timeout,
                   .stop_requested = control.stop_requested,
                   .warn = control.warn};
  std::unique_ptr<ControlServer> server;
  if (launch_.rank == 0) {
    const Listening listening = ListenForRanks(options, local_address_);
    const Store served = Serve(listening.endpoint.host, timeout);
    store_ = served;
    server = std::make_unique<ControlServer>(ControlServerOptions{.listening_descriptor = listening.descriptor,
                                                                  .store_port = served->getPort(),
                                                                  .token = listening.endpoint.token,
                                                                  .world_size = launch_.world_size,
                                                                  .init_timeout_seconds = timeout,
                                                                  .comm_timeout_seconds = control.comm_timeout_seconds,
                                                                  .warn = control.warn});
    const Endpoint& here = listening.endpoint;
    if (board) {
      const nlohmann::json posted = {{"host", here.host}, {"port", here.port}, {"token", here.token}};
      board->set(BoardKey(launch_), Bytes(posted.dump()));
    }
    join.locate = [here] { return here; };
  } else if (board) {
    join.locate = [&] { return ReadBoard(*board, BoardKey(launch_)); };
  }
  Joined joined = Join(join);
  const Endpoint endpoint = joined.endpoint;
  const int store_port = joined.store_port;
  control.rank = launch_.rank;
  control.world_size = launch_.world_size;
  control_ = std::make_shared<ControlPlane>(std::move(control), std::move(joined), std::move(server));
  if (!store_) store_ = Connect(endpoint.host, store_port, timeout);
}

Rendezvous::~Rendezvous() = default;

std::string Rendezvous::ShareFromFirst(const std::string& key, const std::string& value) {
  if (launch_.rank == 0) store_->set("shared/" + key, Bytes(value));
  return Text(store_->get("shared/" + key));
}

}  // namespace dtrain::distributed
