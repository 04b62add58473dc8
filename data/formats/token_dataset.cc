#include "data/formats/token_dataset.h"

#include <algorithm>
#include <iterator>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/little_endian.h"
#include "data/joined.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

constexpr std::string_view kTokenMagic{"MMIDIDX\0\0", 9};
constexpr std::string_view kOldMagic{"TNTIDX\0\0", 8};
constexpr uint64_t kTokenVersion = 1;
constexpr int64_t kItemsAtOnce = 1 << 16;

constexpr char kMakeAnew[] = "write the token files again with dtrain_data tokenize (or fairseq-preprocess)";

template <typename Stored>
void Widen(std::span<const uint8_t> bytes, int64_t* tokens) {
  for (size_t i = 0; i < bytes.size() / sizeof(Stored); ++i) {
    const auto token = LoadLittleEndian<Stored>(bytes.data() + i * sizeof(Stored));
    tokens[i] = static_cast<int64_t>(token);  // NOLINT(bugprone-signed-char-misuse): one byte is a number here
  }
}

struct StoredType {
  TokenType type;
  int64_t bytes;  // of a token
  void (*widen)(std::span<const uint8_t> bytes, int64_t* tokens);
};

template <typename Stored>
constexpr StoredType As(TokenType type) {
  return {type, sizeof(Stored), Widen<Stored>};
}

constexpr StoredType kTypes[] = {As<uint8_t>(TokenType::kUInt8),   As<int8_t>(TokenType::kInt8),
                                 As<uint16_t>(TokenType::kUInt16), As<int16_t>(TokenType::kInt16),
                                 As<uint32_t>(TokenType::kUInt32), As<int32_t>(TokenType::kInt32),
                                 As<uint64_t>(TokenType::kUInt64), As<int64_t>(TokenType::kInt64)};

// Returns null for a number that is no type.
const StoredType* Find(TokenType type) {
  const auto* const found = std::ranges::find(kTypes, type, &StoredType::type);
  return found == std::end(kTypes) ? nullptr : found;
}

bool HasTokens(const std::string& prefix) { return IsFile(prefix + ".idx") && IsFile(prefix + ".bin"); }

}  // namespace

int64_t TokenBytes(TokenType type) {
  const StoredType* stored = Find(type);
  return stored == nullptr ? 0 : stored->bytes;
}

TokenType TokenTypeFor(int64_t vocabulary) {
  constexpr int64_t kShortBelow = 65500;
  return vocabulary < kShortBelow ? TokenType::kUInt16 : TokenType::kUInt32;
}

void WidenTokens(TokenType type, std::span<const uint8_t> bytes, int64_t* tokens) { Find(type)->widen(bytes, tokens); }

std::vector<int64_t> WideTokens(TokenType type, std::span<const uint8_t> bytes) {
  std::vector<int64_t> tokens(bytes.size() / static_cast<size_t>(TokenBytes(type)));
  WidenTokens(type, bytes, tokens.data());
  return tokens;
}

void StoreToken(TokenType type, int64_t token, uint8_t* bytes) {
  for (int64_t i = 0; i < TokenBytes(type); ++i) bytes[i] = static_cast<uint8_t>(token >> (8 * i));
}

TokenIndexHeader ParseTokenIndexHeader(std::span<const uint8_t> bytes, uint64_t file_bytes) {
  const std::string_view text = AsText(bytes);
  if (text.starts_with(kOldMagic)) {
    throw DataError("this is an index of fairseq's older format (TNTIDX: --dataset-impl=cached or lazy)",
                    "write it again with fairseq-preprocess --dataset-impl=mmap, or with dtrain_data tokenize");
  }
  if (!text.starts_with(kTokenMagic) || bytes.size() < TokenIndexHeader::kBytes) {
    throw DataError("this is not an index of tokens: it does not begin with MMIDIDX", kMakeAnew);
  }
  const auto version = LoadLittleEndian<uint64_t>(bytes.data() + kTokenMagic.size());
  if (version != kTokenVersion) {
    throw DataError("the index has version " + std::to_string(version) + "; only version 1 can be read", kMakeAnew);
  }
  const uint8_t code = bytes[17];
  if (code == 6 || code == 7) throw DataError("the index is for floating-point numbers, not for tokens", kMakeAnew);
  const auto type = static_cast<TokenType>(code);
  if (TokenBytes(type) == 0) throw DataError("the index has the unknown type code " + std::to_string(code), kMakeAnew);
  const auto items = LoadLittleEndian<uint64_t>(bytes.data() + 18);
  constexpr uint64_t kItemBytes = sizeof(int32_t) + sizeof(int64_t);
  const uint64_t rest = file_bytes - TokenIndexHeader::kBytes;
  if (rest % kItemBytes != 0 || rest / kItemBytes != items) {
    throw DataError("the index says " + std::to_string(items) + " items, but has " + std::to_string(rest) +
                        " bytes for them instead of 12 each",
                    "it was cut short or damaged; " + std::string(kMakeAnew));
  }
  return {.type = type, .items = static_cast<int64_t>(items)};
}

std::string MakeTokenIndexHeader(const TokenIndexHeader& header) {
  std::string bytes(kTokenMagic);
  AppendLittleEndian(kTokenVersion, bytes);
  AppendLittleEndian(static_cast<uint8_t>(header.type), bytes);
  AppendLittleEndian(static_cast<uint64_t>(header.items), bytes);
  return bytes;
}

std::optional<std::string> FindTokenFiles(const std::string& data_dir, const std::string& split) {
  for (const std::string& name : SplitNames(split)) {
    const std::string prefix = data_dir + "/" + name;
    if (HasTokens(prefix)) return prefix;
  }
  return std::nullopt;
}

std::string RequireTokenFiles(const std::string& data_dir, const std::string& split) {
  if (auto found = FindTokenFiles(data_dir, split)) return *found;
  const auto files = [&](const std::string& name) { return data_dir + "/" + name + ".bin and .idx"; };
  const std::string tried = Joined(SplitNames(split), ", ", files);
  throw DataError("there is no '" + split + "' split: looked for " + tried,
                  "--data_dir must name a folder written by dtrain_data tokenize or fairseq-preprocess");
}

TokenDataset::TokenDataset(const std::string& prefix) : index_(prefix + ".idx"), bin_(prefix + ".bin") {
  if (prefix.ends_with("/train") && HasTokens(prefix + "1")) {  // which would be left out in silence
    throw DataError(
        prefix + "1.bin goes on where " + prefix + ".bin ends, for fairseq-train: parts are not joined here",
        "binarize the text as one file; masked words also learn from parts in folders of their own, one an epoch: "
        "--data_dir=A:B");
  }
  try {
    header_ = ParseTokenIndexHeader(ReadBeginning(prefix + ".idx", TokenIndexHeader::kBytes), index_.size());
  } catch (const DataError& error) {
    throw DataError(index_.path() + ": " + error.what(), error.hint());
  }
  if (header_.items == 0) throw DataError(index_.path() + " has no items: the text was empty");
  CheckIndex();
  fingerprint_ = Sha256()
                     .UpdateFile(index_.path(), index_.size())
                     .UpdateFile(bin_.path(), bin_.size())
                     .UpdateInteger(static_cast<int64_t>(header_.type))
                     .Hex();
}

void TokenDataset::CheckIndex() {
  const int64_t token_bytes = TokenBytes(header_.type);
  const auto most_tokens = static_cast<int64_t>(bin_.size()) / token_bytes;
  const uint64_t pointers = TokenIndexHeader::kBytes + sizeof(int32_t) * static_cast<uint64_t>(header_.items);
  std::vector<int64_t> places;
  ForEachSize([&](int64_t item, int64_t size) {
    const int64_t at = item % kItemsAtOnce;
    if (at == 0) {
      places.resize(static_cast<size_t>(std::min(kItemsAtOnce, header_.items - item)));
      index_.Read(pointers + static_cast<uint64_t>(item) * sizeof(int64_t), places.size() * sizeof(int64_t),
                  places.data());
    }
    const auto where = [&] { return index_.path() + ": item " + std::to_string(item); };
    if (size < 0) throw DataError(where() + " has the size " + std::to_string(size), kMakeAnew);
    if (places[static_cast<size_t>(at)] != tokens_ * token_bytes) {
      throw DataError(where() + " is not stored right after the previous one", kMakeAnew);
    }
    if (size > most_tokens - tokens_) {
      throw DataError(bin_.path() + " is shorter than its index says: it has " + std::to_string(bin_.size()) +
                          " bytes and ends within item " + std::to_string(item) + " of " +
                          std::to_string(header_.items),
                      "the file was cut short, or belongs to another index; " + std::string(kMakeAnew));
    }
    tokens_ += size;
  });
  if (tokens_ * token_bytes != static_cast<int64_t>(bin_.size())) {
    throw DataError(bin_.path() + " is longer than its index says: " + std::to_string(bin_.size()) +
                        " bytes instead of " + std::to_string(tokens_ * token_bytes),
                    "it belongs to another index; " + std::string(kMakeAnew));
  }
}

void TokenDataset::ForEachSize(const std::function<void(int64_t item, int64_t size)>& visit) const {
  std::vector<int32_t> sizes;
  for (int64_t begin = 0; begin < header_.items; begin += kItemsAtOnce) {
    sizes.resize(static_cast<size_t>(std::min(kItemsAtOnce, header_.items - begin)));
    index_.Read(TokenIndexHeader::kBytes + static_cast<uint64_t>(begin) * sizeof(int32_t),
                sizes.size() * sizeof(int32_t), sizes.data());
    for (size_t i = 0; i < sizes.size(); ++i) visit(begin + static_cast<int64_t>(i), sizes[i]);
  }
}

int64_t TokenDataset::SizeOf(int64_t item) const {
  int32_t size = 0;
  index_.Read(TokenIndexHeader::kBytes + static_cast<uint64_t>(item) * sizeof size, sizeof size, &size);
  if (size < 0) throw DataError(index_.path() + " has changed since it was opened");
  return size;
}

std::vector<uint8_t> TokenDataset::Read(int64_t index) const {
  const int64_t size = SizeOf(index);
  const auto item = static_cast<uint64_t>(index), items = static_cast<uint64_t>(header_.items);
  int64_t place = 0;
  index_.Read(TokenIndexHeader::kBytes + items * sizeof(int32_t) + item * sizeof place, sizeof place, &place);
  const int64_t token_bytes = TokenBytes(header_.type);
  if (place < 0) throw DataError(index_.path() + " has changed since it was opened");
  return ReadTokens(place / token_bytes, size);
}

std::vector<uint8_t> TokenDataset::ReadTokens(int64_t begin, int64_t count) const {
  const int64_t token_bytes = TokenBytes(header_.type);
  return bin_.ReadBytes(static_cast<uint64_t>(begin * token_bytes), static_cast<uint64_t>(count * token_bytes));
}

RecordPlace TokenDataset::Place(int64_t index) const {
  int64_t place = 0;
  index_.Read(TokenIndexHeader::kBytes + sizeof(int32_t) * static_cast<uint64_t>(header_.items) +
                  static_cast<uint64_t>(index) * sizeof place,
              sizeof place, &place);
  return {bin_.path(), place};
}

RecordPlace TokenDataset::PlaceOfToken(int64_t token) const { return {bin_.path(), token * TokenBytes(header_.type)}; }

}  // namespace dtrain::data
