// dtrain_data tokenize: turns raw text into PREFIX.bin, PREFIX.idx and dict.txt, byte for byte as fairseq's BPE encoder
// (with --keep-empty) and fairseq-preprocess do. Many threads encode lines, which are written in their order. If the
// dictionary has to be counted first, the tokenizer's own ids are kept in a temporary file and renumbered at the end.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/formats/little_endian.h"
#include "data/formats/random_access_file.h"
#include "data/formats/token_dataset.h"
#include "data/prepare/commands.h"
#include "data/prepare/in_order.h"
#include "data/prepare/partial_file.h"
#include "data/prepare/progress.h"
#include "data/prepare/splits.h"
#include "data/prepare/tokenizer_choice.h"
#include "data/text/text_lines.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPieceBytes = 1 << 20;

// Appends tokens in their stored type.
void AppendTokens(TokenType type, const std::vector<uint32_t>& tokens, std::string& bytes) {
  const auto append = [&]<typename Stored>(Stored /*type*/) {
    const size_t before = bytes.size();
    bytes.resize(before + tokens.size() * sizeof(Stored));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto stored = static_cast<Stored>(tokens[i]);
      std::memcpy(bytes.data() + before + i * sizeof stored, &stored, sizeof stored);
    }
  };
  if (type == TokenType::kUInt16) return append(uint16_t{});
  append(uint32_t{});
}

// The stored number of each token of the tokenizer.
struct Numbering {
  std::vector<uint32_t> ids;
  uint32_t end = 0;  // stored behind each line
  TokenType type = TokenType::kUInt16;
};

// The encoded lines of a part of a text file.
struct EncodedLines {
  std::string tokens;
  std::vector<int32_t> sizes;
  int64_t text_bytes = 0;
};

// The state of one thread.
struct Worker {
  explicit Worker(const ByteLevelBpe& bpe) : encoder(bpe), counts(static_cast<size_t>(bpe.vocabulary()), 0) {}
  BpeEncoder encoder;
  std::vector<int64_t> counts;  // occurrences of each token
  std::vector<int32_t> line;
  std::vector<uint32_t> stored;
};

EncodedLines EncodeLines(std::string_view text, const Numbering& numbering, Worker& worker) {
  EncodedLines encoded;
  encoded.text_bytes = static_cast<int64_t>(text.size());
  worker.stored.clear();
  while (!text.empty()) {
    worker.line.clear();
    worker.encoder.Encode(Stripped(TakeLine(text)), worker.line);
    if (worker.line.size() >= INT32_MAX) {
      throw DataError("a line of " + std::to_string(worker.line.size()) + " tokens",
                      "a line must have fewer than 2^31 tokens");
    }
    for (const int32_t token : worker.line) {
      ++worker.counts[static_cast<size_t>(token)];
      worker.stored.push_back(numbering.ids[static_cast<size_t>(token)]);
    }
    worker.stored.push_back(numbering.end);
    encoded.sizes.push_back(static_cast<int32_t>(worker.line.size() + 1));
  }
  AppendTokens(numbering.type, worker.stored, encoded.tokens);
  return encoded;
}

class TextFiles {
 public:
  explicit TextFiles(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      const RandomAccessFile& file = files_.emplace_back(path);
      for (uint64_t begin = 0; begin < file.size(); begin += kPieceBytes) pieces_.push_back({files_.size() - 1, begin});
    }
  }
  size_t pieces() const { return pieces_.size(); }
  std::string Piece(size_t i) const { return LinesBeginningIn(files_[pieces_[i].file], pieces_[i].begin, kPieceBytes); }

 private:
  struct Place {
    size_t file;
    uint64_t begin;
  };
  std::vector<RandomAccessFile> files_;
  std::vector<Place> pieces_;
};

// The totals of the whole text.
struct Totals {
  std::vector<int32_t> sizes;   // tokens of each line
  std::vector<int64_t> counts;  // occurrences of each token of the tokenizer
  int64_t tokens = 0, replaced = 0;
};

Totals EncodeText(const TextFiles& text, const Tokenizer& tokenizer, const Numbering& numbering, size_t threads,
                  PartialFile& output) {
  std::vector<Worker> workers;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back(tokenizer.bpe());
  Totals totals;
  totals.counts.resize(workers[0].counts.size());
  Progress progress("tokenize", "MiB", static_cast<int64_t>(text.pieces()));
  InOrder(
      text.pieces(), threads,
      [&](size_t thread, size_t i) { return EncodeLines(text.Piece(i), numbering, workers[thread]); },
      [&](const EncodedLines& encoded) {
        output.Append(encoded.tokens);
        totals.sizes.insert(totals.sizes.end(), encoded.sizes.begin(), encoded.sizes.end());
        progress.Add(1, encoded.text_bytes);
      });
  for (const Worker& worker : workers) {
    totals.replaced += worker.encoder.replaced();
    for (size_t id = 0; id < worker.counts.size(); ++id) totals.counts[id] += worker.counts[id];
  }
  for (const int32_t size : totals.sizes) totals.tokens += size;
  return totals;
}

// Copies the stored tokens of a file and replaces each by its entry in `numbering`.ids. `type` is their type in the
// file.
void Renumber(const std::string& path, TokenType type, const Numbering& numbering, size_t threads,
              PartialFile& output) {
  const RandomAccessFile input(path);
  const uint64_t pieces = (input.size() + kPieceBytes - 1) / kPieceBytes;
  const auto make = [&](size_t /*thread*/, size_t i) {
    std::vector<uint8_t> bytes(std::min(kPieceBytes, input.size() - i * kPieceBytes));
    input.Read(i * kPieceBytes, bytes.size(), bytes.data());
    std::vector<int64_t> tokens(bytes.size() / static_cast<size_t>(TokenBytes(type)));
    WidenTokens(type, bytes, tokens.data());
    std::vector<uint32_t> renumbered;
    renumbered.reserve(tokens.size());
    for (const int64_t token : tokens) renumbered.push_back(numbering.ids.at(static_cast<size_t>(token)));
    std::string stored;
    AppendTokens(numbering.type, renumbered, stored);
    return stored;
  };
  InOrder(pieces, threads, make, [&](const std::string& stored) { output.Append(stored); });
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

std::string FolderOf(const std::string& prefix) {
  const std::string folder = fs::path(prefix).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string Content(const std::string& path) {
  const std::vector<uint8_t> bytes = ReadWholeFile(path);
  return {bytes.begin(), bytes.end()};
}

[[noreturn]] void RefuseFolder(const std::string& path, const std::string& why, const std::string& hint) {
  throw Error(ExitCode::kUsage, path + " " + why + ": all token files of a folder share this file", hint);
}

// Copies a tokenizer's file beside the data, for the model that is exported in the end.
void LeaveFile(const std::string& from, const std::string& to) {
  std::error_code ignored;
  const std::string content = Content(from);
  if (!fs::exists(to, ignored)) return PublishFile(to, content);
  if (Content(to) != content)
    RefuseFolder(to, "differs from " + from, "write into another folder with --output=FOLDER/NAME");
}

void LeaveTokenizer(const TokenizerFiles& files, const std::string& folder) {
  LeaveFile(files.vocabulary, folder + (files.keeps_ids ? "/vocab.json" : "/encoder.json"));
  LeaveFile(files.merges, folder + (files.keeps_ids ? "/merges.txt" : "/vocab.bpe"));
}

bool SameSymbols(const Dictionary& a, const Dictionary& b) {
  return std::equal(a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
                    [](const auto& x, const auto& y) { return x.symbol == y.symbol; });
}

// Throws unless the dict.txt in the folder, if there is one, gives the ids the same meaning.
void RequireSameDictionary(const std::string& path, const Dictionary& dictionary) {
  std::error_code ignored;
  if (!fs::exists(path, ignored) || SameSymbols(Dictionary::Load(path), dictionary)) return;
  RefuseFolder(path, "is a different dictionary from the one of these tokens",
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

void Report(const std::string& prefix, const Totals& totals, int64_t unknown) {
  std::printf("%s: %lld lines, %lld tokens, %.3g%% replaced by <unk>\n", prefix.c_str(),
              static_cast<long long>(totals.sizes.size()), static_cast<long long>(totals.tokens),
              100 * static_cast<double>(unknown) / static_cast<double>(totals.tokens));
  if (totals.replaced == 0) return;
  std::fprintf(stderr, "warning: %lld pieces of invalid UTF-8 were replaced by U+FFFD\n",
               static_cast<long long>(totals.replaced));
}

}  // namespace

void Tokenize(const PrepareOptions& options) {
  const TokenizerFiles files = ChosenTokenizer(options);
  const Tokenizer tokenizer(files);
  std::optional<Dictionary> dictionary;
  if (!options.dict.empty()) dictionary = Dictionary::Load(options.dict);
  const TextFiles text(options.inputs);
  const std::string& prefix = options.output;
  const std::string folder = FolderOf(prefix), dict_path = folder + "/dict.txt";
  std::error_code ignored, error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ExitCode::kStorage,
                "cannot make the folder " + folder + ": " + (error ? error.message() : "there is a file"),
                "choose another --output");
  }
  if (dictionary) RequireSameDictionary(dict_path, *dictionary);
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
  PublishFile(dict_path, dictionary->ToText());
  PublishIndex(prefix + ".idx", numbering.type, totals.sizes);
  Report(prefix, totals, Unknown(totals, numbering));
}

}  // namespace dtrain::data
