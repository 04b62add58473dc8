// Joining if something else than rank 0 is at rank 0's address.
#include "trainer/control/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/message_of.h"
#include "trainer/errors.h"

namespace dtrain::control {
namespace {

using testing::HasSubstr;

JoinOptions Towards(const std::string& host, int port, double timeout_seconds) {
  return {.locate =
              [=] {
                return Endpoint{host, port, ""};
              },
          .rank = 1,
          .world_size = 2,
          .timeout_seconds = timeout_seconds};
}

TEST(Join, SaysThatNobodyAnswers) {
  EXPECT_THAT(MessageOf([] { Join(Towards("127.0.0.1", 1, 0.2)); }),
              HasSubstr("rank 0 does not answer at 127.0.0.1:1"));
}

TEST(Join, DoesNotWaitForAListenerThatNeverAnswers) {
  const int silent = ListenOn("127.0.0.1", 0);
  const auto start = Clock::now();
  EXPECT_THAT(MessageOf([&] { Join(Towards("127.0.0.1", PortOf(silent), 0.5)); }),
              HasSubstr("accepts connections, but does not answer"));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
  close(silent);
}

TEST(Join, SaysWhatAForeignServerSaid) {
  const int listening = ListenOn("127.0.0.1", 0);
  std::jthread server([listening] {
    LineSocket connection(accept(listening, nullptr, nullptr));
    WaitForLine(connection, Clock::now() + std::chrono::seconds(5));
    connection.Send("HTTP/1.1 400 Bad Request\r");
  });
  EXPECT_THAT(MessageOf([&] { Join(Towards("127.0.0.1", PortOf(listening), 5)); }),
              HasSubstr("is not rank 0 of dtrain; it answered 'HTTP/1.1 400 Bad Request\\r'"));
  close(listening);
}

TEST(Join, StopsWaitingWhenAsked) {
  JoinOptions options = Towards("127.0.0.1", 1, 60);
  options.stop_requested = [] { return true; };
  EXPECT_THROW(Join(options), Preempted);
}

TEST(LineSocket, SaysThatThePortIsTaken) {
  const int taken = ListenOn("127.0.0.1", 0);
  EXPECT_THAT(MessageOf([&] { ListenOn("127.0.0.1", PortOf(taken)); }),
              HasSubstr("rank 0 cannot listen on 127.0.0.1:" + std::to_string(PortOf(taken))));
  close(taken);
}

TEST(LineSocket, SaysThatAnAddressDoesNotResolve) {
  EXPECT_THAT(MessageOf([] { AddressTowards("no-such-host.invalid", 1234, Clock::now(), [] { return false; }); }),
              HasSubstr("'no-such-host.invalid' does not resolve"));
}

}  // namespace
}  // namespace dtrain::control
