#include "trainer/control/control_message.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trainer/control/gathering.h"
#include "trainer/control/stall_watch.h"

namespace dtrain::control {
namespace {

using nlohmann::json;

std::string Nested(int depth) {
  std::string text = R"({"kind":"config","config":)";
  for (int i = 0; i < depth; ++i) text += R"({"a":)";
  return text + "0" + std::string(static_cast<size_t>(depth) + 1, '}');
}

TEST(ControlMessage, RefusesWhatIsNoMessageOfTheSpeaker) {
  for (const char* line : {"", "[]", "7", "{", "\xff\xfe", R"({"kind":7})", R"({"kind":"end"})",
                           R"({"kind":"nothing"})", "GET / HTTP/1.1", R"({"kind":"go"})"}) {
    EXPECT_THROW(ParseControlLine(line, Speaker::kRank), BadControlLine) << line;
  }
  EXPECT_NO_THROW(ParseControlLine(R"({"kind":"go"})", Speaker::kServer));
  EXPECT_THROW(ParseControlLine(R"({"kind":"stop"})", Speaker::kClient), BadControlLine);
  EXPECT_THROW(ParseControlLine(R"({"kind":"death","rank":1,"reason":""})", Speaker::kClient), BadControlLine);
}

TEST(ControlMessage, RefusesWhatIsTooDeep) {
  EXPECT_NO_THROW(ParseControlLine(Nested(20), Speaker::kRank));
  EXPECT_THROW(ParseControlLine(Nested(70), Speaker::kRank), BadControlLine);
  EXPECT_THROW(ParseControlLine(Nested(100'000), Speaker::kRank), BadControlLine);
  EXPECT_THROW(ParseControlLine(std::string(4'000'000, '['), Speaker::kRank), BadControlLine);
  // Brackets inside of texts do not count as depth.
  const json config = {{"kind", "config"}, {"config", {{"name", "\\\"" + std::string(100, '[')}}}};
  EXPECT_EQ(ParseControlLine(ControlLine(config), Speaker::kRank), config);
  const std::string after_a_quote = R"({"kind":"config","config":{"a":"\"","b":)" + std::string(100'000, '[') + "}}";
  EXPECT_THROW(ParseControlLine(after_a_quote, Speaker::kRank), BadControlLine);
}

TEST(ControlMessage, ChecksTypesAndRanges) {
  struct Case {
    Speaker speaker;
    const char* line;
    bool good;
  };
  const Case cases[] = {
      {Speaker::kRank, R"({"kind":"at","at":[1,2,3,8,0.5]})", true},
      {Speaker::kRank, R"({"kind":"at","at":[1,2,3,9,0.5]})", false},
      {Speaker::kRank, R"({"kind":"at","at":[1,2,3,-1,0.5]})", false},
      {Speaker::kRank, R"({"kind":"at","at":[1,2,3,4]})", false},
      {Speaker::kRank, R"({"kind":"at","at":[1,2,3,4,1e300]})", false},
      {Speaker::kRank, R"({"kind":"at","at":[1,2,3,4,1e999]})", false},
      {Speaker::kRank, R"({"kind":"at","at":[1.5,2,3,4,0]})", false},
      {Speaker::kRank, R"({"kind":"at","at":{"0":1}})", false},
      {Speaker::kRank, R"({"kind":"accept","point":9007199254740992})", true},
      {Speaker::kRank, R"({"kind":"accept","point":9223372036854775808})", false},
      {Speaker::kRank, R"({"kind":"accept","point":"7"})", false},
      {Speaker::kRank, R"({"kind":"accept"})", false},
      {Speaker::kRank, R"({"kind":"failed","code":3,"message":"m"})", true},
      {Speaker::kRank, R"({"kind":"failed","code":0,"message":"m"})", false},
      {Speaker::kRank, R"({"kind":"config","config":[]})", false},
      {Speaker::kServer, R"({"kind":"end","code":75,"message":"","hint":"","rank":-1})", true},
      {Speaker::kServer, R"({"kind":"end","code":0,"message":"","hint":"","rank":-1})", false},
      {Speaker::kServer, R"({"kind":"end","code":99999,"message":"","hint":"","rank":-1})", false},
      {Speaker::kServer, R"({"kind":"end","code":4,"message":"","hint":"","rank":-2})", false},
      {Speaker::kServer, R"({"kind":"end","code":4,"message":7,"hint":"","rank":0})", false},
      {Speaker::kServer, R"({"kind":"propose","point":0})", false},
      {Speaker::kGreeting, R"({"kind":"welcome","store_port":65535,"proof":""})", true},
      {Speaker::kGreeting, R"({"kind":"welcome","store_port":65536,"proof":""})", false},
      {Speaker::kLauncher, R"({"kind":"death","rank":1000000,"reason":""})", false},
  };
  for (const Case& one : cases) {
    bool good = true;
    try {
      ParseControlLine(one.line, one.speaker);
    } catch (const BadControlLine&) {
      good = false;
    }
    EXPECT_EQ(good, one.good) << one.line;
  }
}

TEST(ControlMessage, LongTextsAreCutToWhatIsRead) {
  const std::string long_text = std::string(kLongestControlText - 1, 'x') + "é and more";
  const json read = ParseControlLine(ControlLine({{"kind", "lost"}, {"message", long_text}}), Speaker::kRank);
  EXPECT_EQ(read.at("message"), std::string(kLongestControlText - 1, 'x'));
  // Each invalid byte is replaced by three bytes.
  const json replaced =
      ParseControlLine(ControlLine({{"kind", "lost"}, {"message", std::string(5000, '\xff')}}), Speaker::kRank);
  EXPECT_LE(replaced.at("message").get<std::string>().size(), kLongestControlText);
}

using Contact = Gathering::Contact;

TEST(Gathering, ComparesAsSoonAsBothAreThere) {
  Gathering gathering(3);
  EXPECT_FALSE(gathering.Ready(2, {{"lr", 0.2}, {"own", 1}}, "host c"));
  EXPECT_FALSE(gathering.Ready(2, {{"lr", 0.1}}, "host c"));  // the first one counts
  const auto found = gathering.Ready(0, {{"lr", 0.1}}, "host a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->message, "rank 2 disagrees with rank 0: lr is 0.2, not 0.1 (host c)");
  EXPECT_EQ(found->hint, "start all ranks with the same command");
  EXPECT_FALSE(gathering.all_are_ready());
  EXPECT_FALSE(gathering.Ready(1, {{"lr", 0.1}, {"own", 2}}, "host b"));
  EXPECT_TRUE(gathering.all_are_ready());
}

TEST(Gathering, TheHintDependsOnTheKey) {
  const auto hint_for = [](const std::string& key, const std::string& weights) {
    Gathering gathering(2);
    EXPECT_FALSE(gathering.Ready(0, {{key, 1}, {"init_weights", weights}}, ""));
    return gathering.Ready(1, {{"init_weights", weights}}, "")->hint;
  };
  const std::string same_command = "start all ranks with the same command";
  EXPECT_EQ(hint_for("build", "").find("copy the same program"), 0U);
  EXPECT_EQ(hint_for("device", "").find("--doctor"), 0U);
  EXPECT_EQ(hint_for("data_x", "").find("the same files"), 0U);
  EXPECT_EQ(hint_for("data_format", "a"), same_command);  // a flag, no digest of files
  EXPECT_EQ(hint_for("lr", "a"), same_command);
  EXPECT_EQ(hint_for("crop", ""), same_command);
  EXPECT_EQ(hint_for("crop", "a"), same_command + ", and let --init_weights, which may tell it, be on all machines");
}

TEST(Gathering, NamesWhoIsMissingAndWhy) {
  Gathering gathering(5);
  EXPECT_FALSE(gathering.Ready(0, nlohmann::json::object(), ""));
  EXPECT_FALSE(gathering.Ready(3, nlohmann::json::object(), ""));
  Contact contacts[] = {Contact::kAnswers, Contact::kNone, Contact::kAnswers, Contact::kSilent, Contact::kNone};
  EXPECT_EQ(gathering.Missing([&](int rank) { return contacts[rank]; }),
            "waiting for 3 of 5 ranks: 1, 4 not there; 3 does not answer");
  std::ranges::fill(contacts, Contact::kAnswers);
  EXPECT_EQ(gathering.Missing([&](int rank) { return contacts[rank]; }),
            "waiting for 3 of 5 ranks: 1, 2, 4 still preparing");
}

TEST(RankList, ReadsAsAPersonWouldWriteIt) {
  using Ranks = std::vector<int>;
  for (const auto& [ranks, text] : {std::pair(Ranks{}, ""), std::pair(Ranks{3}, "3"), std::pair(Ranks{1, 3}, "1, 3"),
                                    std::pair(Ranks{1, 2}, "1, 2"), std::pair(Ranks{1, 2, 3, 7}, "1-3, 7")}) {
    RankList list;
    for (const int rank : ranks) list.Add(rank);
    EXPECT_EQ(list.count(), static_cast<int>(ranks.size()));
    EXPECT_EQ(list.Text(), text);
  }
  RankList all, odd;
  for (int rank = 1; rank < 1'000'000; ++rank) all.Add(rank);
  for (int rank = 1; rank < 1'000'000; rank += 2) odd.Add(rank);
  EXPECT_EQ(all.Text(), "1-999999");
  EXPECT_EQ(odd.Text(), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 499990 more");
}

}  // namespace
}  // namespace dtrain::control
