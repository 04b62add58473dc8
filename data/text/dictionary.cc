#include "data/text/dictionary.h"

#include <array>
#include <cstdio>
#include <utility>

#include "data/error.h"
#include "data/sha256.h"
#include "data/storage.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

constexpr std::array<std::string_view, 4> kSpecials = {"<s>", "<pad>", "</s>", "<unk>"};
constexpr int64_t kSizeMultiple = 8;
constexpr uint64_t kMostBytes = 256 << 20;  // far more than any dictionary has
constexpr size_t kMostSymbols = 1 << 24;    // the largest --vocab_size

std::string_view WithoutTrailingSpace(std::string_view line) {
  const size_t last = line.find_last_not_of(" \t\r\n\v\f");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

Dictionary::Entry ParseLine(std::string_view line) {
  line = WithoutTrailingSpace(line);
  const size_t space = line.rfind(' ');
  if (space == std::string_view::npos || space == 0) {
    throw DataError("expected a symbol, a space and a count", "this is not a dict.txt of fairseq");
  }
  const std::string_view count_text = line.substr(space + 1);
  if (count_text == "#fairseq:overwrite") {
    throw DataError(
        "symbols that overwrite others (#fairseq:overwrite) are not supported",
        "write the line with a symbol that is new, such as <unk>NOTUSED, and without the mark; each line counts "
        "towards the ids of all that follow, so take none out");
  }
  const auto count = WholeNumber(count_text);
  if (!count || *count < 0) {
    throw DataError("the last word is not a count (a whole number, 0 or more)", "this is not a dict.txt of fairseq");
  }
  return {std::string(line.substr(0, space)), *count};
}

std::string MadeUpWord(int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%04lld", Dictionary::kFiller, static_cast<long long>(number));
  return text;
}

}  // namespace

Dictionary::Dictionary(std::vector<Entry> entries) : entries_(std::move(entries)) {
  ids_.reserve(entries_.size());
  for (const Entry& entry : entries_) ids_.emplace(entry.symbol, kSpecialTokens + static_cast<int64_t>(ids_.size()));
}

Dictionary Dictionary::Parse(std::string_view text) {
  std::vector<Entry> entries;
  std::unordered_map<std::string, size_t> seen;
  for (const std::string_view special : kSpecials) seen.emplace(special, 0);
  for (size_t number = 1; !text.empty(); ++number) {
    if (number > kMostSymbols) throw DataError("it has more than " + std::to_string(kMostSymbols) + " symbols");
    const std::string where = "line " + std::to_string(number) + ": ";
    try {
      entries.push_back(ParseLine(TakeLine(text)));
    } catch (const DataError& error) {
      throw DataError(where + error.what(), error.hint());
    }
    if (const auto [other, is_new] = seen.emplace(entries.back().symbol, number); !is_new) {
      throw DataError(
          where + (other->second > 0 ? "the symbol was already given in line " + std::to_string(other->second)
                                     : "the symbol is one of the special ones"),
          "list each symbol once, and do not list <s>, <pad>, </s> and <unk>");
    }
  }
  return Dictionary(std::move(entries));
}

Dictionary Dictionary::Load(const std::string& path) {
  const std::string text = ReadWholeText(path, kMostBytes);
  try {
    return Parse(text);
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what(), error.hint());
  }
}

Dictionary Dictionary::Count(const std::map<std::string, int64_t>& counts) {
  std::vector<Entry> entries;
  for (const auto& [symbol, count] : counts) entries.push_back({symbol, count});
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.count > b.count; });
  const auto size = [&] { return kSpecialTokens + static_cast<int64_t>(entries.size()); };
  for (int64_t i = 0; size() % kSizeMultiple != 0; ++i) entries.push_back({MadeUpWord(i), 0});
  return Dictionary(std::move(entries));
}

std::string Dictionary::ToText() const {
  std::string text;
  for (const Entry& entry : entries_) text += entry.symbol + " " + std::to_string(entry.count) + "\n";
  return text;
}

std::string Dictionary::fingerprint() const {
  Sha256 hash;
  for (const Entry& entry : entries_) hash.UpdateText(entry.symbol);
  return hash.Hex();
}

int64_t Dictionary::IdOf(const std::string& symbol) const {
  const auto found = ids_.find(symbol);
  return found == ids_.end() ? kUnknownToken : found->second;
}

int64_t Dictionary::mask_token() const {
  const auto found = ids_.find(kMaskSymbol);
  return found == ids_.end() ? size() : found->second;
}

}  // namespace dtrain::data
