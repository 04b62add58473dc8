// The readers of text. The first byte chooses a dictionary, a tokenizer's two files (separated by a zero), text to
// encode, a tokenizer.json, a vocab.txt, or a model of sentencepiece.
#include <string>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/text/byte_level_bpe.h"
#include "data/text/dictionary.h"
#include "data/text/text_lines.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_json.h"
#include "data/text/tokenizer_kinds.h"
#include "data/text/utf8.h"
#include "tests/data/text/small_tokenizer.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace dtrain;

void UseDictionary(std::string_view text) {
  const auto dictionary = data::Dictionary::Parse(text);
  fuzz::Require(data::Dictionary::Parse(dictionary.ToText()).entries() == dictionary.entries(),
                "what is written is not what is read");
}

void UseTokenizer(std::string_view text) {
  const size_t cut = std::min(text.find('\0'), text.size());
  const data::ByteLevelBpe bpe(text.substr(0, cut), text.substr(std::min(cut + 1, text.size())));
  data::BpeEncoder encoder(bpe);
  std::vector<int32_t> ids;
  encoder.Encode("some words, and some more", ids);
}

void Use(const data::Tokenizer& tokenizer) {
  const auto encoder = tokenizer.MakeEncoder();
  std::vector<int32_t> ids;
  std::vector<data::CharacterSpan> spans;
  encoder->EncodeSpans("some words, <s>and</s> s\u00f3me m\u0308 \u65e5\u672c\U0001f917[MASK]\xff", ids, spans);
  fuzz::Require(ids.size() == spans.size(), "an id without its characters");
  encoder->EncodeWord("word", ids);
  for (const int32_t id : ids) fuzz::Require(id >= 0 && id < tokenizer.vocabulary(), "an id outside of the vocabulary");
}

void UseTokenizerJson(std::string_view text) { Use(*data::ParseTokenizerJson(text)); }

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
  fuzz::Require(lines == text, "parts of a text do not have each line once");
  while (!text.empty()) {
    const std::string_view line = data::Stripped(data::TakeLine(text));
    int64_t replaced = 0;
    const std::string valid = data::ReplaceInvalidUtf8(line, replaced);
    fuzz::Require(data::IsUtf8(valid) && (replaced == 0) == data::IsUtf8(line), "replaced what was valid, or not all");
    std::vector<int32_t> ids;
    encoder.Encode(line, ids);
    std::string bytes;
    for (const int32_t id : ids) bytes += id == 256 ? "ab" : std::string(1, static_cast<char>(id));
    fuzz::Require(bytes == valid && encoder.replaced() >= replaced, "tokens are not the text");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const uint8_t kind = input.TakeByte() % 6;
  try {
    if (kind == 0) UseDictionary(input.text());
    if (kind == 1) UseTokenizer(input.text());
    if (kind == 2) UseText(input.text());
    if (kind == 3) UseTokenizerJson(input.text());
    if (kind == 4) Use(*data::ParseVocabTxt(input.text()));
    if (kind == 5) Use(*data::MakeSentencePiece(input.text(), data::SentencePieceIds::kXlmRoberta));
  } catch (const DataError&) {
  }
  return 0;
}
