// Text, its tokenizers, and words with tags.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/sentences/sentence_set.h"
#include "data/text/byte_level_bpe.h"
#include "data/text/dictionary.h"
#include "data/text/token_blocks.h"
#include "data/text/tokenizer.h"
#include "data/text/utf8.h"
#include "tests/data/text/small_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/temporary_folder.h"

namespace dtrain::fuzz {
namespace {

void UseDictionary(std::string_view text) {
  const auto dictionary = data::Dictionary::Parse(text);
  Require(data::Dictionary::Parse(dictionary.ToText()).entries() == dictionary.entries(),
          "what is written is not what is read");
}

void UseTokenizer(std::string_view text) {
  const size_t cut = std::min(text.find('\0'), text.size());
  const data::ByteLevelBpe bpe(text.substr(0, cut), text.substr(std::min(cut + 1, text.size())));
  data::BpeEncoder encoder(bpe);
  std::vector<uint32_t> ids;
  encoder.Encode("some words, and some more", ids);
}

void UseTokenizerFile(const std::string& name, std::string_view text) {
  static std::map<std::string, const TemporaryFolder> folders;
  const TemporaryFolder& folder = folders[name];
  folder.Write(name, text);
  const std::unique_ptr<const data::Tokenizer> opened = OpenTokenizer(*data::FindTokenizer(folder.path().string()));
  const data::Tokenizer& tokenizer = *opened;
  const auto encoder = tokenizer.MakeEncoder();
  std::vector<uint32_t> ids;
  std::vector<data::CharacterSpan> spans;
  encoder->EncodeSpans("some words, <s>and</s> s\u00f3me m\u0308 \u65e5\u672c\U0001f917[MASK]\xff", ids, spans);
  Require(ids.size() == spans.size(), "an id without its characters");
  encoder->EncodeWord("word", ids);
  for (const uint32_t id : ids) Require(id < tokenizer.vocabulary(), "an id outside of the vocabulary");
}

// A file of raw text has the tokens of its lines, in which byte b is token b + 4.
void UseRawText(std::string_view text) {
  static const TemporaryFolder folder;
  static const std::unique_ptr<const data::Tokenizer> tokenizer = [] {
    folder.Write("tokenizer.json", data::SmallTokenizerJson().dump());
    return OpenTokenizer(*data::FindTokenizer(folder.path().string()));
  }();
  folder.Write("train.txt", text);
  const auto raw = data::OpenRawText(folder.path("train.txt"), *tokenizer, {});
  std::vector<uint32_t> ids;
  const auto encoder = tokenizer->MakeEncoder();
  raw->ForEachSize([&](int64_t /*line*/, int64_t size) {
    const size_t before = ids.size();
    encoder->Encode(data::TakeLine(text), ids);
    ids.push_back(data::kEndToken);
    Require(ids.size() - before == static_cast<size_t>(size), "a line of another length");
  });
  const std::vector<int64_t> tokens = data::WideTokens(raw->type(), raw->ReadTokens(0, raw->tokens()));
  Require(text.empty() && std::ranges::equal(ids, tokens), "a file without each line once");
}

// Because byte b is token b, the encoded tokens are the bytes, except for pairs of a and b.
void UseText(std::string_view text) {
  static const data::SmallTokenizer files(std::vector<std::pair<std::string, std::string>>{{"a", "b"}});
  static const data::ByteLevelBpe bpe(files.Json(), files.merges);
  data::BpeEncoder encoder(bpe);
  const data::MemoryBytes file(data::AsBytes(text));
  std::string lines;  // of parts of a file of raw text
  for (uint64_t begin = 0, part = text.size() / 3 + 1; begin < text.size(); begin += part) {
    lines += data::LinesBeginningIn(file, begin, part);
  }
  Require(lines == text, "parts of a text do not have each line once");
  while (!text.empty()) {
    const std::string_view line = data::Stripped(data::TakeLine(text));
    int64_t replaced = 0;
    const std::string valid = data::ReplaceInvalidUtf8(line, replaced);
    Require(data::IsUtf8(valid) && (replaced == 0) == data::IsUtf8(line), "replaced what was valid, or not all");
    std::vector<uint32_t> ids;
    encoder.Encode(valid, ids);
    std::string bytes;
    for (const uint32_t id : ids) bytes += id == 256 ? "ab" : std::string(1, static_cast<char>(id));
    Require(bytes == valid, "tokens are not the text");
  }
}

// The readers of text. The first byte chooses a dictionary, a tokenizer's two files (separated by a zero), text to
// encode and to read as the lines of a file, or a tokenizer.json, a vocab.txt or a model of sentencepiece in a folder.
FUZZ_TARGET(text) {
  FuzzInput input(whole);
  const uint8_t kind = input.TakeByte() % 6;
  try {
    if (kind == 0) UseDictionary(input.text());
    if (kind == 1) UseTokenizer(input.text());
    if (kind == 2) UseText(input.text()), UseRawText(input.text());
    if (kind == 3) UseTokenizerFile("tokenizer.json", input.text());
    if (kind == 4) UseTokenizerFile("vocab.txt", input.text());
    if (kind == 5) UseTokenizerFile("sentencepiece.bpe.model", input.text());
  } catch (const DataError&) {
  }
}

// Sentences whose words have tags. The first byte chooses the kind of file, and whether it has tags; the second one the
// length of rows. What is read has each word's label once, however its sentence was cut.
FUZZ_TARGET(words) {
  static const TemporaryFolder folder;
  static const data::SentenceTokenizer tokenizer = [] {
    WriteAll(folder.path() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\nEU\n,\n");
    return data::SentenceTokenizer(folder.path().string());
  }();
  constexpr const char* kNames[] = {"x.conll", "x.jsonl", "x.txt"};
  FuzzInput input(whole);
  const uint8_t kind = input.TakeByte();
  data::SentenceOptions options{.data_dir = "", .target = data::kWordTarget};
  options.is_unlabelled = options.keeps_going = kind >= 128;
  options.keep_texts = true;
  options.tokens_per_sample = 3 + input.TakeByte() % 16;
  const std::string path = (folder.path() / kNames[kind % 3]).string();
  WriteAll(path, input.text());
  try {
    data::HasLists(path, options);
    const data::SentenceSet set = ReadWords(path, options, tokenizer);
    Require(set.targets.labels.size() == set.tokens.size() && set.ends.back() == set.tokens.size(),
            "a token without a place for its label");
    for (int64_t row = 0; row < set.size(); ++row) {
      Require(set.length(row) >= 2 && set.length(row) <= options.tokens_per_sample, "a row that is too long");
    }
    const auto labels = std::ranges::count_if(set.targets.labels, [](int32_t label) { return label >= 0; });
    Require(labels == set.words->words(), "a word without a label, or with two");
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace dtrain::fuzz
