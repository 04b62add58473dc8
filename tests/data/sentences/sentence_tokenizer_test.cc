#include "data/sentences/sentence_tokenizer.h"

#include <gmock/gmock.h>

#include "tests/data/text/small_tokenizer.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint32_t> Encoded(const SentenceTokenizer& tokenizer, const std::string& text) {
  std::vector<uint32_t> tokens;
  tokenizer.MakeEncoder()->Encode(text, tokens);
  return tokens;
}

TEST(SentenceTokenizer, ReadsAllKindsOfFiles) {
  const TemporaryFolder folder;
  const SmallTokenizer gpt2 = SmallMerges();
  folder.Write("two/vocab.json", SmallRobertaVocabulary().dump());
  folder.Write("two/merges.txt", gpt2.merges);
  folder.Write("one/tokenizer.json", SmallTokenizerJson().dump());
  folder.Write("fairseq/encoder.json", gpt2.Json());
  folder.Write("fairseq/vocab.bpe", gpt2.merges);
  EXPECT_ERROR("fairseq/dict.txt", SentenceTokenizer(folder.path("fairseq")));
  folder.Write("fairseq/dict.txt", "256 9\n99 8\n");
  const SentenceTokenizer two(folder.path("two")), one(folder.path("one")), fairseq(folder.path("fairseq"));
  EXPECT_THAT(Encoded(two, "abc"), ElementsAre(260, 4 + 'c'));
  EXPECT_THAT(Encoded(one, "abc"), ElementsAre(260, 4 + 'c'));
  EXPECT_THAT(Encoded(fairseq, "abcx"), ElementsAre(4, 5, 3)) << "x is not in the dictionary";
  EXPECT_EQ(two.vocabulary(), 262);
  EXPECT_EQ(one.vocabulary(), 262);
  EXPECT_EQ(fairseq.vocabulary(), 7);
  EXPECT_NE(one.fingerprint(), two.fingerprint());
  folder.Write("two/tokenizer_config.json", R"({"add_prefix_space": true})");
  const SentenceTokenizer spaced(folder.path("two"));
  EXPECT_THAT(Encoded(spaced, "abc"), ElementsAre(4 + ' ', 260, 4 + 'c'));
  EXPECT_NE(spaced.fingerprint(), two.fingerprint());
  folder.Write("bert/vocab.txt", "a\n");
  EXPECT_ERROR("vocab.txt: it has no token [CLS]", SentenceTokenizer(folder.path("bert")));
}

TEST(SentenceTokenizer, RefusesSettingsThatGiveOtherRows) {
  struct Case {
    const char *file, *text, *message;  // "": accepted
  };
  const Case cases[] = {
      {"tokenizer_config.json", "", ""},
      {"tokenizer_config.json", R"({"add_prefix_space": false, "mask_token": {"content": "<mask>", "lstrip": true},
                                    "added_tokens_decoder": {"261": {"content": "<mask>"}}})",
       ""},
      {"special_tokens_map.json", R"({"cls_token": "<s>", "sep_token": {"content": "</s>"}})", ""},
      {"added_tokens.json", R"({"<mask>": 261})", ""},
      {"tokenizer_config.json", R"({"backend": "tokenizers", "is_local": true, "local_files_only": true})", ""},
      {"tokenizer_config.json", "[", "it is not JSON"},
      {"tokenizer_config.json", "[1]", "[1] is not a JSON object"},
      {"tokenizer_config.json", R"({"add_prefix_space": 1})", "add_prefix_space is 1"},
      {"tokenizer_config.json", R"({"truncation_side": "left"})", "truncation_side is \"left\""},
      {"tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})", "tokenizer_class is \"BertTokenizer\""},
      {"tokenizer_config.json", R"({"auto_map": {}})", "the field auto_map is not known"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "film"}}})", "added token 'film'"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "<mask>"}}})",
       "the id 7, the vocabulary"},
      {"special_tokens_map.json", R"({"cls_token": {"content": "[CLS]"}})", "cls_token is \"[CLS]\""},
      {"added_tokens.json", R"({"film": 262})", "added token 'film'"}};
  for (const Case& one : cases) {
    const TemporaryFolder folder;
    folder.Write("tokenizer.json", SmallTokenizerJson().dump());
    folder.Write(one.file, one.text);
    const std::string message = MessageOf([&] { SentenceTokenizer(folder.path()); });
    EXPECT_THAT(message, HasSubstr(one.message)) << one.text;
    EXPECT_EQ(message.starts_with(folder.path(one.file)), *one.message != 0) << one.text << message;
  }
}

TEST(SentenceTokenizer, IsFoundBesideTheWeights) {
  const TemporaryFolder folder;
  folder.Write("run/tokenizer/tokenizer.json", SmallTokenizerJson().dump());
  folder.Write("run/model.safetensors", "");
  folder.Write("data/train.tsv", "");
  EXPECT_EQ(FindSentenceTokenizer({"", folder.path("data"), folder.path("run/model.safetensors")})->folder(),
            folder.path("run/tokenizer"));
  const std::string message = MessageOf([&] { FindSentenceTokenizer({folder.path("data")}); });
  EXPECT_THAT(message, HasSubstr("vocab.json with merges.txt"));
  EXPECT_THAT(message, HasSubstr("in " + folder.path("data")));
}

TEST(SentenceTokenizer, RefusesATokenizerJsonThatGivesOtherTokens) {
  struct Case {
    const char *place, *value, *message;
  };
  const Case cases[] = {{"/model/type", R"("NoSuchModel")", R"(model.type is "NoSuchModel", expected "BPE", )"},
                        {"/model/type", R"("Unigram")", "not known here"},
                        {"/model/type", R"("WordPiece")", "model.continuing_subword_prefix is"},
                        {"/model/ignore_merges", "true", "model.ignore_merges is true"},
                        {"/model/vocab", "[]", "its model has no vocab"},
                        {"/model/merges", "[[\"a\"]]", "one of its merges is not a pair"},
                        {"/model/merges", R"(["a z q"])", "expected two tokens"},
                        {"/normalizer", R"({"type": "Lowercase"})", R"(normalizer is {"type":"Lowercase"})"},
                        {"/pre_tokenizer", R"({"type": "Metaspace"})", R"(pre_tokenizer.type is "Metaspace")"},
                        {"/pre_tokenizer/add_prefix_space", "2", "pre_tokenizer.add_prefix_space is 2"},
                        {"/truncation", R"({"direction": "Left"})", "truncation.direction is"},
                        {"/post_processor/type", R"("ByteLevel")", "its post_processor does not put <s>"},
                        {"/added_tokens/0/content", R"("[NAME]")", "the added token '[NAME]'"},
                        {"/added_tokens/0/id", "7", "two ids for the token <s>"},
                        {"/model/vocab/<unk>", "5", "two tokens with the id 5"},
                        {"/pre_tokenizer", "null", "it has no pre_tokenizer"},
                        {"", "[1]", "[1] is not a JSON object"}};
  for (const Case& one : cases) {
    const TemporaryFolder folder;
    nlohmann::json tokenizer = SmallTokenizerJson();
    tokenizer[nlohmann::json::json_pointer(one.place)] = nlohmann::json::parse(one.value);
    folder.Write("tokenizer.json", tokenizer.dump());
    const std::string message = MessageOf([&] { SentenceTokenizer(folder.path()); });
    EXPECT_THAT(message, testing::StartsWith(folder.path("tokenizer.json"))) << one.place;
    EXPECT_THAT(message, HasSubstr(one.message)) << one.place;
  }
}

}  // namespace
}  // namespace dtrain::data
