#include "trainer/distributed/agent_board.h"

#include <future>
#include <nlohmann/json.hpp>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "data/machine/thread.h"
#include "trainer/errors.h"

namespace dtrain::distributed {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::TCPStore>;

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

}  // namespace

StorePointer ConnectToStore(const std::string& host, int port, const StoreWait& wait) {
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
  store_->set(kBoardKey, std::vector<uint8_t>(text.begin(), text.end()));
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

}  // namespace dtrain::distributed
