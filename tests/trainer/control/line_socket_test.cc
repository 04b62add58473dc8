// Peers that send too much, or read nothing.
#include "trainer/control/line_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <limits>
#include <string>
#include <thread>

#include "trainer/launch/local_address.h"

namespace dtrain::control {
namespace {

class Pair : public testing::Test {
 protected:
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    reader_ = LineSocket(ends[0]);
    writer_ = LineSocket(ends[1]);
  }
  // Sends `text` again and again until the test is over or the other end is closed.
  std::jthread SendForever(const std::string& text) {
    return std::jthread([this, text](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (send(writer_.descriptor(), text.data(), text.size(), MSG_NOSIGNAL) < 0 && errno == EPIPE) return;
      }
    });
  }

  LineSocket reader_, writer_;
};

// One Receive takes a bounded amount, so that a fast sender does not keep the reader from its other connections.
TEST_F(Pair, AReadTakesAPartOfWhatIsThere) {
  constexpr size_t kMost = size_t{64} << 10;
  std::string text;
  while (text.size() < 2 * kMost) text += "short\n";
  const ssize_t sent = send(writer_.descriptor(), text.data(), text.size(), MSG_NOSIGNAL);
  ASSERT_GT(sent, static_cast<ssize_t>(kMost));
  ASSERT_TRUE(reader_.Receive());
  size_t bytes = 0;
  while (const auto line = reader_.NextLine()) bytes += line->size() + 1;
  EXPECT_GT(bytes, 0U);
  EXPECT_LE(bytes, kMost);
}

TEST_F(Pair, AFloodWithoutLinesEndsTheConversation) {
  const std::jthread sender = SendForever(std::string(60'000, 'x'));
  reader_.set_max_line(200'000);
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  while (reader_.Receive() && Clock::now() < deadline) EXPECT_FALSE(reader_.NextLine().has_value());
  EXPECT_LT(Clock::now(), deadline);
  reader_.Close();
}

// The system gives whoever connects one port of a range after the other, and at last the one that is connected to.
TEST(LineSocket, ARankIsNoPeerOfItself) {
  constexpr int kMostTries = 40'000;
  int port = 0;
  {
    const int listener = launch::ListenOn("127.0.0.1", /*port=*/0);
    port = launch::PortOf(listener) ^ 1;  // those who listen get odd ports, those who connect even ones
    close(listener);
  }
  for (int i = 0; i < kMostTries; ++i) {
    std::string reason;
    const LineSocket socket = TryConnect("127.0.0.1", port, Clock::now() + std::chrono::seconds(10), &reason);
    ASSERT_FALSE(socket.is_open()) << i;
  }
}

TEST_F(Pair, ALineThatIsTooLongIsNotRead) {
  reader_.set_max_line(10);
  writer_.Send("0123456789");
  writer_.Send("0123456789a");
  writer_.Send("later");
  EXPECT_TRUE(reader_.Receive());
  EXPECT_EQ(reader_.NextLine(), "0123456789");
  EXPECT_FALSE(reader_.NextLine().has_value());
  EXPECT_FALSE(reader_.NextLine().has_value());
}

// A megabyte of empty lines would take a quarter of a minute if taking a line moved the rest of the buffer.
TEST_F(Pair, ManyTinyLinesCostLittle) {
  const std::jthread sender = SendForever(std::string(60'000, '\n'));
  const std::clock_t start = std::clock();
  for (size_t lines = 0; lines < 1'000'000;) {
    ASSERT_TRUE(reader_.Receive());
    while (reader_.NextLine()) ++lines;
  }
  EXPECT_LT(std::clock() - start, 5 * CLOCKS_PER_SEC);  // of the sender, too
}

TEST_F(Pair, WhoReadsNothingIsNotWrittenToForEver) {
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 40 && writer_.is_open(); ++i) writer_.Send(line);
  EXPECT_FALSE(writer_.is_open());
}

TEST_F(Pair, LinesSurviveMovesAndPieces) {
  writer_.Send("one");
  const std::string part = "two, in ";
  send(writer_.descriptor(), part.data(), part.size(), 0);
  EXPECT_TRUE(reader_.Receive());
  EXPECT_EQ(reader_.NextLine(), "one");
  LineSocket moved = std::move(reader_);
  EXPECT_FALSE(moved.NextLine().has_value());
  writer_.Send("pieces");
  EXPECT_TRUE(moved.Receive());
  EXPECT_EQ(moved.NextLine(), "two, in pieces");
  writer_.Close();
  EXPECT_FALSE(moved.Receive());
}

TEST(Milliseconds, OfAnyNumberCanBeAddedToAClock) {
  EXPECT_EQ(Milliseconds(0.25), std::chrono::milliseconds(250));
  EXPECT_EQ(Milliseconds(-1), std::chrono::milliseconds(0));
  for (const double many : {1e9, 1e10, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_GT(Clock::now() + Milliseconds(many), Clock::now() + std::chrono::hours(24 * 10)) << many;
  }
}

}  // namespace
}  // namespace dtrain::control
