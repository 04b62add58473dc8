// Messages of a control connection. The first byte decides who sends them and whether they arrive in pieces. Messages
// that the parser accepts must do no harm where they are used.
#include <sys/socket.h>

#include "data/error.h"
#include "tests/fuzz/fuzz_input.h"
#include "trainer/control/control_message.h"
#include "trainer/control/gathering.h"
#include "trainer/control/line_socket.h"
#include "trainer/control/stall_watch.h"

namespace {

using namespace dtrain;
using namespace dtrain::control;

void Use(const nlohmann::json& message, Speaker speaker) {
  const std::string line = ControlLine(message);
  fuzz::Require(ParseControlLine(line, speaker) == message, "what is read is not what is written");
  if (message.contains("at")) {
    const Position position = PositionFromJson(message.at("at"));
    fuzz::Require(!Describe(position).empty() && ToJson(position).size() == 5, "a position");
  }
  if (message.at("kind") != "bad_record") return;
  try {
    BadRecordCount().Add(message);
  } catch (const DataError&) {  // over the budget of bad records
  }
}

void Read(LineSocket& socket, Speaker speaker) {
  for (bool open = true; open;) {
    open = socket.Receive();
    while (const auto line = socket.NextLine()) {
      try {
        Use(ParseControlLine(*line, speaker), speaker);
      } catch (const BadControlLine&) {
        return;
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const uint8_t choice = input.TakeByte();
  const auto speaker = static_cast<Speaker>(choice % 5);
  const size_t piece = choice < 128 ? size : 7;
  int ends[2];
  fuzz::Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  LineSocket reader(ends[0]);
  reader.set_max_line(kLongestToStrangers);
  {
    LineSocket writer(ends[1]);
    while (!input.empty()) {
      const auto bytes = input.Take(piece);
      // more than the socket's buffer holds
      if (send(writer.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
    }
  }
  Read(reader, speaker);
  return 0;
}
