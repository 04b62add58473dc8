#include "data/text/text_split.h"

#include <gmock/gmock.h>

#include "data/error.h"
#include "data/text/dictionary.h"
#include "data/text/masking.h"
#include "tests/data/safetensors_bytes.h"
#include "tests/data/text/small_tokenizer.h"
#include "tests/data/text/write_tokens.h"
#include "tests/message_of.h"

namespace dtrain::data {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// A decoded row, as the loader would produce it.
struct Row {
  std::vector<int64_t> ids, labels;
  std::vector<uint8_t> mask;
};

Row Decode(const TextSplit& text, const SampleRef& sample) {
  const std::vector<Field> fields = text.decoder->fields(sample.size);
  const auto length = static_cast<size_t>(fields[0].row_shape[0]);
  Row row{std::vector<int64_t>(length, -7), std::vector<int64_t>(length, -7), std::vector<uint8_t>(length, 9)};
  const std::vector<std::span<std::byte>> spans = {std::as_writable_bytes(std::span(row.ids)),
                                                   std::as_writable_bytes(std::span(row.labels)),
                                                   std::as_writable_bytes(std::span(row.mask))};
  text.decoder->Decode(text.source->Read(sample.index), sample, spans);
  return row;
}

class TextSplits : public testing::Test {
 protected:
  TextSplits() {
    WriteTokens(folder_, "train", {{4, 5, 6, 2}, {7, 2}, {2}, {9, 9, 2}});
    folder_.Write("dict.txt", "97 4\n98 3\n256 2\n257 1\n120 1\n121 1\n");  // ids 4 to 9, <mask> 10
  }
  TextOptions Options() const {
    return {.data_dir = folder_.path().string(), .format = "tokens", .tokens_per_sample = 8};
  }
  void WriteTokenizer() const {
    const SmallTokenizer small({{"\xC4\xA0", "a"}, {"a", "b"}});
    folder_.Write("encoder.json", small.Json());
    folder_.Write("vocab.bpe", small.merges);
  }
  const TemporaryFolder folder_;
};

TEST_F(TextSplits, RowsHaveABeginningAndPadding) {
  TextOptions options = Options();
  options.mask_prob = 1e-9;
  const TextSplit text = OpenText(options, "train");
  ASSERT_EQ(text.source->size(), 2);
  EXPECT_EQ(text.vocabulary, 11);
  EXPECT_EQ(text.special.mask, 10);
  EXPECT_EQ(text.length(0), 8);
  EXPECT_EQ(text.length(1), 4);
  const Row row = Decode(text, {.index = 1, .size = 6});
  EXPECT_THAT(row.ids, ElementsAre(0, 9, 9, 2, 1, 1));
  EXPECT_THAT(row.mask, ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_THAT(row.labels, Each(kNoLoss));
  EXPECT_THAT(Decode(text, {.index = 0}).ids, ElementsAre(0, 4, 5, 6, 2, 7, 2, 2));
  EXPECT_THAT(Decode(text, {.index = 0, .size = 3}).ids,
              ElementsAre(0, 4, 5));  // a replacement that is too long is cut
}

TEST_F(TextSplits, MasksAreDrawnAnewInEachEpoch) {
  TextOptions options = Options();
  options.mask_prob = 0.25;  // two of eight tokens, four of which are not special
  const TextSplit text = OpenText(options, "train");
  const Row row = Decode(text, {.index = 0, .epoch = 1});
  EXPECT_EQ(row.ids, Decode(text, {.index = 0, .epoch = 1}).ids);
  int other = 0;
  for (int64_t epoch = 2; epoch < 12; ++epoch) other += Decode(text, {.index = 0, .epoch = epoch}).labels != row.labels;
  EXPECT_GE(other, 5);
}

// How run_mlm.py cuts more text is compared in tests/interop/test_pasted_text_commands.py.
TEST_F(TextSplits, RawTextIsTokenizedAtTheStart) {
  const SmallTokenizer tokenizer(std::vector<std::pair<std::string, std::string>>{{"a", "b"}});
  folder_.Write("encoder.json", tokenizer.Json());
  folder_.Write("vocab.bpe", tokenizer.merges);
  folder_.Write("train.txt", "ab a\r\n \nb");  // 6 3 4, 3 and 5
  TextOptions options = Options();
  options.format = "text";
  options.mask_prob = 1e-9;
  options.tokens_per_sample = 4;
  const auto rows = [&options] {
    const TextSplit text = OpenText(options, "train");
    std::vector<std::vector<int64_t>> ids;
    for (int64_t i = 0; i < text.source->size(); ++i) {
      ids.push_back(Decode(text, {.index = i, .size = text.length(i)}).ids);
    }
    return ids;
  };
  options.sample_break = SampleBreak::kJoined;
  EXPECT_THAT(rows(), ElementsAre(ElementsAre(0, 6, 3, 4), ElementsAre(2, 0, 3, 2)));  // 0 5 2 fill no piece
  options.sample_break = SampleBreak::kLines;
  EXPECT_THAT(rows(), ElementsAre(ElementsAre(0, 6, 3, 2), ElementsAre(0, 5, 2)));
  const auto mistake = [&] { return MessageOf([&] { OpenText(options, "train"); }); };
  folder_.Write("train.txt", "");
  EXPECT_THAT(mistake(), HasSubstr("train.txt has no lines of text"));
  folder_.Write("train.txt", "a\xFF\n");
  EXPECT_THAT(mistake(), HasSubstr("train.txt is not UTF-8 text"));
  std::filesystem::remove(folder_.path("vocab.bpe"));
  EXPECT_THAT(mistake(), HasSubstr("there is no tokenizer with the ids of a model in "));
  std::filesystem::remove(folder_.path("train.txt"));
  EXPECT_THAT(mistake(), HasSubstr("there is no 'train' split: looked for "));
}

TEST_F(TextSplits, WholeWordsNeedATokenizer) {
  TextOptions options = Options();
  options.mask_whole_words = true;
  EXPECT_ERROR("where words begin", OpenText(options, "train"));
  WriteTokenizer();
  options.mask_prob = 0.9999;
  // 4 and 5 are letters, 6 begins a word, and so do 7 and every token behind </s>. The words are 4 5, 6 and 7.
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Row row = Decode(OpenText(options, "train"), {.index = 0, .epoch = epoch});
    EXPECT_EQ(row.labels[1] == kNoLoss, row.labels[2] == kNoLoss);
  }
}

// A vocabulary may be larger for the model, but what the ids of the data mean is said by the dictionary.
TEST_F(TextSplits, TensorsBesideADictionaryHaveItsIds) {
  WriteTokenizer();
  const auto decode = [&](int64_t token, bool whole_words) {
    folder_.Write("rows.safetensors",
                  SafetensorsBytes(R"({"input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}})",
                                   RawBytes<int64_t>(std::vector<int64_t>{token})));
    TextOptions options{.data_dir = folder_.path("rows.safetensors"),
                        .format = "safetensors",
                        .mask_whole_words = whole_words,
                        .vocab_size = 5000};
    const TextSplit text = OpenText(options, "train");
    EXPECT_EQ(text.vocabulary, 5000);
    EXPECT_EQ(text.tokens_per_sample, 1);
    return Decode(text, {.index = 0}).ids.size();
  };
  for (const bool whole_words : {false, true}) {
    EXPECT_EQ(decode(10, whole_words), 1);
    for (const int64_t token : {11, 4999}) {
      EXPECT_ERROR("but the vocabulary ends at 10", decode(token, whole_words));
    }
  }
}

TEST_F(TextSplits, ADictionaryThatCannotBeReadIsNamed) {
  std::filesystem::remove(folder_ / "dict.txt");
  std::filesystem::create_symlink("dict.txt", folder_ / "dict.txt");
  EXPECT_TRUE(HasDictionary(folder_.path().string()));
  EXPECT_ERROR("dict.txt: Too many levels", OpenText(Options(), "train"));
}

TEST_F(TextSplits, WhatDoesNotFitIsNamed) {
  TextOptions options = Options();
  options.vocab_size = 10;
  EXPECT_ERROR("--vocab_size=10 is smaller", OpenText(options, "train"));
  options.vocab_size = 16;
  EXPECT_EQ(OpenText(options, "train").vocabulary, 16);
  EXPECT_ERROR("no 'val' split", OpenText(options, "val"));
  folder_.Write("dict.txt", "97 4\n98 3\n256 2\n257 1\n120 1\n");
  const TextSplit text = OpenText(Options(), "train");
  EXPECT_ERROR("is 9, but the dictionary ends at 8", Decode(text, {.index = 1}));
  std::filesystem::remove(folder_ / "dict.txt");
  EXPECT_ERROR("dict.txt", OpenText(Options(), "train"));
}

std::string TextTensors(bool with_labels) {
  std::string header = R"({"input_ids":{"dtype":"I64","shape":[2,3],"data_offsets":[0,48]},)";
  header += R"("attention_mask":{"dtype":"U8","shape":[2,3],"data_offsets":[48,54]})";
  std::string data = RawBytes<int64_t>(std::vector<int64_t>{0, 50, 2, 0, 60, 1});
  data += RawBytes<uint8_t>(std::vector<uint8_t>{1, 1, 1, 1, 1, 0});
  if (with_labels) {
    header += R"(,"labels":{"dtype":"I32","shape":[2,3],"data_offsets":[54,78]})";
    data += RawBytes<int32_t>(std::vector<int32_t>{-100, 51, -100, 7, -100, -100});
  }
  return SafetensorsBytes(header + "}", data);
}

TEST(TextTensors, AreServedAsTheyAre) {
  const TemporaryFolder folder;
  folder.Write("train.safetensors", TextTensors(true));
  TextOptions options{.data_dir = folder.path().string(), .format = "safetensors", .vocab_size = 100};
  const TextSplit text = OpenText(options, "train");
  ASSERT_EQ(text.source->size(), 2);
  EXPECT_EQ(text.source->kind(), RecordKind::kTokens);
  EXPECT_EQ(text.length(1), 3);
  const Row row = Decode(text, {.index = 1});
  EXPECT_THAT(row.ids, ElementsAre(0, 60, 1));
  EXPECT_THAT(row.labels, ElementsAre(7, -100, -100));
  EXPECT_THAT(row.mask, ElementsAre(1, 1, 0));
  EXPECT_THAT(Decode(text, {.index = 0}).labels, ElementsAre(-100, 51, -100));

  options.vocab_size = 60;
  EXPECT_ERROR("token 1 is 60", Decode(OpenText(options, "train"), {.index = 1}));
  options.vocab_size = 0;
  EXPECT_ERROR("dict.txt", OpenText(options, "train"));
  options = {.data_dir = options.data_dir, .format = "safetensors", .tokens_per_sample = 2, .vocab_size = 100};
  EXPECT_ERROR("rows of 3 tokens", OpenText(options, "train"));
}

TEST(TextTensors, AVocabularyHasTheSpecialTokensAndTheMask) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("one.safetensors", TextTensors(false));
  for (int64_t size = 1; size <= 4; ++size) {
    const TextOptions options{.data_dir = path, .format = "safetensors", .vocab_size = size};
    EXPECT_ERROR("has no room for", OpenText(options, "train")) << size;
  }
}

TEST(TextTensors, PaddingHasNoLabels) {
  const TemporaryFolder folder;
  std::string bytes = TextTensors(true);
  const int32_t label = 9;
  bytes.replace(bytes.size() - sizeof label, sizeof label, RawBytes<int32_t>(std::vector<int32_t>{label}));
  const std::string path = folder.Write("one.safetensors", bytes);
  const TextSplit text = OpenText({.data_dir = path, .format = "safetensors", .vocab_size = 100}, "train");
  EXPECT_THAT(Decode(text, {.index = 1}).labels, ElementsAre(7, -100, -100));
}

TEST(TextTensors, AreMaskedWhereTheyHaveNoLabels) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("one.safetensors", TextTensors(false));
  const TextOptions options{.data_dir = path, .format = "safetensors", .mask_prob = 0.9999, .vocab_size = 100};
  const TextSplit text = OpenText(options, "train");
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    EXPECT_THAT(Decode(text, {.index = 1, .epoch = epoch}).labels, ElementsAre(-100, 60, -100));
  }
}

}  // namespace
}  // namespace dtrain::data
