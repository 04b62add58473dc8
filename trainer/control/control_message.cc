// A table lists the fields of each kind of message. The JSON library parses without recursion, but copies, compares and
// writes recursively, so the depth of a line is checked before it is parsed.
#include "trainer/control/control_message.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/shown.h"
#include "trainer/control/stall_watch.h"
#include "trainer/errors.h"
#include "trainer/launch/detectors.h"
#include "trainer/launch/run_token.h"
#include "trainer/report/log.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

constexpr int kDeepest = 32;                 // a configuration has three levels
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
Field Rank(const char* name) { return {name, Type::kInteger, -1, launch::kMaxRanks - 1}; }

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {
      {Speaker::kClient,
       "hello",
       {Word("magic"),
        {"version", Type::kInteger, 0, 1'000'000},
        Rank("rank"),
        {"world_size", Type::kInteger, 0, launch::kMaxRanks},
        Word("host"),
        {"pid", Type::kInteger, 0, kLargestProcess},
        Word("nonce", /*optional=*/true)}},  // absent in the hello of another version
      {Speaker::kClient, "proof", {Word("proof")}},
      {Speaker::kLauncher, "death", {{"rank", Type::kInteger, 0, launch::kMaxRanks - 1}, Text("reason")}},
      {Speaker::kRank, "at", {{"at", Type::kPosition}}},
      {Speaker::kRank, "config", {{"config", Type::kObject}}},
      {Speaker::kRank, "stop", {}},
      {Speaker::kRank, "accept", {Count("point")}},
      {Speaker::kRank, "reject", {Count("point"), Count("passed")}},
      {Speaker::kRank, "failed", {{"code", Type::kExitCode}, Text("message")}},
      {Speaker::kRank, "lost", {Text("message")}},
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
      {Speaker::kRank, "leave", {}},
      {Speaker::kGreeting, "challenge", {Word("nonce")}},
      {Speaker::kGreeting, "welcome", {{"store_port", Type::kInteger, 0, 65535}, Word("proof")}},
      {Speaker::kGreeting, "refused", {Text("message")}},
      {Speaker::kServer, "tick", {{"at", Type::kPosition}}},
      {Speaker::kServer, "go", {}},
      {Speaker::kServer, "propose", {Count("point", 1)}},
      {Speaker::kServer, "commit", {Count("point", 1)}},
      {Speaker::kServer, "bye", {}},
      {Speaker::kServer, "bad_records", {Word("split"), Count("count")}},
      {Speaker::kServer, "end", {{"code", Type::kExitCode}, Text("message"), Text("hint"), Rank("rank")}},
      {Speaker::kServer, "noted", {}}};
  return kinds;
}

// Whether more than kDeepest brackets are open at once, not counting those inside of texts.
bool IsTooDeep(std::string_view line) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (in_text) {
      if (line[i] == '\\') {
        ++i;  // an escaped character does not end the text
      } else if (line[i] == '"') {
        in_text = false;
      }
    } else if (line[i] == '"') {
      in_text = true;
    } else if (line[i] == '[' || line[i] == '{') {
      if (++depth > kDeepest) return true;
    } else if (line[i] == ']' || line[i] == '}') {
      --depth;
    }
  }
  return false;
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

void Check(const json& message, Speaker speaker) {
  if (!message.is_object()) throw BadControlLine("no JSON object");
  const auto name = message.find("kind");
  if (name == message.end() || !name->is_string()) throw BadControlLine("a message without a kind");
  const auto kind = std::find_if(Kinds().begin(), Kinds().end(),
                                 [&](const Kind& one) { return one.speaker == speaker && *name == one.name; });
  if (kind == Kinds().end()) throw BadControlLine("a message of an unknown kind");
  for (const Field& field : kind->fields) {
    const auto value = message.find(field.name);
    if (value == message.end() && field.optional) continue;
    if (value == message.end() || !Fits(field, *value)) {
      throw BadControlLine(std::string(kind->name) + " with a wrong or missing " + field.name);
    }
  }
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
  if (IsTooDeep(line)) throw BadControlLine("brackets too deep");
  try {
    json message = json::parse(line, nullptr, /*allow_exceptions=*/false);
    Check(message, speaker);
    return message;
  } catch (const json::exception&) {
    throw BadControlLine("no JSON object");
  }
}

std::string ControlLine(json message) {
  message = json::parse(message.dump(-1, ' ', false, json::error_handler_t::replace));
  const auto kind =
      std::find_if(Kinds().begin(), Kinds().end(), [&](const Kind& one) { return message.at("kind") == one.name; });
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
