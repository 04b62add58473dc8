#include "data/sentences/sentence_set.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

std::string Chosen(const std::string& text, const ColumnNames& names = {}, bool wants_label = true) {
  TableReader table("FILE", text, TableFormat::kTsv);
  const TableColumns columns = ChooseColumns(table, names, wants_label);
  return ToText(columns, table);
}

TEST(TableColumns, AreThoseOfGlue) {
  struct Case {
    const char *header, *columns;
  };
  const Case cases[] = {
      {"gj04\t1\t\tOur friends won't buy this.", "text sentence, label label"},  // CoLA
      {"cj99\t0\t*\tThe more we sleep.", "text sentence, label label"},
      {"sentence\tlabel", "text sentence, label label"},  // SST-2
      {"\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "text #1 String, pair #2 String, label Quality"},
      {"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "text question1, pair question2, label is_duplicate"},
      {"index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
       "text sentence1, pair sentence2, label score"},
      {"index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
       "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
       "text sentence1, pair sentence2, label gold_label"},
      {"index\tquestion\tsentence\tlabel", "text question, pair sentence, label label"},      // QNLI
      {"index\tsentence1\tsentence2\tlabel", "text sentence1, pair sentence2, label label"},  // RTE, WNLI
      {"Review\tClass", "text Review, label Class"}};
  for (const Case& one : cases) EXPECT_EQ(Chosen(one.header), one.columns);
}

TEST(TableColumns, AreThoseThatTheUserNames) {
  const std::string header = "id\tsentence1\tsentence2\tlabel\tscore";
  EXPECT_EQ(Chosen(header, {.text = "sentence2", .label = "score"}), "text sentence2, label score");
  EXPECT_EQ(Chosen(header, {.text = "id", .pair = "sentence1", .label = "label"}),
            "text id, pair sentence1, label label");
  EXPECT_EQ(Chosen(header, {.pair = "sentence2", .label = "label"}), "text sentence1, pair sentence2, label label");
  EXPECT_EQ(Chosen("index\tsentence", {}, false), "text sentence") << "a test set";
  EXPECT_EQ(Chosen(header, {.text = "2", .label = "4"}), "text sentence2, label score") << "by their numbers";
  EXPECT_EQ(Chosen("label\t0", {.text = "0"}), "text 0, label label") << "a name counts before a number";
}

TEST(TableColumns, OfTextsByThemselves) {
  const auto chosen = [](const std::string& header, const ColumnNames& names = {}, std::optional<bool> scored = {}) {
    const TableReader table("FILE", header, TableFormat::kTsv);
    return ToText(ChooseTextColumns(table, names, scored), table);
  };
  EXPECT_EQ(chosen("query\tid\tpositive"), "text query, pair positive");
  EXPECT_EQ(chosen("negative_10\tAnchor\tPositive\tnegative"),
            "text Anchor, pair Positive, negative negative_10, negative negative");
  EXPECT_EQ(chosen("sentence1\tsentence2\tsimilarity"), "text sentence1, pair sentence2, label similarity");
  EXPECT_EQ(chosen("sentence1\tsentence2\tscore", {}, false), "text sentence1, pair sentence2");
  EXPECT_EQ(chosen("a\tb\tc\td", {.text = "a", .pair = "c", .negatives = "d,b"}),
            "text a, pair c, negative d, negative b");
  EXPECT_EQ(chosen("a\tb\tlabel\tn", {.text = "a", .pair = "b", .label = "n"}), "text a, pair b, label n");
  EXPECT_ERROR("no columns that are known to hold two texts", chosen("text\tlabel"));
  EXPECT_ERROR("several columns that may hold pairs", chosen("query\tpositive\tpassage"));
  EXPECT_ERROR("one column is named as two", chosen("a\tb", {.text = "a", .pair = "a"}));
}

TEST(TableColumns, ThoseThatAreMissingOrDoubtfulAreNamed) {
  struct Case {
    const char* header;
    ColumnNames names;
    const char *message, *hint;
  };
  const Case cases[] = {
      {"a\tlabel", {}, "FILE has no column that is known to hold texts; it has 'a', 'label'", "--text_column"},
      {"text\tnumber", {}, "no column that is known to hold labels", "--label_column"},
      {"text\treview\tlabel", {}, "several columns that may hold texts: 'text', 'review'", "--text_column"},
      {"text\tlabel\tscore", {}, "several columns that may hold labels: 'label', 'score'", "--label_column"},
      {"text\ttext_pair\tquestion1\tquestion2\tlabel", {}, "several columns that may hold pairs", "--text_pair_column"},
      {"text\tlabel", {.text = "texts"}, "FILE has no column 'texts'; it has 'text', 'label'", "--text_column"},
      {"text\tlabel", {.text = "2"}, "FILE has no column '2'", "--text_column"},
      {"text\tlabel", {.pair = "b"}, "FILE has no column 'b'", "--text_pair_column"},
      {"text\tlabel", {.text = "label"}, "no column that is known to hold labels", "--label_column"},
      {"text\ttext\tlabel", {.text = "text"}, "two columns 'text'", ""},
      {"text\tlabel", {.text = "text", .pair = "text"}, "one column is named as two", "--text_pair_column"}};
  for (const Case& one : cases) {
    const auto choose = [&] { Chosen(one.header, one.names); };
    EXPECT_THAT(MessageOf(choose), HasSubstr(one.message));
    EXPECT_THAT(HintOf(choose), HasSubstr(one.hint));
  }
}

}  // namespace
}  // namespace dtrain::data
