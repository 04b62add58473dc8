#include "data/sentences/sentence_tokenizer.h"

#include <algorithm>

#include "data/error.h"
#include "data/storage.h"
#include "data/text/dictionary.h"

namespace dtrain::data {
namespace {

constexpr int64_t kSentenceSpecials = 2;

size_t RoomFor(int64_t most, int64_t specials) {
  if (most > specials) return static_cast<size_t>(most - specials);
  throw Error(ExitCode::kUsage,
              "rows of " + std::to_string(most) + " tokens have no room beside the " + std::to_string(specials) +
                  " special tokens",
              "give a larger --tokens_per_sample");
}

TokenizerFiles RequireTokenizer(const std::string& folder) {
  if (auto files = FindTokenizer(folder)) return *files;
  throw DataError("there is no tokenizer in " + folder + ": looked for " + TokenizerNames());
}

std::string DictionaryIn(const std::string& folder) { return folder + "/dict.txt"; }

}  // namespace

bool AppendSentenceRow(const RowFormat& format, std::span<const uint32_t> a, int64_t most,
                       std::vector<uint32_t>& tokens) {
  const size_t kept = std::min(a.size(), RoomFor(most, kSentenceSpecials));
  tokens.push_back(static_cast<uint32_t>(format.special.begin));
  tokens.insert(tokens.end(), a.begin(), a.begin() + static_cast<std::ptrdiff_t>(kept));
  tokens.push_back(static_cast<uint32_t>(format.special.end));
  return kept < a.size();
}

// Only the longer one is cut if that is enough; else both become half as long as the room, and the longer one keeps the
// odd token, or `b` if they are equally long.
bool AppendPairRow(const RowFormat& format, std::span<const uint32_t> a, std::span<const uint32_t> b, int64_t most,
                   std::vector<uint32_t>& tokens) {
  const size_t room = RoomFor(most, kSentenceSpecials + format.ends_between);
  const bool is_cut = a.size() + b.size() > room;
  if (is_cut) {
    std::span<const uint32_t>& shorter = a.size() > b.size() ? b : a;
    std::span<const uint32_t>& longer = a.size() > b.size() ? a : b;
    if (shorter.size() > room / 2) shorter = shorter.first(room / 2);
    longer = longer.first(std::min(longer.size(), room - shorter.size()));
  }
  const auto begin = static_cast<uint32_t>(format.special.begin), end = static_cast<uint32_t>(format.special.end);
  const uint32_t mark = format.has_types ? kOfSecondText : 0;
  tokens.push_back(begin);
  tokens.insert(tokens.end(), a.begin(), a.end());
  tokens.insert(tokens.end(), static_cast<size_t>(format.ends_between), end);
  for (const uint32_t token : b) tokens.push_back(token | mark);
  tokens.push_back(end | mark);
  return is_cut;
}

SentenceTokenizer::SentenceTokenizer(const std::string& folder)
    : folder_(folder), tokenizer_(OpenTokenizer(RequireTokenizer(folder))), vocabulary_(tokenizer_->vocabulary()) {
  const TokenizerFiles files = RequireTokenizer(folder);
  std::vector<std::string> paths = files.paths;
  NamingFiles(files.paths, [this] { format_ = tokenizer_->format(); });
  if (!tokenizer_->keeps_ids()) {
    UseDictionary();
    paths.push_back(DictionaryIn(folder));
  }
  fingerprint_ = HashOfFiles(tokenizer_->follows_settings() ? AllFilesOf(files) : paths);
}

void SentenceTokenizer::UseDictionary() {
  const std::string path = DictionaryIn(folder_);
  if (!Exists(path)) {
    throw DataError("there is no " + path + ", which gives the tokens of encoder.json the ids of the model",
                    "copy the dict.txt that came with the weights there");
  }
  const Dictionary dictionary = Dictionary::Load(path);
  id_of_ = tokenizer_->IdsIn(dictionary);
  vocabulary_ = dictionary.vocabulary();
}

std::optional<std::string> SentenceTokenizerFolder(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    const std::string folder = FolderAt(path);
    for (const std::string& place : {folder, folder + "/tokenizer"}) {
      if (FindTokenizer(place)) return place;
    }
  }
  return std::nullopt;
}

std::unique_ptr<const SentenceTokenizer> FindSentenceTokenizer(const std::vector<std::string>& paths) {
  if (const auto folder = SentenceTokenizerFolder(paths)) return std::make_unique<const SentenceTokenizer>(*folder);
  std::string looked_in;
  for (const std::string& path : paths) {
    if (!path.empty()) looked_in += (looked_in.empty() ? "" : ", ") + FolderAt(path);
  }
  throw DataError(
      "there is no tokenizer: looked for " + TokenizerNames() + " in " + (looked_in.empty() ? "no folder" : looked_in),
      "put the files that came with the weights beside these or beside the data");
}

}  // namespace dtrain::data
