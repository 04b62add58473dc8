#include "data/text/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "data/error.h"
#include "data/storage.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostTokenizerBytes = 256 << 20;

std::string Content(const std::string& path) {
  const std::vector<uint8_t> bytes = ReadWholeFile(path, kMostTokenizerBytes);
  return {bytes.begin(), bytes.end()};
}

ByteLevelBpe LoadBpe(const TokenizerFiles& files, bool& marks_sentences) {
  if (!files.merges.empty()) return ByteLevelBpe::Load(files.vocabulary, files.merges);
  const TokenizerParts parts = PartsOf(files);
  marks_sentences = parts.marks_sentences;
  try {
    return {parts.vocabulary, parts.merges};
  } catch (const DataError& error) {
    throw DataError(files.vocabulary + ": " + error.what(), error.hint());
  }
}

std::string HoleName(int64_t id) {
  char text[32];
  std::snprintf(text, sizeof text, "madeuphole%08lld", static_cast<long long>(id));
  return text;
}

}  // namespace

std::optional<TokenizerFiles> FindHuggingFaceTokenizer(const std::string& folder) {
  const TokenizerFiles in_one{.vocabulary = folder + "/tokenizer.json", .keeps_ids = true};
  const TokenizerFiles two{.vocabulary = folder + "/vocab.json", .merges = folder + "/merges.txt", .keeps_ids = true};
  for (const TokenizerFiles& files : {in_one, two}) {
    if (std::ranges::all_of(files.paths(), IsFile)) return files;
  }
  return std::nullopt;
}

std::optional<TokenizerFiles> FindTokenizer(const std::string& folder) {
  const TokenizerFiles gpt2{.vocabulary = folder + "/encoder.json", .merges = folder + "/vocab.bpe"};
  if (std::ranges::all_of(gpt2.paths(), IsFile)) return gpt2;
  return FindHuggingFaceTokenizer(folder);
}

std::vector<std::string> TokenizerFiles::paths() const {
  if (merges.empty()) return {vocabulary};
  return {vocabulary, merges};
}

TokenizerParts PartsOf(const TokenizerFiles& files) {
  if (!files.merges.empty()) return {.vocabulary = Content(files.vocabulary), .merges = Content(files.merges)};
  try {
    return ParseTokenizerJson(Content(files.vocabulary));
  } catch (const DataError& error) {
    throw DataError(files.vocabulary + ": " + error.what(), error.hint());
  }
}

Tokenizer::Tokenizer(const TokenizerFiles& files)
    : bpe_(LoadBpe(files, marks_sentences_)), keeps_ids_(files.keeps_ids) {
  if (!keeps_ids_) return;
  RequireKnownSettings(std::filesystem::path(files.vocabulary).parent_path().string(), bpe_);
  try {
    RequireKeepableIds();
  } catch (const DataError& error) {
    throw DataError(files.vocabulary + ": " + error.what(), error.hint());
  }
}

void Tokenizer::RequireKeepableIds() const {
  constexpr const char* kHint =
      "a model's vocab.json has <s> 0, <pad> 1, </s> 2, <unk> 3, and <mask>; "
      "GPT-2's goes by --encoder_json and --vocab_bpe";
  const std::map<std::string, int64_t> wanted = {
      {"<s>", kBeginToken}, {"<pad>", kPadToken}, {"</s>", kEndToken}, {"<unk>", kUnknownToken}};
  for (const auto& [token, id] : wanted) {
    if (bpe_.IdOf(token) == id) continue;
    throw DataError("the token " + token + " has the id " + std::to_string(bpe_.IdOf(token)) + " instead of " +
                        std::to_string(id) + " (-1: there is none)",
                    kHint);
  }
  if (bpe_.IdOf(kMaskSymbol) < 0) throw DataError("there is no token <mask>", kHint);
}

bool Tokenizer::DictionaryLeavesOut(int64_t id) const {
  return id < kSpecialTokens || (id == bpe_.IdOf(kMaskSymbol) && id == bpe_.vocabulary() - 1);
}

std::string Tokenizer::Symbol(int64_t id) const {
  if (!keeps_ids_) return std::to_string(id);
  const std::string& token = bpe_.tokens()[static_cast<size_t>(id)];
  return token.empty() ? HoleName(id) : token;
}

Dictionary Tokenizer::CountedDictionary(const std::vector<int64_t>& counts) const {
  if (keeps_ids_) {
    std::vector<Dictionary::Entry> entries;
    for (int64_t id = kSpecialTokens; id < bpe_.vocabulary(); ++id) {
      if (!DictionaryLeavesOut(id)) entries.push_back({Symbol(id), counts[static_cast<size_t>(id)]});
    }
    return Dictionary(std::move(entries));
  }
  std::map<std::string, int64_t> by_symbol;
  for (int64_t id = 0; id < bpe_.vocabulary(); ++id) {
    if (counts[static_cast<size_t>(id)] > 0) by_symbol[Symbol(id)] = counts[static_cast<size_t>(id)];
  }
  return Dictionary::Count(by_symbol);
}

std::vector<uint32_t> Tokenizer::IdsIn(const Dictionary& dictionary) const {
  std::vector<uint32_t> ids;
  for (int64_t id = 0; id < bpe_.vocabulary(); ++id) {
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
    const int64_t id = keeps_ids_ ? bpe_.IdOf(symbol) : WholeNumber(symbol).value_or(-1);
    if (id < 0 || id >= bpe_.vocabulary()) continue;
    begins[kSpecialTokens + i] = ByteLevelBpe::BeginsWord(bpe_.tokens()[static_cast<size_t>(id)]);
  }
  return begins;
}

}  // namespace dtrain::data
