// dtrain_data tokenize: turns raw text into PREFIX.bin, PREFIX.idx and dict.txt, byte for byte as fairseq's BPE encoder
// (with --keep-empty) and fairseq-preprocess do. text_encoding.h encodes; this file knows which files are written. If
// the dictionary has to be counted first, the tokenizer's own ids are kept in a temporary file and renumbered at the
// end.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/formats/token_dataset.h"
#include "data/outputs.h"
#include "data/partial_file.h"
#include "data/prepare/commands.h"
#include "data/prepare/text_encoding.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

// The tokenizer that the command line names.
TokenizerFiles ChosenTokenizer(const PrepareOptions& options) {
  if (options.tokenizer.empty()) return {.vocabulary = options.encoder_json, .merges = options.vocab_bpe};
  if (const auto files = FindHuggingFaceTokenizer(options.tokenizer)) return *files;
  throw DataError("there is no tokenizer in --tokenizer=" + options.tokenizer,
                  "name a folder with tokenizer.json, or with vocab.json and merges.txt");
}

void PublishIndex(const std::string& path, TokenType type, const std::vector<int32_t>& sizes) {
  PartialFile file(path);
  file.Append(MakeTokenIndexHeader({.type = type, .items = static_cast<int64_t>(sizes.size())}));
  file.Append({reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(int32_t)});
  constexpr size_t kFlushBytes = 1 << 20;
  std::string places;
  int64_t place = 0;
  for (const int32_t size : sizes) {
    AppendLittleEndian(place, places);
    place += size * TokenBytes(type);
    if (places.size() < kFlushBytes) continue;
    file.Append(places);
    places.clear();
  }
  file.Append(places);
  file.Publish();
}

std::string Content(const std::string& path) {
  constexpr uint64_t kMostBytes = 256 << 20;
  const std::vector<uint8_t> bytes = ReadWholeFile(path, kMostBytes);
  return {bytes.begin(), bytes.end()};
}

[[noreturn]] void RefuseFolder(const std::string& path, const std::string& why, const std::string& hint) {
  throw Error(ExitCode::kUsage, path + " " + why + ": all token files of a folder share this file", hint);
}

// Copies a tokenizer's file beside the data, for the model that is exported in the end.
void LeaveFile(const std::string& content, const std::string& to) {
  if (!Exists(to)) return PublishFile(to, content);
  if (Content(to) != content)
    RefuseFolder(to, "is of another tokenizer", "write into another folder with --output=FOLDER/NAME");
}

void LeaveTokenizer(const TokenizerFiles& files, const std::string& folder) {
  const TokenizerParts parts = PartsOf(files);
  LeaveFile(parts.vocabulary, folder + (files.keeps_ids ? "/vocab.json" : "/encoder.json"));
  LeaveFile(parts.merges, folder + (files.keeps_ids ? "/merges.txt" : "/vocab.bpe"));
}

bool SameSymbols(const Dictionary& a, const Dictionary& b) {
  return std::equal(a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
                    [](const auto& x, const auto& y) { return x.symbol == y.symbol; });
}

// Throws unless the dict.txt in the folder, if there is one, gives the ids the same meaning.
void RequireSameDictionary(const std::string& path, const Dictionary& dictionary) {
  if (!Exists(path) || SameSymbols(Dictionary::Load(path), dictionary)) return;
  RefuseFolder(path, "is a different dictionary from the one of these tokens",
               "give --dict=" + path + " to use it, or write into another folder");
}

// Throws if the dict.txt in the folder must be that of another text. Without --dict the dictionary is counted and only
// known in the end, so this would otherwise be found after all of the text has been encoded.
void RequireNoOtherDictionary(const std::string& path, const std::string& prefix, const Tokenizer& tokenizer) {
  if (tokenizer.keeps_ids()) {
    const std::vector<int64_t> no_counts(static_cast<size_t>(tokenizer.bpe().vocabulary()), 0);
    return RequireSameDictionary(path, tokenizer.CountedDictionary(no_counts));  // symbols do not depend on counts
  }
  const bool is_made_again = Exists(prefix + ".bin") || Exists(prefix + ".idx");
  if (is_made_again || !Exists(path)) return;
  RefuseFolder(path, "is the dictionary of another text",
               "give --dict=" + path + " to use it, or write into another folder");
}

Numbering NumberingOf(const Tokenizer& tokenizer, const Dictionary& dictionary) {
  return {.ids = tokenizer.IdsIn(dictionary),
          .end = static_cast<uint32_t>(kEndToken),
          .type = TokenTypeFor(dictionary.size())};
}

// Returns the tokenizer's own ids, and as the end of a line the number after the last id.
Numbering OwnNumbering(const Tokenizer& tokenizer) {
  const auto count = static_cast<uint32_t>(tokenizer.bpe().vocabulary());
  Numbering numbering{.ids = std::vector<uint32_t>(count), .end = count, .type = TokenTypeFor(count + 1)};
  for (uint32_t id = 0; id < count; ++id) numbering.ids[id] = id;
  return numbering;
}

int64_t Unknown(const Totals& totals, const Numbering& numbering) {
  int64_t unknown = 0;
  for (size_t id = 0; id < totals.counts.size(); ++id) {
    if (numbering.ids[id] == static_cast<uint32_t>(kUnknownToken)) unknown += totals.counts[id];
  }
  return unknown;
}

void WarnOfReplaced(int64_t pieces) {
  if (pieces == 0) return;
  std::fprintf(stderr, "warning: %lld pieces of invalid UTF-8 were replaced by U+FFFD\n",
               static_cast<long long>(pieces));
}

void Report(const std::string& prefix, const Totals& totals, int64_t unknown) {
  std::printf("%s: %lld lines, %lld tokens, %.3g%% replaced by <unk>\n", Shown(prefix).c_str(),
              static_cast<long long>(totals.sizes.size()), static_cast<long long>(totals.tokens),
              100 * static_cast<double>(unknown) / static_cast<double>(totals.tokens));
  WarnOfReplaced(totals.replaced);
}

}  // namespace

void Tokenize(const PrepareOptions& options) {
  const TokenizerFiles files = ChosenTokenizer(options);
  const Tokenizer tokenizer(files);
  std::optional<Dictionary> dictionary;
  if (!options.dict.empty()) dictionary = Dictionary::Load(options.dict);
  const TextFiles text(options.inputs);
  const std::string& prefix = options.output;
  const std::string dict_path = DictionaryBeside(prefix), folder = fs::path(dict_path).parent_path().string();
  std::error_code ignored, error;
  fs::create_directories(folder, error);
  if (!IsFolder(folder)) {
    throw Error(ExitCode::kStorage,
                "cannot make the folder " + folder + ": " + (error ? error.message() : "there is a file"),
                "choose another --output");
  }
  if (dictionary) {
    RequireSameDictionary(dict_path, *dictionary);
  } else {
    RequireNoOtherDictionary(dict_path, prefix, tokenizer);
  }
  LeaveTokenizer(files, folder);

  const size_t threads = Threads(options);
  PartialFile bin(prefix + ".bin");
  const Numbering first = dictionary ? NumberingOf(tokenizer, *dictionary) : OwnNumbering(tokenizer);
  std::optional<PartialFile> own_ids;
  if (!dictionary) own_ids.emplace(prefix + ".ids");
  const Totals totals = EncodeText(text, tokenizer, first, threads, dictionary ? bin : *own_ids);
  if (totals.sizes.empty()) throw DataError(options.inputs[0] + " and the other files of --input have no line of text");

  Numbering numbering = first;
  if (!dictionary) {
    dictionary = tokenizer.CountedDictionary(totals.counts);
    RequireSameDictionary(dict_path, *dictionary);
    numbering = NumberingOf(tokenizer, *dictionary);
    Numbering with_end = numbering;
    with_end.ids.push_back(numbering.end);
    Renumber(own_ids->partial_path(), first.type, with_end, threads, bin);
  }
  // The index is written last: if it exists, everything is complete.
  fs::remove(prefix + ".idx", ignored);
  bin.Publish();
  if (!IsSameFile(options.dict, dict_path)) PublishFile(dict_path, dictionary->ToText());
  PublishIndex(prefix + ".idx", numbering.type, totals.sizes);
  Report(prefix, totals, Unknown(totals, numbering));
}

// dtrain_data encode: runs the tokenizer alone, for use by other programs.
void Encode(const PrepareOptions& options) {
  const Tokenizer tokenizer(ChosenTokenizer(options));
  BpeEncoder encoder(tokenizer.bpe());
  std::ios::sync_with_stdio(false);
  std::string line;
  std::vector<int32_t> ids;
  int64_t replaced = 0;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (!IsUtf8(line)) line = ReplaceInvalidUtf8(line, replaced);
    const auto text = nlohmann::json::parse(line, nullptr, false);
    if (!text.is_string()) {
      throw DataError("stdin, line " + std::to_string(number) + " is not a JSON string",
                      "write one JSON string per line: in double quotes, with JSON's escapes");
    }
    ids.clear();
    encoder.Encode(text.get_ref<const std::string&>(), ids);
    std::string answer = "[";
    for (const int32_t id : ids) answer += (answer.size() > 1 ? "," : "") + std::to_string(id);
    std::cout << answer << "]\n";
    if (std::cin.rdbuf()->in_avail() <= 0)
      std::cout.flush();  // a program that writes single lines waits for each answer
  }
  if (!std::cout.flush()) throw Error(ExitCode::kStorage, "cannot write to stdout", "");
  WarnOfReplaced(replaced);
}

}  // namespace dtrain::data
