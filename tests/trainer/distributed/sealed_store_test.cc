#include "trainer/distributed/sealed_store.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "trainer/distributed/agent_board.h"
#include "trainer/errors.h"

namespace dtrain::distributed {
namespace {

using Bytes = std::vector<uint8_t>;

class SealedStoreTest : public testing::Test {
 protected:
  const c10::intrusive_ptr<c10d::HashStore> open_ = c10::make_intrusive<c10d::HashStore>();
  SealedStore store_{open_, "token"};
};

TEST_F(SealedStoreTest, ReturnsWhatTheRunHasWritten) {
  for (const Bytes& value : {Bytes{}, Bytes{0}, Bytes(100'000, 7)}) {
    store_.set("key", value);
    EXPECT_EQ(store_.get("key"), value);
    EXPECT_EQ(store_.clone()->get("key"), value);
  }
  EXPECT_EQ(store_.compareSet("first", Bytes{}, Bytes{1}), Bytes{1});
  EXPECT_EQ(store_.compareSet("first", Bytes{}, Bytes{2}), Bytes{1});
  store_.multiSet({"a", "b"}, {Bytes{3}, Bytes{4}});
  EXPECT_EQ(store_.multiGet({"a", "b"}), (std::vector<Bytes>{Bytes{3}, Bytes{4}}));
}

TEST_F(SealedStoreTest, BelievesNothingElse) {
  store_.set("other", Bytes{1});
  SealedStore foreign(open_, "another token");
  foreign.set("foreign", Bytes{1});
  Bytes changed = open_->get("other");
  changed.back() ^= 1;
  open_->set("moved", open_->get("other"));
  open_->set("changed", changed);
  open_->set("empty", Bytes{});
  open_->set("short", Bytes(63, '0'));
  open_->set("plain", Bytes(200, '0'));
  for (const char* key : {"foreign", "moved", "changed", "empty", "short", "plain"}) {
    EXPECT_THROW(store_.get(key), PeerLostError) << key;
    EXPECT_THROW(store_.multiGet({"other", key}), PeerLostError) << key;
    if (std::string(key) != "empty") {
      EXPECT_THROW(store_.compareSet(key, Bytes{}, Bytes{1}), PeerLostError) << key;
    }
  }
  EXPECT_EQ(store_.get("other"), Bytes{1});
}

TEST(ParseEndpoint, TakesWhatIsPostedAndNothingElse) {
  const control::Endpoint endpoint = ParseEndpoint(R"({"host":"h","port":65535,"token":"t"})");
  EXPECT_EQ(endpoint.host, "h");
  EXPECT_EQ(endpoint.port, 65535);
  EXPECT_EQ(endpoint.token, "t");
  for (const std::string& posting :
       {std::string(""), std::string("[]"), std::string(R"({"host":7,"port":1,"token":"t"})"),
        std::string(R"({"host":"h","port":65536,"token":"t"})"), std::string(R"({"host":"h","port":-1,"token":"t"})"),
        std::string(R"({"host":"h","port":1e300,"token":"t"})"), std::string(100'000, '[')}) {
    EXPECT_THROW(ParseEndpoint(posting), PeerLostError) << posting.substr(0, 50);
  }
}

}  // namespace
}  // namespace dtrain::distributed
