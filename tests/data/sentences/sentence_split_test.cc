#include "data/sentences/sentence_split.h"

#include <gmock/gmock.h>

#include "data/text/token_rows.h"
#include "tests/data/text/small_tokenizer.h"
#include "tests/data/text/write_tokens.h"
#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Truly;

using Names = std::vector<std::string>;

class Sentences : public testing::Test {
 protected:
  Sentences() { folder_.Write("weights/tokenizer.json", SmallTokenizerJson().dump()); }
  SentenceOptions Options() const {
    return {.data_dir = folder_.path(), .tokens_per_sample = 16, .tokenizer_paths = {folder_.path("weights")}};
  }
  std::string MessageOfOpening(const std::string& split, const SentenceOptions& options) const {
    return MessageOf([&] { OpenSentences(options, split); });
  }
  const TemporaryFolder folder_;
};

struct Row {
  std::vector<int64_t> ids;
  std::vector<uint8_t> mask;
  float target = -7;
};

Row Decode(const SentenceSplit& split, const SampleRef& sample) {
  const std::vector<Field> fields = split.decoder->fields(sample.size);
  size_t length = 1;
  for (const int64_t side : fields[0].row_shape) length *= static_cast<size_t>(side);
  Row row{.ids = std::vector<int64_t>(length, -7), .mask = std::vector<uint8_t>(length, 9)};
  std::vector<std::span<std::byte>> spans = {std::as_writable_bytes(std::span(row.ids)),
                                             std::as_writable_bytes(std::span(row.mask))};
  if (fields.size() > 2) spans.push_back(std::as_writable_bytes(std::span(&row.target, 1)));
  split.decoder->Decode(split.source->Read(sample.index), sample, spans);
  return row;
}

std::vector<int64_t> LabelsOf(const SentenceSplit& split) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < split.source->size(); ++i) labels.push_back(split.source->Label(i));
  return labels;
}

TEST_F(Sentences, RowsArePaddedAndHaveClasses) {
  folder_.Write("train.tsv", "label\ttext\n10\tab\n9\tx\n10\ty\n");
  folder_.Write("dev.csv", "text,label\n\"a\nb\",9\n");
  const SentenceSplit train = OpenSentences(Options(), "train");
  EXPECT_EQ(train.source->class_names(), (Names{"9", "10"}));
  EXPECT_THAT(LabelsOf(train), ElementsAre(1, 0, 1));
  EXPECT_EQ(train.vocabulary, 262);
  EXPECT_FALSE(train.is_pair);
  EXPECT_EQ(train.length(0), 3);
  const Row row = Decode(train, {.index = 0, .size = 5});
  EXPECT_THAT(row.ids, ElementsAre(0, 260, 2, 1, 1));
  EXPECT_THAT(row.mask, ElementsAre(1, 1, 1, 0, 0));
  EXPECT_EQ(Decode(train, {.index = 0}).ids.size(), 16U);
  EXPECT_THAT(Decode(train, {.index = 0, .size = 2}).ids, ElementsAre(0, 260)) << "a replacement that is too long";
  EXPECT_EQ(train.source->Place(1), (RecordPlace{folder_.path("train.tsv"), 17}));

  SentenceOptions options = Options();
  options.classes = train.source->class_names();
  options.is_pair = train.is_pair;
  const SentenceSplit val = OpenSentences(options, "val");
  EXPECT_THAT(LabelsOf(val), ElementsAre(0));
  EXPECT_THAT(Decode(val, {.index = 0, .size = 5}).ids, ElementsAre(0, 4 + 'a', 4 + '\n', 4 + 'b', 2));
}

TEST_F(Sentences, PairsAreJoinedAndTruncated) {
  folder_.Write("train.jsonl",
                "{\"premise\": \"abx\", \"hypothesis\": \"y\", \"gold_label\": \"no\"}\n"
                "{\"premise\": \"?\", \"hypothesis\": \"?\", \"gold_label\": \"-\"}\n"
                "{\"premise\": \"xyzxyzxyz\", \"hypothesis\": \"xyzxyz\", \"gold_label\": \"yes\"}\n");
  SentenceOptions options = Options();
  options.class_order = {"yes", "no"};
  options.keep_texts = true;
  const SentenceSplit train = OpenSentences(options, "train");
  EXPECT_TRUE(train.is_pair);
  EXPECT_EQ(train.left_out, 1);
  EXPECT_EQ(train.truncated, 1);
  EXPECT_EQ(train.source->class_names(), (Names{"yes", "no"}));
  EXPECT_THAT(Decode(train, {.index = 0, .size = 8}).ids, ElementsAre(0, 260, 4 + 'x', 2, 2, 4 + 'y', 2, 1));
  EXPECT_EQ(train.length(1), 16);
  EXPECT_EQ(train.texts[1].pair, "xyzxyz");
  EXPECT_EQ(train.columns, "text premise, pair hypothesis, label gold_label");
}

// Some of QQP's rows have fewer cells than its header. The columns of the other files: table_columns_test.cc.
TEST_F(Sentences, GluesOwnFilesNeedNoFlags) {
  folder_.Write("dev_matched.tsv",
                "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta?\tb?\t0\n2\t2\t3\ta?\n");
  const SentenceSplit qqp = OpenSentences(Options(), "val");
  EXPECT_EQ(qqp.source->size(), 1);
  EXPECT_EQ(qqp.left_out, 1);
  EXPECT_TRUE(qqp.is_pair);
}

TEST_F(Sentences, NumbersAreTargets) {
  folder_.Write("train.tsv", "sentence1\tsentence2\tscore\na\tb\t3.8\nc\td\t5\n");
  folder_.Write("val.tsv", "sentence1\tsentence2\tscore\na\tb\thigh\n");
  EXPECT_TRUE(LooksLikeRegression(Options(), "train"));
  EXPECT_FALSE(LooksLikeRegression(Options(), "val"));
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("train.tsv line 2: the label '3.8' is a decimal number"));
  SentenceOptions options = Options();
  options.target = kNumberTarget;
  const SentenceSplit train = OpenSentences(options, "train");
  EXPECT_EQ(train.source->num_classes(), 0);
  EXPECT_THAT(LabelsOf(train), ElementsAre(-1, -1));
  EXPECT_EQ(Decode(train, {.index = 0}).target, 3.8F);
  EXPECT_EQ(Decode(train, {.index = 1}).target, 5.0F);
  EXPECT_EQ(train.decoder->fields(4)[2].name, kSentenceTargets);
  EXPECT_THAT(MessageOfOpening("val", options), HasSubstr("val.tsv line 2: the label 'high' is not a decimal number"));
  EXPECT_FALSE(train.only_target);
  folder_.Write("val.tsv", "sentence1\tsentence2\tscore\na\tb\t0.5\nc\td\t.5\n");
  EXPECT_EQ(OpenSentences(options, "val").only_target, 0.5F);
  folder_.Write("val.tsv", "sentence1\tsentence2\tscore\na\tb\t1e38\n");
  EXPECT_THAT(MessageOfOpening("val", options), HasSubstr("val.tsv line 2: the label 1e38 is too large"));
}

TEST_F(Sentences, TextsAreRowsByThemselves) {
  folder_.Write("train.tsv", "anchor\tpositive\tnegative_1\tscore\nab\t xyx \ty\t5\nx\ty\tx</s>\t0\n");
  folder_.Write("val.tsv", "sentence1\tsentence2\tscore\nab\tx\t2.5\nx\ty\t-1\n");
  SentenceOptions options = Options();
  options.target = kTextsTarget;
  const SentenceSplit train = OpenSentences(options, "train");
  EXPECT_EQ(train.columns, "text anchor, pair positive, negative negative_1") << "a score is not of negatives";
  EXPECT_EQ(train.texts_per_row, 3);
  EXPECT_FALSE(train.score_scale.has_value());
  EXPECT_EQ(train.length(0), 5);
  const std::vector<Field> fields = train.decoder->fields(5);
  EXPECT_EQ(fields.size(), 2U);
  EXPECT_THAT(fields[0].row_shape, ElementsAre(3, 5));
  const Row row = Decode(train, {.index = 0, .size = 5});
  EXPECT_THAT(row.ids, ElementsAre(0, 260, 2, 1, 1, 0, 4 + 'x', 4 + 'y', 4 + 'x', 2, 0, 4 + 'y', 2, 1, 1));
  EXPECT_THAT(row.mask, ElementsAre(1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0));

  const SentenceSplit val = OpenSentences(options, "val");
  EXPECT_EQ(val.columns, "text sentence1, pair sentence2, label score");
  EXPECT_EQ(val.score_scale, 5);
  EXPECT_EQ(Decode(val, {.index = 0, .size = 3}).target, 0.5F);
  EXPECT_EQ(Decode(val, {.index = 1, .size = 3}).target, -0.2F);
  options.scored = false;
  EXPECT_EQ(OpenSentences(options, "val").columns, "text sentence1, pair sentence2");
}

TEST_F(Sentences, ClassFoldersHoldATextPerFile) {
  folder_.Write("train/pos/0_9.txt", "ab\n");
  folder_.Write("train/neg/1_2.txt", "x");
  folder_.Write("train/neg/0_1.txt", "\xEF\xBB\xBFy\r\n");
  folder_.Write("train/unsup/0_0.txt", "z");
  folder_.Write("train/neg/notes.md", "");
  const SentenceSplit train = OpenSentences(Options(), "train");
  EXPECT_EQ(train.source->class_names(), (Names{"neg", "pos"}));
  EXPECT_THAT(LabelsOf(train), ElementsAre(0, 0, 1));
  EXPECT_EQ(train.left_out, 1);
  EXPECT_EQ(ToText(train.source->ignored()), "ignored: 1 *.md");
  EXPECT_THAT(Decode(train, {.index = 0, .size = 3}).ids, ElementsAre(0, 4 + 'y', 2));
  EXPECT_EQ(train.source->Location(2), folder_.path("train/pos/0_9.txt"));
  folder_.Write("train/pos/1_9.txt", " \n");
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("train/pos/1_9.txt: the text is empty"));
  folder_.Write("train/pos/1_9.txt", "ab");
  std::filesystem::rename(folder_ / "train/pos", folder_ / "train/p\xff");
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("the name of the class 'p\\xff' is not UTF-8"));
  folder_.Write("val/unsup/0_0.txt", "z");
  EXPECT_THAT(MessageOfOpening("val", Options()),
              HasSubstr("val has no class folder: the texts in unsup have no label"));
}

TEST_F(Sentences, FairseqsFoldersAreRead) {
  folder_.Write("input0/dict.txt", "7 3\n8 2\n");
  folder_.Write("label/dict.txt", "entailment 3\nneutral 1\nmadeupword0000 0\nmadeupword0001 0\n");
  WriteTokens(folder_, "input0/train", {{4, 5, 2}, {5, 2}});
  WriteTokens(folder_, "input1/train", {{5, 2}, {4, 4, 2}});
  WriteTokens(folder_, "label/train", {{5, 2}, {4, 2}});
  const SentenceSplit train = OpenSentences(Options(), "train");
  EXPECT_EQ(train.source->class_names(), (Names{"entailment", "neutral"}));
  EXPECT_THAT(LabelsOf(train), ElementsAre(1, 0));
  EXPECT_EQ(train.vocabulary, 7);
  EXPECT_TRUE(train.is_pair);
  EXPECT_THAT(Decode(train, {.index = 0, .size = 7}).ids, ElementsAre(0, 4, 5, 2, 2, 5, 2));
  SentenceOptions options = Options();
  options.class_order = {"neutral", "entailment"};
  EXPECT_THAT(LabelsOf(OpenSentences(options, "train")), ElementsAre(0, 1));

  folder_.Write("input1/dict.txt", "8 2\n7 3\n");
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("input1/dict.txt has other tokens than that of input0"));
  folder_.Write("input1/dict.txt", "7 9\n8 9\n");
  folder_.Write("label/dict.txt", "madeupword 0\nneutral 1\nmadeupword0001 0\n");  // the first one is a class
  EXPECT_EQ(OpenSentences(Options(), "train").source->class_names(), (Names{"madeupword", "neutral"}));
  folder_.Write("label/dict.txt", "entailment 3\nneutral 1\n");

  WriteTokens(folder_, "label/train", {{5, 2}, {4, 2}, {4, 2}});
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("input0/train.bin has 2 items, but"));
  WriteTokens(folder_, "label/train", {{5, 2}, {6, 2}});
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("label/train.bin item 1 has the token 6"));
  WriteTokens(folder_, "input1/train", {{5, 2}, {7, 2}});
  WriteTokens(folder_, "label/train", {{5, 2}, {4, 2}});
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("input1/train.bin item 1 has the token 7"));

  for (const char* file : {"label/train.bin", "label/train.idx"}) std::filesystem::remove(folder_ / file);
  WriteTokens(folder_, "input1/train", {{5, 2}, {4, 2}});
  folder_.Write("label/train.label", "0.5\n1\n");
  EXPECT_TRUE(LooksLikeRegression(Options(), "train"));
  EXPECT_THAT(MessageOfOpening("train", Options()), HasSubstr("train.label holds numbers to predict"));
  options.target = kNumberTarget;
  EXPECT_EQ(Decode(OpenSentences(options, "train"), {.index = 0}).target, 0.5F);
}

TEST_F(Sentences, WhatIsWrongIsNamedWithItsLine) {
  const std::string train = "text\tlabel\nx\ta\ny\tb\n";
  SentenceOptions known = Options();
  known.classes = {"a", "b"};
  known.is_pair = false;
  struct Case {
    const char *content, *message;
  };
  const Case cases[] = {
      {"text\tlabel\nx\ta\nx\tc\n", "val.tsv line 3: the label 'c' is none of the classes that the training data has"},
      {"text\tlabel\nx\ta\n \ta\n\tb\n", "val.tsv line 3: the text is empty (2 rows have no text)"},
      {"text\tlabel\nx\t\n", "val.tsv line 2: the label is empty"},
      {"text\nx\n", "val.tsv has no column that is known to hold labels; it has 'text'"},
      {"text\ttext_pair\tlabel\nx\ty\ta\n", "val.tsv has pairs of texts (text text, pair text_pair, label label), but"},
      {"text\tlabel\nx\n", "val.tsv line 2: 1 cell, but the header has 2"},
      {"text\tlabel\n", "val.tsv has no rows"}};
  for (const Case& one : cases) {
    folder_.Write("val.tsv", one.content);
    EXPECT_THAT(MessageOfOpening("val", known), HasSubstr(one.message));
  }
  folder_.Write("lines/train.csv", "text,label\nx,\"a\nb\"\ny,c\n");
  SentenceOptions lines = Options();
  lines.data_dir = folder_.path("lines");
  EXPECT_THAT(MessageOfOpening("train", lines), HasSubstr("the name of the class 'a\\nb' has a line break"));
  folder_.Write("val.csv", train);
  EXPECT_THAT(MessageOfOpening("val", known), HasSubstr("holds the split 'val' twice"));
  EXPECT_EQ(MessageOfOpening("val.csv", known), "");
  EXPECT_THAT(MessageOfOpening("train", known), HasSubstr("there is no 'train' split"));
  folder_.Write("train.tsv", train);
  SentenceOptions short_rows = Options();
  short_rows.tokens_per_sample = 2;
  EXPECT_THAT(MessageOfOpening("train", short_rows), HasSubstr("have no room beside"));
  std::filesystem::resize_file(folder_ / "train.tsv", uintmax_t{1} << 40);  // sparse
  EXPECT_THAT(MessageOfOpening("train", known), HasSubstr("train.tsv has 1048576 MiB, but only "));
}

TEST_F(Sentences, GroupsAreTheCellsOfOneColumn) {
  folder_.Write("train.tsv", "text\tlabel\tall\tid\nx\ta\t7\t1\ny\tb\t8\t2\n");
  SentenceOptions options = Options();
  options.group_column = "all";  // a name, not all columns
  EXPECT_THAT(OpenSentences(options, "train").groups, ElementsAre("7", "8"));
  options.group_column = "person";
  EXPECT_ERROR("--group_column", OpenSentences(options, "train"));
}

TEST_F(Sentences, WordsMayBeginWithABlankLine) {
  folder_.Write("train.jsonl", "\n{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\", \"X\"]}\n");
  SentenceOptions options = Options();
  EXPECT_TRUE(LooksLikeWords(options, "train"));
  options.target = kWordTarget;
  EXPECT_THAT(OpenSentences(options, "train").source->class_names(), ElementsAre("O", "X"));
  folder_.Write("val.txt", "-DOCSTART- O\n\na O\nb B-X\n\n");  // known by its tags
  EXPECT_TRUE(LooksLikeWords(options, "val"));
}

// As transformers' run_ner.py does it: such words are those behind emoji.
TEST_F(Sentences, WordsWithoutTokensAreLeftOut) {
  SentenceOptions options = Options();
  options.target = kWordTarget;
  folder_.Write("bert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  options.tokenizer_paths = {folder_.path("bert")};
  folder_.Write("train.conll", "\u200b O\na O\n\u200d X\nb Y\n");
  const SentenceSplit split = OpenSentences(options, "train");
  EXPECT_THAT(split.source->class_names(), ElementsAre("O", "Y"));
  EXPECT_EQ(split.words->left_out, 2);
  EXPECT_EQ(split.words->words(), 2);
  const SentenceSplit lines =
      OpenUnlabelled(options, folder_.Write("in.jsonl",
                                            "{\"tokens\": [\"a\", \"\u200b\", \"b\"]}\n{\"tokens\": []}\n{\"tokens\": "
                                            "[\"\xff\"]}\n{\"tokens\": [\"b\"]}\n"));
  EXPECT_THAT(lines.words->texts, ElementsAre("a", "b", "b"));
  EXPECT_THAT(lines.words->ends, ElementsAre(2, 2, 2, 3));
  std::vector<std::string> unread;
  for (const UnreadWord& one : lines.words->unread) {
    unread.push_back(std::to_string(one.sentence) + " " + std::to_string(one.before) +
                     one.error.substr(one.error.find(" line")));
  }
  EXPECT_THAT(unread, ElementsAre("0 1 line 1: the tokenizer has no token for the word",
                                  "1 2 line 2: there are no words", "2 2 line 3: this is not UTF-8 text"));
  const SentenceSplit damaged = OpenUnlabelled(options, folder_.Write("nul.conll", std::string("a\nb\0c\n", 6)));
  EXPECT_THAT(damaged.words->unread.at(0).error, HasSubstr("line 2: this holds a NUL character"));
  const SentenceSplit columns = OpenUnlabelled(options, folder_.Write("in.conll", "a\nb c\n\u200b\nb\n"));
  EXPECT_THAT(columns.words->texts, ElementsAre("a", "b"));
  ASSERT_EQ(columns.words->unread.size(), 2U);
  EXPECT_EQ(columns.words->unread[0].line, 2);
  EXPECT_EQ(columns.words->unread[1].before, 1);
}

TEST_F(Sentences, AFileWithoutLabelsIsRead) {
  const std::string lines = folder_.Write("in.txt", "one\tab\n\"two\n");
  SentenceOptions named = Options();
  named.text_column = "review";  // that of the training data
  const SentenceSplit split = OpenUnlabelled(named, lines);
  ASSERT_EQ(split.source->size(), 2);
  EXPECT_EQ(split.texts[0].text, "one\tab");
  EXPECT_EQ(split.source->num_classes(), 0);
  EXPECT_THAT(LabelsOf(split), ElementsAre(-1, -1));
  SentenceOptions pairs = Options();
  pairs.is_pair = true;
  EXPECT_ERROR("in.txt has single texts", OpenUnlabelled(pairs, lines));
  const std::string table = folder_.Write("in.csv", "id,text,text_pair\n1,a,b\n");
  EXPECT_EQ(OpenUnlabelled(pairs, table).texts[0].pair, "b");
  pairs.is_pair = false;
  EXPECT_ERROR("but the model reads single texts", OpenUnlabelled(pairs, table));
  pairs.text_column = "text_pair";
  EXPECT_EQ(OpenUnlabelled(pairs, table).texts[0].text, "b");
  const SentenceSplit gaps = OpenUnlabelled(Options(), folder_.Write("gaps.txt", "\none\n \t\ntwo\n"));
  const auto has_error = [](const SentenceText& text) { return text.error.ends_with("the text is empty"); };
  EXPECT_THAT(gaps.texts,
              ElementsAre(Truly(has_error), Not(Truly(has_error)), Truly(has_error), Not(Truly(has_error))));
  EXPECT_ERROR("is not a table", OpenUnlabelled(pairs, folder_.Write("in.doc", "")));
}

// The fingerprint follows the files and the tokenizer, but not the folder.
TEST_F(Sentences, CopiesHaveTheSameFingerprint) {
  folder_.Write("train.tsv", "text\tlabel\nx\ta\n");
  folder_.Write("copy/train.tsv", "text\tlabel\nx\ta\n");
  const auto fingerprint = [&](const std::string& data_dir) {
    SentenceOptions options = Options();
    options.data_dir = data_dir;
    return OpenSentences(options, "train").source->fingerprint();
  };
  const std::string before = fingerprint(folder_.path());
  EXPECT_EQ(fingerprint(folder_.path("copy")), before);
  folder_.Write("copy/train.tsv", "text\tlabel\nxy\ta\n");
  EXPECT_NE(fingerprint(folder_.path("copy")), before);
  nlohmann::json tokenizer = SmallTokenizerJson();
  tokenizer["version"] = "1.1";
  folder_.Write("weights/tokenizer.json", tokenizer.dump());
  EXPECT_NE(fingerprint(folder_.path()), before);
}

}  // namespace
}  // namespace dtrain::data
