// Rank 0 reaches its store over the network, but its control server over a pair of sockets. So rank 0 can still report
// which ranks it has lost when the network fails.
#include "trainer/distributed/rendezvous.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "data/machine/thread.h"
#include "trainer/distributed/sealed_store.h"
#include "trainer/errors.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/run_token.h"
#include "trainer/report/log.h"

namespace dtrain::distributed {

namespace {

using Store = c10::intrusive_ptr<c10d::TCPStore>;

std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

constexpr const char* kBoardKey = "dtrain/rank 0";
constexpr auto kStopPoll = std::chrono::milliseconds(100);
constexpr const char* kStoreHint =
    "is torchrun running on its first node, and is its port reachable from this machine?";

// Runs `work` in a thread of its own, which is detached and left behind if it takes too long: c10d's client waits far
// beyond its timeout, or forever, for a server that accepts a connection and is silent.
template <typename Work>
auto WithDeadline(const StoreWait& wait, const std::string& too_late, Work work) {
  auto promise = std::make_shared<std::promise<decltype(work())>>();
  auto result = promise->get_future();
  data::Thread([promise, work = std::move(work)] {
    try {
      promise->set_value(work());
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  const auto deadline = control::Clock::now() + control::Milliseconds(wait.timeout_seconds);
  while (result.wait_for(kStopPoll) != std::future_status::ready) {
    if (wait.stop_requested()) throw Preempted("stopped before the training began");
    if (control::Clock::now() >= deadline) throw PeerLostError(too_late, kStoreHint);
  }
  return result.get();
}

std::string Name(const std::string& host, int port) { return "the store at " + host + ":" + std::to_string(port); }

// Returns a client of the store at host:port. Throws PeerLostError if none answers in time, Preempted if asked to stop.
Store ConnectToStore(const std::string& host, int port, const StoreWait& wait) {
  const auto connect = [host, port, timeout = control::Milliseconds(wait.timeout_seconds)] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(port);
    options.waitWorkers = false;
    options.timeout = timeout;
    try {
      return c10::make_intrusive<c10d::TCPStore>(host, options);
    } catch (const std::exception&) {
      throw PeerLostError(Name(host, port) + " cannot be reached", kStoreHint);
    }
  };
  return WithDeadline(wait, Name(host, port) + " accepts connections, but does not answer", connect);
}

// Gives the TCPStore a socket that listens on `address` only; otherwise it would listen on all interfaces.
Store ServeStore(const std::string& address, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.masterListenFd = launch::ListenOn(address, 0);
  options.port = static_cast<uint16_t>(launch::PortOf(*options.masterListenFd));
  options.waitWorkers = false;
  options.timeout = control::Milliseconds(timeout_seconds);
  return c10::make_intrusive<c10d::TCPStore>(address, options);
}

// The control server's listening socket on rank 0, and the endpoint at which the ranks find it.
struct Listening {
  int descriptor = -1;
  control::Endpoint endpoint;
};

Listening ListenForRanks(const RendezvousOptions& options, const std::string& local_address) {
  const launch::Launch& launch = options.launch;
  Listening listening;
  listening.endpoint = {launch.agent_store ? local_address : launch.master_addr, 0, launch.token};
  if (launch.agent_store && launch.token.empty()) listening.endpoint.token = launch::RandomToken();
  listening.descriptor = options.listen_fd >= 0
                             ? options.listen_fd
                             : launch::ListenOn(listening.endpoint.host, launch.agent_store ? 0 : launch.master_port);
  listening.endpoint.port = launch::PortOf(listening.descriptor);
  return listening;
}

// Returns the two ends of rank 0's connection to its own server, which does not depend on the network.
std::pair<control::LineSocket, int> OwnConnection() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw UsageError(std::string("no pair of sockets: ") + std::strerror(errno), "raise the limit of open files");
  }
  return {control::LineSocket(ends[0]), ends[1]};
}

}  // namespace

control::Endpoint ParseEndpoint(const std::string& posting) {
  constexpr size_t kLongestPosting = 4096;
  const auto json =
      posting.size() <= kLongestPosting ? nlohmann::json::parse(posting, nullptr, false) : nlohmann::json();
  const auto text = [&](const char* key) {
    const bool there = json.is_object() && json.contains(key) && json.at(key).is_string();
    return there ? json.at(key).get<std::string>() : std::string();
  };
  const bool has_port = json.is_object() && json.contains("port") && json.at("port").is_number_unsigned();
  const uint64_t port = has_port ? json.at("port").get<uint64_t>() : 0;
  if (text("host").empty() || port < 1 || port > 65535) {
    throw PeerLostError("the launcher's store holds no valid address of rank 0", kStoreHint);
  }
  return {text("host"), static_cast<int>(port), text("token")};
}

AgentBoard::AgentBoard(const std::string& host, int port, StoreWait wait)
    : name_(Name(host, port)), wait_(std::move(wait)), store_(ConnectToStore(host, port, wait_)) {}
AgentBoard::~AgentBoard() = default;

void AgentBoard::Post(const control::Endpoint& endpoint) {
  const std::string text =
      nlohmann::json{{"host", endpoint.host}, {"port", endpoint.port}, {"token", endpoint.token}}.dump();
  store_->set(kBoardKey, Bytes(text));
}

std::optional<control::Endpoint> AgentBoard::Read() const {
  const auto read = [store = store_, name = name_]() -> std::optional<control::Endpoint> {
    try {
      if (!store->check({kBoardKey})) return std::nullopt;
      return ParseEndpoint(store->get_to_str(kBoardKey));
    } catch (const PeerLostError&) {
      throw;
    } catch (const std::exception&) {
      throw PeerLostError(name + ", on which rank 0 posts its address, is gone", kStoreHint);
    }
  };
  return WithDeadline(wait_, name_ + " does not answer any more", read);
}

Rendezvous::Rendezvous(const RendezvousOptions& options, control::ControlPlaneOptions control)
    : launch_(options.launch) {
  const double timeout = options.init_timeout_seconds;
  const StoreWait store_wait{timeout, control.stop_requested};
  local_address_ = control::AddressTowards(launch_.master_addr, launch_.master_port,
                                           control::Clock::now() + control::Milliseconds(timeout),
                                           control.stop_requested, control.warn);
  if (launch_.agent_store) {
    board_ = std::make_unique<AgentBoard>(launch_.master_addr, launch_.master_port, store_wait);
  }
  const control::JoinOptions join{
      .locate =
          [&] {
            return board_ ? board_->Read() : control::Endpoint{launch_.master_addr, launch_.master_port, launch_.token};
          },
      .location_may_be_old = board_ != nullptr,
      .rank = launch_.rank,
      .world_size = launch_.world_size,
      .timeout_seconds = timeout,
      .stop_requested = control.stop_requested,
      .warn = control.warn};
  std::unique_ptr<control::ControlServer> server;
  control::Joined joined;
  if (launch_.rank == 0) {
    auto [own_end, servers_end] = OwnConnection();
    const control::Endpoint here = Serve(options, servers_end, control, server);
    joined = control::JoinThrough(std::move(own_end), here, join);
    if (board_) {
      was_started_before_ = board_->Read().has_value();
      board_->Post(here);
    }
  } else {
    joined = control::Join(join);
  }
  const control::Endpoint endpoint = joined.endpoint;
  const int store_port = joined.store_port;
  control.rank = launch_.rank;
  control.world_size = launch_.world_size;
  control_ = std::make_shared<control::ControlPlane>(std::move(control), std::move(joined), std::move(server));
  // Without stop_requested, because from here on the control plane handles stops.
  if (!store_) store_ = ConnectToStore(endpoint.host, store_port, {.timeout_seconds = timeout});
  store_ = c10::make_intrusive<SealedStore>(store_, endpoint.token);
}

// Starts the store and the control server on rank 0. Returns the server's endpoint.
control::Endpoint Rendezvous::Serve(const RendezvousOptions& options, int own_descriptor,
                                    const control::ControlPlaneOptions& control,
                                    std::unique_ptr<control::ControlServer>& server) {
  const Listening listening = ListenForRanks(options, local_address_);
  if (listening.endpoint.token.empty() && launch_.world_size > 1 && !launch::IsLoopback(local_address_)) {
    control.warn("anyone who can reach " + listening.endpoint.host + ":" + std::to_string(listening.endpoint.port) +
                 " can join and end this run: give all ranks the same secret in " + launch::kTokenVariable +
                 " (docs/trust.md)");
  }
  const Store store = ServeStore(listening.endpoint.host, options.init_timeout_seconds);
  store_ = store;
  server = std::make_unique<control::ControlServer>(
      control::ControlServerOptions{.listening_descriptor = listening.descriptor,
                                    .own_descriptor = own_descriptor,
                                    .store_port = store->getPort(),
                                    .token = listening.endpoint.token,
                                    .world_size = launch_.world_size,
                                    .init_timeout_seconds = options.init_timeout_seconds,
                                    .comm_timeout_seconds = control.comm_timeout_seconds,
                                    .warn = control.warn});
  return listening.endpoint;
}

Rendezvous::~Rendezvous() = default;

std::string Rendezvous::ShareFromFirst(const std::string& key, const std::string& value) {
  if (launch_.rank == 0) store_->set("shared/" + key, Bytes(value));
  return Text(store_->get("shared/" + key));
}

std::string Rendezvous::ShareFromEarliest(const std::string& key, const std::string& value) {
  return Text(store_->compareSet("shared/" + key, {}, Bytes(value)));
}

std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id.empty() ? report::HostName() : id;
}

// Each rank posts its GPU; rank 0 compares them and posts the result. So every rank ends with the same message.
void RequireDistinctGpus(Rendezvous& rendezvous, const device::Gpu& gpu, const std::string& machine) {
  const auto key_of = [](int rank) { return "gpu/" + std::to_string(rank); };
  const launch::Launch& launch = rendezvous.launch();
  const nlohmann::json mine = {
      {"host", report::HostName()}, {"machine", machine}, {"pci_id", gpu.pci_id}, {"uuid", gpu.uuid}};
  rendezvous.store()->set(key_of(launch.rank), mine.dump());
  std::string problem;
  if (launch.rank == 0) {
    std::vector<device::RankGpu> ranks;
    for (int rank = 0; rank < launch.world_size; ++rank) {
      const auto text = rendezvous.store()->get_to_str(key_of(rank));
      const auto posted = nlohmann::json::parse(text);
      ranks.push_back({rank, posted.at("host"), posted.at("machine"), posted.at("pci_id"), posted.at("uuid")});
    }
    problem = device::SharedGpu(ranks);
  }
  problem = rendezvous.ShareFromFirst("shared_gpu", problem);
  if (problem.empty()) return;
  rendezvous.control()->Leave();  // keeps rank 0's store alive until all ranks have read the result
  throw UsageError(
      problem,
      "start at most one rank per GPU; CUDA_VISIBLE_DEVICES must name all GPUs of the machine, or a different "
      "one for each rank");
}

}  // namespace dtrain::distributed
