// Under torchrun the agent's store is only where rank 0 posts its own store's address: what an earlier attempt left in
// the agent's store cannot reach a restarted run that way.
#include "trainer/distributed/rendezvous.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAnnouncementInterval{10'000};

std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

milliseconds ToMilliseconds(double seconds) { return milliseconds(static_cast<int64_t>(seconds * 1000)); }

constexpr const char* kRankPrefix = "rank/";
std::string RankKey(int rank) { return kRankPrefix + std::to_string(rank); }

// The address of this machine's interface that leads to host:port (no packet is sent: UDP).
std::string AddressTowards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || found == nullptr) {
    throw PeerLostError("the master address '" + host + "' does not resolve",
                        "check --master_addr (or MASTER_ADDR of the launcher)");
  }
  char name[NI_MAXHOST] = "";
  const int fd = socket(found->ai_family, SOCK_DGRAM, 0);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&local), length, name, sizeof name, nullptr, 0, NI_NUMERICHOST);
  }
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return name[0] != '\0' ? name : "127.0.0.1";
}

// A socket listening on `address` only (TCPStore by itself listens on all interfaces); port 0: any.
int ListenOn(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  const int fd = failure == 0 ? socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  const int yes = 1;
  const bool listening = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                         bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
  const int error = errno;
  if (found != nullptr) freeaddrinfo(found);
  if (listening) return fd;
  if (fd >= 0) close(fd);
  throw PeerLostError("rank 0 cannot listen on " + address + ":" + std::to_string(port) + ": " +
                          (failure != 0 ? gai_strerror(failure) : std::strerror(error)),
                      "choose a free --master_port, and a --master_addr that belongs to rank 0's machine");
}

c10::intrusive_ptr<c10d::TCPStore> Serve(int fd, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.port = 0;
  options.masterListenFd = fd;
  options.waitWorkers = false;
  options.timeout = timeout;
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  getnameinfo(reinterpret_cast<sockaddr*>(&local), length, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  options.port = static_cast<uint16_t>(std::stoi(port));
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

c10::intrusive_ptr<c10d::TCPStore> Connect(const std::string& host, int port, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const std::exception&) {
    throw PeerLostError("no store answers at " + host + ":" + std::to_string(port),
                        "is rank 0 running, and is its port reachable from this machine?");
  }
}

// Rank 0 serves at an address of its own and posts it on the agent's store; the others read it there.
c10::intrusive_ptr<c10d::Store> ThroughAgent(const launch::Launch& launch, const std::string& local_address,
                                             milliseconds timeout) {
  const auto board = Connect(launch.master_addr, launch.master_port, timeout);
  const std::string key = "dtrain/" + std::to_string(launch.restart_count) + "/store";
  if (launch.rank == 0) {
    auto store = Serve(ListenOn(local_address, 0), timeout);
    board->set(key, Bytes(local_address + " " + std::to_string(store->getPort())));
    return store;
  }
  std::string posted;
  try {
    posted = Text(board->get(key));
  } catch (const std::exception&) {
    throw PeerLostError("rank 0 did not post its address at " + launch.master_addr + ":" +
                            std::to_string(launch.master_port) + " in time",
                        "look at rank 0's output; --init_timeout sets how long the others wait");
  }
  const size_t space = posted.find(' ');
  return Connect(posted.substr(0, space), std::stoi(posted.substr(space + 1)), timeout);
}

}  // namespace

Rendezvous::Rendezvous(const launch::Launch& launch, int listen_fd, double timeout_seconds)
    : launch_(launch), timeout_seconds_(timeout_seconds) {
  const milliseconds timeout = ToMilliseconds(timeout_seconds);
  local_address_ = AddressTowards(launch.master_addr, launch.master_port);
  if (launch.agent_store) {
    store_ = ThroughAgent(launch, local_address_, timeout);
  } else if (launch.rank == 0) {
    store_ = Serve(listen_fd >= 0 ? listen_fd : ListenOn(launch.master_addr, launch.master_port), timeout);
  } else {
    store_ = Connect(launch.master_addr, launch.master_port, timeout);
  }
}

Rendezvous::~Rendezvous() = default;

std::vector<std::string> Rendezvous::KeysOfAll(const std::string& prefix) const {
  std::vector<std::string> keys;
  for (int rank = 0; rank < launch_.world_size; ++rank) keys.push_back(prefix + std::to_string(rank));
  return keys;
}

void Rendezvous::WaitForAll() {
  const auto deadline = steady_clock::now() + ToMilliseconds(timeout_seconds_);
  std::vector<std::string> missing = KeysOfAll(kRankPrefix);
  while (true) {
    try {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      store_->wait(missing, std::max(milliseconds(1), std::min(kAnnouncementInterval, left)));
      return;
    } catch (const std::exception&) {
      std::string names;
      std::erase_if(missing, [this](const std::string& key) { return store_->check({key}); });
      if (missing.empty()) return;
      for (const std::string& key : missing) names += (names.empty() ? "" : ", ") + key.substr(key.find('/') + 1);
      const std::string what = "waiting for " + std::to_string(missing.size()) + " of " +
                               std::to_string(launch_.world_size) + " ranks: " + names;
      if (steady_clock::now() >= deadline) {
        throw PeerLostError(what + "; gave up after --init_timeout", "look at the output of the missing ranks");
      }
      report::LogWarning(what);
    }
  }
}

void Rendezvous::Handshake(const std::string& config) {
  const std::string mine = RankKey(launch_.rank);
  if (store_->add("count/" + mine, 1) != 1) {
    throw UsageError("rank " + std::to_string(launch_.rank) + " is there twice",
                     "give every process its own rank, and every run its own master port");
  }
  store_->set(mine, Bytes(config));
  WaitForAll();
  const std::string difference = DifferenceToFirst(config);
  if (!difference.empty()) {
    store_->set("refusal", Bytes(difference));
    store_->add("refusals", 1);
  }
  // Nobody goes on before everybody has compared: a rank that refuses would leave the others in their first collective.
  store_->set("compared/" + std::to_string(launch_.rank), Bytes("1"));
  store_->wait(KeysOfAll("compared/"), ToMilliseconds(timeout_seconds_));
  if (store_->add("refusals", 0) == 0) return;
  const std::string refusal = Text(store_->get("refusal"));
  Leave();
  throw UsageError(refusal, "start all ranks with the same command");
}

std::string Rendezvous::DifferenceToFirst(const std::string& config) const {
  const auto first = nlohmann::json::parse(Text(store_->get(RankKey(0))));
  const auto own = nlohmann::json::parse(config);
  for (const auto& [key, value] : first.items()) {
    const nlohmann::json here = own.value(key, nlohmann::json());
    if (here == value) continue;
    return "rank " + std::to_string(launch_.rank) + " disagrees with rank 0: " + key + " is " + here.dump() + ", not " +
           value.dump();
  }
  return "";
}

void Rendezvous::Leave() {
  store_->set("left/" + std::to_string(launch_.rank), Bytes("1"));
  if (launch_.rank != 0) return;
  try {
    store_->wait(KeysOfAll("left/"), kAnnouncementInterval);
  } catch (const std::exception&) {
    report::LogWarning("some ranks did not say goodbye; the run is complete all the same");
  }
}

std::string Rendezvous::ShareFromFirst(const std::string& key, const std::string& value) {
  if (launch_.rank == 0) store_->set("shared/" + key, Bytes(value));
  return Text(store_->get("shared/" + key));
}

}  // namespace dtrain::distributed
