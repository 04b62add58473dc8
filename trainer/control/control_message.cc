// One table has each kind of message: who sends it, its fields, and what it means.
#include "trainer/control/control_message.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "data/shallow_json.h"
#include "data/shown.h"
#include "trainer/config/config.h"
#include "trainer/control/stall_watch.h"
#include "trainer/launch/run_token.h"
#include "trainer/report/log.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

constexpr int64_t kMost = int64_t{1} << 53;  // the largest count; a double represents it exactly, too
constexpr double kLongestWork = 1e12;        // seconds
constexpr int kLargestProcess = 1 << 30;     // Linux gives out process ids below 2²²
constexpr int64_t kWordBytes = 256;

enum class Type { kInteger, kReal, kText, kFlag, kObject, kPosition, kExitCode, kIntegerOrNull };

struct Field {
  const char* name;
  Type type;
  int64_t least = 0, most = 0;  // range of a number; `most` bytes of a text
  bool optional = false;
};

struct Kind {
  Speaker speaker;
  const char* name;
  std::vector<Field> fields;
};

Field Word(const char* name, bool optional = false) { return {name, Type::kText, 0, kWordBytes, optional}; }
Field Text(const char* name) { return {name, Type::kText, 0, kLongestControlText}; }
Field Count(const char* name, int64_t least = 0) { return {name, Type::kInteger, least, kMost}; }
Field Rank(const char* name) { return {name, Type::kInteger, -1, config::kMaxRanks - 1}; }

// A message is {"kind": …} and these fields. ControlServer handles those of clients, launchers and ranks, ControlPlane
// those of the server, and Join greetings.
const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {
      // Within seconds, or it is disconnected.
      {Speaker::kClient,
       "hello",
       {Word("magic"),
        {"version", Type::kInteger, 0, 1'000'000},
        Rank("rank"),
        {"world_size", Type::kInteger, 0, config::kMaxRanks},
        Word("host"),
        {"pid", Type::kInteger, 0, kLargestProcess},
        Word("nonce", /*optional=*/true)}},  // absent in the hello of another version
      {Speaker::kClient, "proof", {Word("proof")}},
      // After it was admitted as a client of rank -1; "noted" answers.
      {Speaker::kLauncher, "death", {{"rank", Type::kInteger, 0, config::kMaxRanks - 1}, Text("reason")}},
      // The rank's Position, several times a second.
      {Speaker::kRank, "at", {{"at", Type::kPosition}}},
      // The rank is ready to start; its object is compared key by key with rank 0's.
      {Speaker::kRank, "config", {{"config", Type::kObject}}},
      // It was asked to stop.
      {Speaker::kRank, "stop", {}},
      // These answer "propose": see StopAgreement.
      {Speaker::kRank, "accept", {Count("point")}},
      {Speaker::kRank, "reject", {Count("point"), Count("passed")}},
      // It ends with its own failure, or has lost a peer.
      {Speaker::kRank, "failed", {{"code", Type::kExitCode}, Text("message")}},
      {Speaker::kRank, "lost", {Text("message")}},
      // See BadRecordMessage.
      {Speaker::kRank,
       "bad_record",
       {Word("split"),
        Count("index"),
        Text("file"),
        {"offset", Type::kIntegerOrNull, 0, kMost},
        Text("reason"),
        Count("dataset_size"),
        {"max_bad_records", Type::kReal, -1, 1},
        {"strict", Type::kFlag}}},
      // It has come to its orderly end.
      {Speaker::kRank, "leave", {}},
      {Speaker::kGreeting, "challenge", {Word("nonce")}},
      {Speaker::kGreeting, "welcome", {{"store_port", Type::kInteger, 0, 65535}, Word("proof")}},
      {Speaker::kGreeting, "refused", {Text("message")}},
      // To all ranks: rank 0's Position, several times a second.
      {Speaker::kServer, "tick", {{"at", Type::kPosition}}},
      // All ranks are ready: training starts.
      {Speaker::kServer, "go", {}},
      // See StopAgreement.
      {Speaker::kServer, "propose", {Count("point", 1)}},
      {Speaker::kServer, "commit", {Count("point", 1)}},
      // All ranks have sent "leave".
      {Speaker::kServer, "bye", {}},
      // The number of different bad records of all ranks together.
      {Speaker::kServer, "bad_records", {Word("split"), Count("count")}},
      // All ranks end with this code; `rank` is the root cause or -1, and `cause` the code with which it has failed.
      {Speaker::kServer,
       "end",
       {{"code", Type::kExitCode},
        Text("message"),
        Text("hint"),
        Rank("rank"),
        {"cause", Type::kExitCode, 0, 0, /*optional=*/true}}},
      // To a launcher.
      {Speaker::kServer, "noted", {}}};
  return kinds;
}

bool IsInteger(const json& value, int64_t least, int64_t most) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(most) && static_cast<int64_t>(number) >= least;
  }
  if (!value.is_number_integer()) return false;
  const auto number = value.get<int64_t>();
  return number >= least && number <= most;
}

bool IsReal(const json& value, double least, double most) {
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return std::isfinite(number) && number >= least && number <= most;
}

bool IsExitCode(const json& value) { return IsInteger(value, 1, 255) && FindExitCode(value.get<int>()) != nullptr; }

// Whether `value` is what ToJson(Position) writes.
bool IsPosition(const json& value) {
  if (!value.is_array() || value.size() != 5) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (!IsInteger(value[i], 0, kMost)) return false;
  }
  return IsInteger(value[3], 0, static_cast<int64_t>(Phase::kLeaving)) && IsReal(value[4], 0, kLongestWork);
}

bool Fits(const Field& field, const json& value) {
  switch (field.type) {
    case Type::kInteger:
      return IsInteger(value, field.least, field.most);
    case Type::kIntegerOrNull:
      return value.is_null() || IsInteger(value, field.least, field.most);
    case Type::kReal:
      return IsReal(value, static_cast<double>(field.least), static_cast<double>(field.most));
    case Type::kText:
      return value.is_string() && value.get_ref<const std::string&>().size() <= static_cast<size_t>(field.most);
    case Type::kFlag:
      return value.is_boolean();
    case Type::kObject:
      return value.is_object();
    case Type::kPosition:
      return IsPosition(value);
    case Type::kExitCode:
      return IsExitCode(value);
  }
  return false;
}

// Returns the length of the longest prefix of up to `most` bytes that ends with a whole UTF-8 character.
size_t BytesOfWholeCharacters(const std::string& text, size_t most) {
  if (text.size() <= most) return text.size();
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return most;
}

std::string Proof(const char* who, const std::string& token, const std::string& challenge, const json& hello) {
  const std::string rank = std::to_string(hello.at("rank").get<int>());
  const std::string world_size = std::to_string(hello.at("world_size").get<int>());
  return launch::Proof(token, {who, challenge, hello.at("nonce").get_ref<const std::string&>(), rank, world_size});
}

}  // namespace

json ParseControlLine(std::string_view line, Speaker speaker) {
  json message = ParseObject(line);
  if (message.is_null()) throw BadControlLine("no JSON object");
  const auto name = message.find("kind");
  if (name == message.end() || !name->is_string()) throw BadControlLine("a message without a kind");
  const auto kind =
      std::ranges::find_if(Kinds(), [&](const Kind& one) { return one.speaker == speaker && *name == one.name; });
  if (kind == Kinds().end()) throw BadControlLine("a message of an unknown kind");
  for (const Field& field : kind->fields) {
    const auto value = message.find(field.name);
    if (value == message.end() && field.optional) continue;
    if (value == message.end() || !Fits(field, *value)) {
      throw BadControlLine(std::string(kind->name) + " with a wrong or missing " + field.name);
    }
  }
  return message;
}

std::string ControlLine(json message) {
  message = json::parse(JsonText(message));
  const auto kind = std::ranges::find_if(Kinds(), [&](const Kind& one) { return message.at("kind") == one.name; });
  if (kind == Kinds().end()) throw std::logic_error("a kind of message that is not in the table");
  for (const Field& field : kind->fields) {
    if (field.type != Type::kText || !message.contains(field.name)) continue;
    auto& text = message.at(field.name).get_ref<std::string&>();
    text.resize(BytesOfWholeCharacters(text, static_cast<size_t>(field.most)));
  }
  return message.dump();
}

json MakeHello(int rank, int world_size) {
  return {{"kind", "hello"}, {"magic", kControlMagic},   {"version", kControlVersion}, {"nonce", launch::RandomToken()},
          {"rank", rank},    {"world_size", world_size}, {"host", report::HostName()}, {"pid", getpid()}};
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
