#include "data/text/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <span>

#include "data/error.h"
#include "data/joined.h"
#include "data/sha256.h"
#include "data/storage.h"
#include "data/text/tokenizer_json.h"
#include "data/text/tokenizer_kinds.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

const std::vector<TokenizerKind>& Kinds() {
  static const std::vector<TokenizerKind> kinds = {
      {.names = {"encoder.json", "vocab.bpe"}, .keeps_ids = false, .open = OpenGpt2},
      {.names = {kSentencePieceFile}, .keeps_ids = true, .open = OpenSentencePiece},
      {.names = {"tokenizer.json"}, .keeps_ids = true, .open = OpenTokenizerJson},
      {.names = {"vocab.json", "merges.txt"}, .keeps_ids = true, .open = OpenRobertaBpe},
      {.names = {"vocab.txt"}, .keeps_ids = true, .open = OpenVocabTxt}};
  return kinds;
}

std::optional<TokenizerFiles> FirstIn(const std::string& folder, std::span<const TokenizerKind> kinds) {
  for (const TokenizerKind& kind : kinds) {
    TokenizerFiles files{.kind = &kind, .paths = {}};
    for (const char* name : kind.names) files.paths.push_back(folder + "/" + name);
    if (std::ranges::all_of(files.paths, IsFile)) return files;
  }
  return std::nullopt;
}

std::string HoleName(int64_t id) {
  char text[32];
  std::snprintf(text, sizeof text, "madeuphole%08lld", static_cast<long long>(id));
  return text;
}

// Turns spans of bytes into spans of characters. A character of which a span has some bytes belongs to it.
void CountCharacters(std::string_view text, std::span<CharacterSpan> spans) {
  std::vector<int64_t> character(text.size() + 1);  // number of the character that a byte belongs to
  int64_t count = -1;
  for (size_t i = 0; i < text.size(); ++i) {
    character[i] = BeginsCharacter(text[i]) ? ++count : count;
  }
  character[text.size()] = count + 1;
  for (CharacterSpan& span : spans) {
    const bool is_empty = span.begin == span.end;
    span.begin = character[static_cast<size_t>(span.begin)];
    span.end = is_empty ? span.begin : character[static_cast<size_t>(span.end - 1)] + 1;
  }
}

}  // namespace

std::optional<TokenizerFiles> FindTokenizer(const std::string& folder) { return FirstIn(folder, Kinds()); }

std::optional<TokenizerFiles> FindHuggingFaceTokenizer(const std::string& folder) {
  return FirstIn(folder, std::span(Kinds()).subspan(1));
}

TokenizerFiles Gpt2Tokenizer(const std::string& encoder_json, const std::string& vocab_bpe) {
  return {.kind = Kinds().data(), .paths = {encoder_json, vocab_bpe}};
}

std::string TokenizerNames() {
  return Joined(Kinds(), " or ", [](const TokenizerKind& kind) { return Joined(kind.names, " with "); });
}

std::unique_ptr<const Tokenizer> OpenTokenizer(const TokenizerFiles& files) { return files.kind->open(files.paths); }

std::vector<std::string> AllFilesOf(const TokenizerFiles& files) {
  std::vector<std::string> paths = files.paths;
  const std::string folder = FolderOf(paths.front()) + "/";
  for (const char* name : {"vocab.json", "merges.txt", "vocab.txt", kSentencePieceFile, "tokenizer.json",
                           "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    const auto is_this = [name](const std::string& path) { return fs::path(path).filename() == name; };
    if (std::ranges::none_of(paths, is_this) && IsFile(folder + name)) paths.push_back(folder + name);
  }
  // Whose sentencepiece model it is may be said by the model's config.json alone.
  const bool is_sentencepiece = fs::path(paths.front()).filename() == kSentencePieceFile;
  const bool is_said = TextBeside(folder + "tokenizer_config.json").find("\"tokenizer_class\"") != std::string::npos;
  if (is_sentencepiece && !is_said && IsFile(folder + "config.json")) paths.push_back(folder + "config.json");
  return paths;
}

std::string ReadTokenizerFile(const std::string& path) {
  constexpr uint64_t kMostBytes = 256 << 20;
  return ReadWholeText(path, kMostBytes);
}

std::string HashOfFiles(const std::vector<std::string>& paths) {
  Sha256 hash;
  for (const std::string& path : paths) hash.UpdateText(ReadTokenizerFile(path));
  return hash.Hex();
}

void TextEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) {
  if (IsUtf8(text)) return EncodeValid(text, false, ids, nullptr);
  EncodeValid(ReplaceInvalidUtf8(text, replaced_), false, ids, nullptr);
}

void TextEncoder::EncodeWord(std::string_view word, std::vector<int32_t>& ids) {
  EncodeValid(ReplaceInvalidUtf8(word, replaced_), true, ids, nullptr);
}

void TextEncoder::EncodeSpans(std::string_view text, std::vector<int32_t>& ids, std::vector<CharacterSpan>& spans) {
  const std::string valid = ReplaceInvalidUtf8(text, replaced_);
  const size_t before = spans.size();
  EncodeValid(valid, false, ids, &spans);
  CountCharacters(valid, std::span(spans).subspan(before));
}

const RowFormat& Tokenizer::format() const {
  if (other_rows_.empty()) return format_;
  throw DataError(other_rows_, "name a tokenizer that does, or its vocabulary's files without tokenizer.json");
}

bool Tokenizer::DictionaryLeavesOut(int64_t id) const {
  return id < kSpecialTokens || (id == special().mask && id == vocabulary() - 1);
}

std::string Tokenizer::Symbol(int64_t id) const {
  if (!keeps_ids_) return std::to_string(id);
  const std::string& token = tokens()[static_cast<size_t>(id)];
  return token.empty() ? HoleName(id) : token;
}

Dictionary Tokenizer::CountedDictionary(const std::vector<int64_t>& counts) const {
  if (keeps_ids_) {
    std::vector<Dictionary::Entry> entries;
    for (int64_t id = kSpecialTokens; id < vocabulary(); ++id) {
      if (!DictionaryLeavesOut(id)) entries.push_back({Symbol(id), counts[static_cast<size_t>(id)]});
    }
    return Dictionary(std::move(entries));
  }
  std::map<std::string, int64_t> by_symbol;
  for (int64_t id = 0; id < vocabulary(); ++id) {
    if (counts[static_cast<size_t>(id)] > 0) by_symbol[Symbol(id)] = counts[static_cast<size_t>(id)];
  }
  return Dictionary::Count(by_symbol);
}

std::vector<uint32_t> Tokenizer::IdsIn(const Dictionary& dictionary) const {
  std::vector<uint32_t> ids;
  for (int64_t id = 0; id < vocabulary(); ++id) {
    const bool is_left_out = keeps_ids_ && DictionaryLeavesOut(id);
    const int64_t known_as = is_left_out ? id : dictionary.IdOf(Symbol(id));
    if (keeps_ids_ && known_as != id) {
      throw DataError("the dictionary has the token " + Symbol(id) + " at " + std::to_string(known_as) +
                          ", the tokenizer's vocab.json at " + std::to_string(id),
                      "leave --dict out, or use the dict.txt that was made with this tokenizer");
    }
    ids.push_back(static_cast<uint32_t>(known_as));
  }
  return ids;
}

std::vector<bool> Tokenizer::BeginsWord(const Dictionary& dictionary) const {
  std::vector<bool> begins(static_cast<size_t>(dictionary.vocabulary()), true);
  for (size_t i = 0; i < dictionary.entries().size(); ++i) {
    const std::string& symbol = dictionary.entries()[i].symbol;
    const int64_t id = keeps_ids_ ? IdOf(symbol) : WholeNumber(symbol).value_or(-1);
    if (id >= 0 && id < vocabulary()) begins[kSpecialTokens + i] = BeginsWord(id);
  }
  return begins;
}

}  // namespace dtrain::data
