// dtrain_data tokenize: turns raw text into PREFIX.bin, PREFIX.idx and dict.txt, byte for byte as fairseq's BPE encoder
// (with --keep-empty) and fairseq-preprocess do. If the dictionary has to be counted first, the tokenizer's own ids are
// kept in a temporary file and renumbered at the end. Tokenizers whose special tokens are not fairseq's have no
// dict.txt: their own files lie beside the tokens.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/little_endian.h"
#include "data/formats/token_dataset.h"
#include "data/outputs.h"
#include "data/prepare/commands.h"
#include "data/progress.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/tokenizer.h"
#include "data/text/utf8.h"
#include "data/written_file.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

// ---- Encoding: many threads encode lines, which are written in their order ----

constexpr uint64_t kPieceBytes = 1 << 20;

// The stored number of each token of the tokenizer.
struct Numbering {
  std::vector<uint32_t> ids;
  uint32_t end = 0;  // stored behind each line
  TokenType type = TokenType::kUInt16;
};

// Throws DataError for a file whose bytes are no text yet, which would become tokens all the same.
void RequireText(const std::string& path) {
  constexpr std::string_view kCompressed[] = {"\x1F\x8B",         "BZh91AY&",         "\xFD\x37zXZ",
                                              "\x28\xB5\x2F\xFD", "\x04\x22\x4D\x18", "PK\x03\x04"};
  const std::vector<uint8_t> bytes = ReadBeginning(path, 8);
  const auto begins = [text = AsText(bytes)](std::string_view start) { return text.starts_with(start); };
  if (std::ranges::any_of(kCompressed, begins))
    throw DataError(path + " is compressed", "decompress it, as with gunzip");
  if (begins("\xFF\xFE") || begins("\xFE\xFF")) {
    throw DataError(path + " is in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8");
  }
}

// Text files in pieces of whole lines.
class TextFiles {
 public:
  // Throws DataError if a file cannot be opened.
  explicit TextFiles(const std::vector<std::string>& paths) : paths_(paths) {
    for (size_t file = 0; file < paths.size(); ++file) {
      RequireText(paths[file]);
      const uint64_t bytes = RandomAccessFile(paths[file]).size();
      for (uint64_t begin = 0; begin < bytes; begin += kPieceBytes) pieces_.push_back({file, begin});
    }
  }

  size_t pieces() const { return pieces_.size(); }
  // Opens the file anew: there may be more of them than a process may hold open.
  std::string Piece(size_t i) const {
    return LinesBeginningIn(RandomAccessFile(paths_[pieces_[i].file]), pieces_[i].begin, kPieceBytes);
  }

 private:
  struct Place {
    size_t file;
    uint64_t begin;
  };

  const std::vector<std::string> paths_;
  std::vector<Place> pieces_;
};

// The totals of the whole text.
struct Totals {
  std::vector<int32_t> sizes;   // tokens of each line
  std::vector<int64_t> counts;  // occurrences of each token of the tokenizer
  int64_t tokens = 0, replaced = 0;
};

// Appends tokens in their stored type.
void AppendTokens(TokenType type, const std::vector<uint32_t>& tokens, std::string& bytes) {
  const auto append = [&bytes](const auto& stored) {
    bytes.append(reinterpret_cast<const char*>(stored.data()), stored.size() * sizeof stored[0]);
  };
  if (type != TokenType::kUInt16) return append(tokens);
  append(std::vector<uint16_t>(tokens.begin(), tokens.end()));
}

// The encoded lines of a part of a text file.
struct EncodedLines {
  std::string tokens;
  std::vector<int32_t> sizes;
  int64_t text_bytes = 0;
};

// The state of one thread.
struct Worker {
  explicit Worker(const Tokenizer& tokenizer)
      : encoder(tokenizer.MakeEncoder()), counts(static_cast<size_t>(tokenizer.vocabulary()), 0) {}
  std::unique_ptr<TextEncoder> encoder;
  std::vector<int64_t> counts;  // occurrences of each token
  std::vector<uint32_t> line, stored;
};

EncodedLines EncodeLines(std::string_view text, const Numbering& numbering, Worker& worker) {
  EncodedLines encoded;
  encoded.text_bytes = static_cast<int64_t>(text.size());
  worker.stored.clear();
  while (!text.empty()) {
    worker.line.clear();
    worker.encoder->Encode(Stripped(TakeLine(text)), worker.line);
    if (worker.line.size() >= INT32_MAX) {
      throw DataError("a line of " + std::to_string(worker.line.size()) + " tokens",
                      "a line must have fewer than 2^31 tokens");
    }
    for (const uint32_t token : worker.line) {
      ++worker.counts[token];
      worker.stored.push_back(numbering.ids[token]);
    }
    worker.stored.push_back(numbering.end);
    encoded.sizes.push_back(static_cast<int32_t>(worker.line.size() + 1));
  }
  AppendTokens(numbering.type, worker.stored, encoded.tokens);
  return encoded;
}

// Appends all lines to `output`, encoded and numbered. Throws DataError if a line has 2^31 tokens or more.
Totals EncodeText(const TextFiles& text, const Tokenizer& tokenizer, const Numbering& numbering, size_t threads,
                  PartialFile& output) {
  std::vector<Worker> workers;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back(tokenizer);
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
    totals.replaced += worker.encoder->replaced();
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
    const auto bytes = input.ReadBytes(i * kPieceBytes, std::min(kPieceBytes, input.size() - i * kPieceBytes));
    std::vector<uint32_t> renumbered;
    for (const int64_t token : WideTokens(type, bytes))
      renumbered.push_back(numbering.ids.at(static_cast<size_t>(token)));
    std::string stored;
    AppendTokens(numbering.type, renumbered, stored);
    return stored;
  };
  InOrder(pieces, threads, make, [&](const std::string& stored) { output.Append(stored); });
}

// ---- Files ----

std::string DictionaryBeside(const std::string& prefix) { return FolderOf(prefix) + "/dict.txt"; }

// The tokenizer that the command line names.
TokenizerFiles ChosenTokenizer(const PrepareOptions& options) {
  if (options.tokenizer.empty()) return Gpt2Tokenizer(options.encoder_json, options.vocab_bpe);
  if (const auto files = FindHuggingFaceTokenizer(options.tokenizer)) return *files;
  throw DataError("there is no tokenizer in --tokenizer=" + options.tokenizer,
                  "name a folder with tokenizer.json, vocab.json and merges.txt, vocab.txt or sentencepiece.bpe.model");
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

[[noreturn]] void RefuseFolder(const std::string& path, const std::string& why, const std::string& hint) {
  throw Error(ExitCode::kUsage, path + " " + why + ": all token files of a folder share this file", hint);
}

// Copies a tokenizer's file beside the data, for the model that is exported in the end.
void LeaveFile(const std::string& content, const std::string& to) {
  if (!Exists(to)) return PublishFile(to, content);
  if (ReadTokenizerFile(to) != content)
    RefuseFolder(to, "is of another tokenizer", "write into another folder with --output=FOLDER/NAME");
}

void LeaveTokenizer(const TokenizerFiles& files, const Tokenizer& tokenizer, const std::string& folder) {
  if (!tokenizer.has_dictionary()) {
    for (const std::string& path : AllFilesOf(files)) {
      LeaveFile(ReadTokenizerFile(path), folder + "/" + fs::path(path).filename().string());
    }
    return;
  }
  const TokenizerParts parts = PartsOf(files);
  LeaveFile(parts.vocabulary, folder + (tokenizer.keeps_ids() ? "/vocab.json" : "/encoder.json"));
  LeaveFile(parts.merges, folder + (tokenizer.keeps_ids() ? "/merges.txt" : "/vocab.bpe"));
}

bool SameSymbols(const Dictionary& a, const Dictionary& b) {
  return std::ranges::equal(a.entries(), b.entries(), {}, &Dictionary::Entry::symbol, &Dictionary::Entry::symbol);
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
  if (!tokenizer.has_dictionary()) {
    if (Exists(path))
      RefuseFolder(path, "is of another tokenizer", "write into another folder with --output=FOLDER/NAME");
    return;
  }
  if (tokenizer.keeps_ids()) {
    const std::vector<int64_t> no_counts(static_cast<size_t>(tokenizer.vocabulary()), 0);
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

// Returns the tokenizer's own ids, and as the end of a line, unless it has one, the number after the last id.
Numbering OwnNumbering(const Tokenizer& tokenizer) {
  const auto count = static_cast<uint32_t>(tokenizer.vocabulary());
  Numbering numbering{.ids = std::vector<uint32_t>(count), .end = count, .type = TokenTypeFor(count + 1)};
  if (!tokenizer.has_dictionary()) numbering.end = static_cast<uint32_t>(tokenizer.special().end);
  for (uint32_t id = 0; id < count; ++id) numbering.ids[id] = id;
  return numbering;
}

int64_t Unknown(const Totals& totals, const Numbering& numbering, const SpecialTokens& special) {
  int64_t unknown = 0;
  for (size_t id = 0; id < totals.counts.size(); ++id) {
    if (numbering.ids[id] == special.unknown) unknown += totals.counts[id];
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

// The token files PREFIX.bin have no mark, so they are known by their index. What a dictionary holds is compared later.
std::vector<Output> TokenOutputs(const PrepareOptions& options) {
  const std::string &prefix = options.output, dictionary = DictionaryBeside(prefix);
  const std::vector<Mark> of_index = {{"MMIDIDX"}};
  const auto of_tokens = HasMark(prefix + ".idx", of_index) ? std::vector<Mark>{{}} : std::vector<Mark>();
  std::vector<Output> outputs = {
      {.flag = "--output", .path = prefix, .marks = of_index, .files = {prefix + ".idx"}},
      {.flag = "--output", .path = prefix, .marks = of_tokens, .files = {prefix + ".bin", prefix + ".ids"}}};
  if (!IsSameFile(options.dict, dictionary)) {
    outputs.push_back({.flag = "--output", .path = prefix, .marks = {{}}, .files = {dictionary}});
  }
  return outputs;
}

// Throws DataError if a file cannot be read or the tokenizer is unusable.
void Tokenize(const PrepareOptions& options) {
  const TokenizerFiles files = ChosenTokenizer(options);
  const std::unique_ptr<const Tokenizer> opened = OpenTokenizer(files);
  const Tokenizer& tokenizer = *opened;
  if (!options.dict.empty() && !tokenizer.has_dictionary()) {
    throw Error(
        ExitCode::kUsage,
        "--dict=" + options.dict + " is given, but the tokens of " + files.paths.front() + " have no dictionary",
        "leave --dict out: the tokenizer's ids are the model's");
  }
  std::optional<Dictionary> dictionary;
  if (!options.dict.empty()) dictionary = Dictionary::Load(options.dict);
  const TextFiles text(options.inputs);
  const std::string& prefix = options.output;
  const std::string dict_path = DictionaryBeside(prefix), folder = FolderOf(dict_path);
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
  LeaveTokenizer(files, tokenizer, folder);

  const size_t threads = Threads(options);
  PartialFile bin(prefix + ".bin");
  const Numbering first = dictionary ? NumberingOf(tokenizer, *dictionary) : OwnNumbering(tokenizer);
  std::optional<PartialFile> own_ids;
  if (!dictionary && tokenizer.has_dictionary()) own_ids.emplace(prefix + ".ids");
  const Totals totals = EncodeText(text, tokenizer, first, threads, own_ids ? *own_ids : bin);
  if (totals.sizes.empty()) throw DataError(options.inputs[0] + " and the other files of --input have no line of text");

  Numbering numbering = first;
  if (own_ids) {
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
  if (dictionary && !IsSameFile(options.dict, dict_path)) PublishFile(dict_path, dictionary->ToText());
  PublishIndex(prefix + ".idx", numbering.type, totals.sizes);
  Report(prefix, totals, Unknown(totals, numbering, tokenizer.special()));
}

// Answers a line of JSON: the ids of a text, or of a list of words, in which a sentence has been split; for an object
// with the text in the member `offsets`, lists of an id and the characters [begin, end) that it stands for. Empty if it
// is nothing of these.
std::optional<nlohmann::json> Answer(const nlohmann::json& asked, TextEncoder& encoder) {
  std::vector<uint32_t> ids;
  if (asked.is_string()) {
    encoder.Encode(asked.get_ref<const std::string&>(), ids);
    return ids;
  }
  const auto text = asked.is_object() ? asked.find("offsets") : asked.end();
  if (text != asked.end() && text->is_string()) {
    std::vector<CharacterSpan> spans;
    encoder.EncodeSpans(text->get_ref<const std::string&>(), ids, spans);
    auto answer = nlohmann::json::array();
    for (size_t i = 0; i < ids.size(); ++i) answer.push_back({ids[i], spans[i].begin, spans[i].end});
    return answer;
  }
  if (!asked.is_array() || !std::ranges::all_of(asked, [](const auto& word) { return word.is_string(); })) return {};
  for (const auto& word : asked) encoder.EncodeWord(word.get_ref<const std::string&>(), ids);
  return ids;
}

// dtrain_data encode: runs the tokenizer alone, for use by other programs. Throws DataError if a line of stdin is not a
// JSON string.
void Encode(const PrepareOptions& options) {
  const std::unique_ptr<const Tokenizer> tokenizer = OpenTokenizer(ChosenTokenizer(options));
  const std::unique_ptr<TextEncoder> encoder = tokenizer->MakeEncoder();
  std::ios::sync_with_stdio(false);
  std::string line;
  int64_t replaced = 0;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (!IsUtf8(line)) line = ReplaceInvalidUtf8(line, replaced);
    const auto answer = Answer(nlohmann::json::parse(line, nullptr, false), *encoder);
    if (!answer) {
      throw DataError("stdin, line " + std::to_string(number) + " is not a JSON string",
                      "write one JSON string per line: in double quotes, with JSON's escapes");
    }
    std::cout << answer->dump() << "\n";
    if (std::cin.rdbuf()->in_avail() <= 0)
      std::cout.flush();  // a program that writes single lines waits for each answer
  }
  if (!std::cout.flush()) throw Error(ExitCode::kStorage, "cannot write to stdout", "");
  WarnOfReplaced(replaced);
}

}  // namespace dtrain::data
