#include "data/text/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "data/sha256.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"

namespace dtrain::data {

// Each in the file of its kind.
using Contents = std::vector<std::string>;
std::unique_ptr<const Tokenizer> OpenGpt2(const Contents& contents, const std::string& folder);
std::unique_ptr<const Tokenizer> OpenSentencePiece(const Contents& contents, const std::string& folder);
std::unique_ptr<const Tokenizer> OpenTokenizerJson(const Contents& contents, const std::string& folder);
std::unique_ptr<const Tokenizer> OpenRobertaBpe(const Contents& contents, const std::string& folder);
std::unique_ptr<const Tokenizer> OpenVocabTxt(const Contents& contents, const std::string& folder);

namespace {

namespace fs = std::filesystem;

constexpr char kSentencePieceFile[] = "sentencepiece.bpe.model";

const std::vector<TokenizerKind>& Kinds() {
  static const std::vector<TokenizerKind> kinds = {
      {.names = {"encoder.json", "vocab.bpe"}, .keeps_ids = false, .make = OpenGpt2},
      {.names = {kSentencePieceFile}, .keeps_ids = true, .make = OpenSentencePiece},
      {.names = {"tokenizer.json"}, .keeps_ids = true, .make = OpenTokenizerJson},
      {.names = {"vocab.json", "merges.txt"}, .keeps_ids = true, .make = OpenRobertaBpe},
      {.names = {"vocab.txt"}, .keeps_ids = true, .make = OpenVocabTxt}};
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

size_t TwoBytes(char first, char second) {
  return size_t{static_cast<uint8_t>(first)} << 8 | static_cast<uint8_t>(second);
}

bool IsSpaceAt(const char* at) { return IsSpace(CodePointAt(at)); }

// Returns where the white space that ends at `end` begins, not before `least`.
size_t SpacesBefore(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    size_t last = end - 1;
    while (last > least && !BeginsCharacter(text[last])) --last;
    if (!IsSpaceAt(text.data() + last)) break;
    end = last;
  }
  return end;
}

size_t SpacesBehind(std::string_view text, size_t begin) {
  while (begin < text.size() && IsSpaceAt(text.data() + begin)) begin += CharacterBytes(text[begin]);
  return begin;
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

std::unique_ptr<const Tokenizer> OpenTokenizer(const TokenizerFiles& files) {
  std::vector<std::string> contents;
  for (const std::string& path : files.paths) contents.push_back(ReadTokenizerFile(path));
  return NamingFiles(files.paths, [&] { return files.kind->make(contents, FolderOf(files.paths.front())); });
}

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

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, std::greater(), [](const AddedToken& token) { return token.content.size(); });
  for (const AddedToken& token : tokens_) {
    for (int second = 0; second < 256; ++second) {
      if (token.content.size() > 1 && second != static_cast<uint8_t>(token.content[1])) continue;
      may_begin_.set(TwoBytes(token.content[0], static_cast<char>(second)));
    }
  }
}

const AddedToken* AddedTokens::FindAt(std::string_view text) const {
  if (!may_begin_[TwoBytes(text[0], text.size() > 1 ? text[1] : '\0')]) return nullptr;
  const auto found =
      std::ranges::find_if(tokens_, [text](const auto& token) { return text.starts_with(token.content); });
  return found == tokens_.end() ? nullptr : &*found;
}

void AddedTokens::Split(std::string_view text, const std::function<void(std::string_view)>& part,
                        const std::function<void(int32_t, std::string_view)>& token) const {
  size_t done = 0;
  const auto finish_part = [&](size_t end) {
    if (end > done) part(text.substr(done, end - done));
  };
  for (size_t at = 0; !tokens_.empty() && at < text.size();) {
    const AddedToken* const found = FindAt(text.substr(at));
    if (found == nullptr) {
      ++at;
      continue;
    }
    const size_t begin = found->takes_spaces_before ? SpacesBefore(text, at, done) : at;
    const size_t end = at + found->content.size();
    finish_part(begin);
    done = found->takes_spaces_behind ? SpacesBehind(text, end) : end;
    token(found->id, text.substr(begin, done - begin));
    at = end;  // white space that belongs to one may begin the next
  }
  finish_part(text.size());
}

void TextEncoder::EncodeAny(std::string_view text, bool is_word, std::vector<uint32_t>& ids,
                            std::vector<CharacterSpan>* spans) {
  const std::string valid = IsUtf8(text) ? "" : ReplaceInvalidUtf8(text, replaced_);
  if (!valid.empty()) text = valid;
  const size_t first = ids.size(), first_span = spans == nullptr ? 0 : spans->size();
  EncodedText out{ids, spans};
  const auto place_of = [&text](std::string_view part) { return part.data() - text.data(); };
  if (!added_.empty()) {
    added_.Split(
        text, [&](std::string_view part) { EncodePart(part, place_of(part), is_word, out); },
        [&](int32_t id, std::string_view token) {
          out.Append(id, {place_of(token), place_of(token) + static_cast<int64_t>(token.size())});
        });
  } else if (!text.empty()) {
    EncodePart(text, 0, is_word, out);
  }
  if (spans != nullptr) CountCharacters(text, std::span(*spans).subspan(first_span));
  for (size_t i = first; !renumbered_.empty() && i < ids.size(); ++i) ids[i] = renumbered_[ids[i]];
}

void TextEncoder::Encode(std::string_view text, std::vector<uint32_t>& ids) { EncodeAny(text, false, ids, nullptr); }

void TextEncoder::EncodeWord(std::string_view word, std::vector<uint32_t>& ids) { EncodeAny(word, true, ids, nullptr); }

void TextEncoder::EncodeSpans(std::string_view text, std::vector<uint32_t>& ids, std::vector<CharacterSpan>& spans) {
  EncodeAny(text, false, ids, &spans);
}

const RowFormat& Tokenizer::format() const {
  if (rows_.problem.empty()) return rows_.format;
  throw DataError(rows_.problem, "name a tokenizer that does, or its vocabulary's files without tokenizer.json");
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

bool Tokenizer::GoesWith(const Dictionary& dictionary) const {
  const auto is_token = [this](const auto& entry) { return IdOf(entry.symbol) >= 0 || entry.is_filler(); };
  return !keeps_ids_ || std::ranges::all_of(dictionary.entries(), is_token);
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
