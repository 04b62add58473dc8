// The library trusts the table of characters in a model and would read outside of it, so it is checked before.
#include "data/text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/error.h"
#include "data/storage.h"
#include "data/text/tokenizer_json.h"
#include "data/text/unicode_classes.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr int kUnknownPiece = 0;
constexpr char kHint[] = "copy the sentencepiece.bpe.model that came with the weights";

// Reads the fields of a protocol buffer one after another.
class ProtoReader {
 public:
  struct Field {
    uint64_t number = 0, value = 0;  // the value is that of a number
    std::string_view bytes;          // of a text or a message
  };

  explicit ProtoReader(std::string_view bytes) : rest_(bytes) {}

  // Returns the next field; empty at the end. Throws DataError if it is cut off.
  std::optional<Field> Next() {
    if (rest_.empty()) return std::nullopt;
    const uint64_t key = TakeNumber();
    Field field{.number = key >> 3, .value = 0, .bytes = {}};
    constexpr uint64_t kNumber = 0, kEight = 1, kBytes = 2, kFour = 5;
    switch (key & 7) {
      case kNumber:
        field.value = TakeNumber();
        break;
      case kBytes:
        field.bytes = Take(TakeNumber());
        break;
      case kEight:
        Take(8);
        break;
      case kFour:
        Take(4);
        break;
      default:
        throw DataError("it is not a model of sentencepiece", kHint);
    }
    return field;
  }

 private:
  std::string_view Take(uint64_t size) {
    if (size > rest_.size()) throw DataError("it is not a whole model of sentencepiece", kHint);
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  uint64_t TakeNumber() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(Take(1)[0]);
      number |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    return number;
  }

  std::string_view rest_;
};

// Throws DataError unless the table stays inside of itself: the size of a trie in bytes, the trie (Darts-clone's double
// array), and texts, each with a zero behind it.
void RequireWholeTable(std::string_view table) {
  if (table.empty()) return;
  const auto number_at = [table](size_t i) {
    uint32_t number = 0;
    std::memcpy(&number, table.data() + i * sizeof number, sizeof number);
    return number;
  };
  const auto refuse = [] { throw DataError("its table of characters (precompiled_charsmap) is damaged", kHint); };
  constexpr uint64_t kBlockBytes = 1024;
  const uint64_t trie_bytes = table.size() < sizeof(uint32_t) ? 0 : number_at(0);
  if (trie_bytes == 0 || trie_bytes % kBlockBytes != 0 || trie_bytes >= table.size() - sizeof(uint32_t)) refuse();
  const uint64_t units = trie_bytes / sizeof(uint32_t), text_bytes = table.size() - sizeof(uint32_t) - trie_bytes;
  if (table.back() != '\0') refuse();
  for (uint32_t i = 0; i < units; ++i) {
    const uint32_t unit = number_at(1 + i);
    const uint32_t child = i ^ (unit >> 10 << ((unit & 0x200) >> 6));
    const bool is_value = unit >> 31 != 0, has_value = (unit & 0x100) != 0;
    if (is_value) continue;
    if ((child | 0xFF) >= units || (has_value && (number_at(1 + child) & 0x7FFFFFFF) >= text_bytes)) refuse();
  }
}

void RequireWholeModel(std::string_view model) {
  constexpr uint64_t kNormalizer = 3, kTable = 2;
  ProtoReader reader(model);
  while (const auto field = reader.Next()) {
    if (field->number != kNormalizer) continue;
    ProtoReader normalizer(field->bytes);
    while (const auto part = normalizer.Next()) {
      if (part->number == kTable) RequireWholeTable(part->bytes);
    }
  }
}

// Leaves out white space at both ends of a span of bytes. What has nothing left, the mark of a word alone, stands for
// the character behind it.
CharacterSpan Trimmed(std::string_view text, CharacterSpan span) {
  const auto bytes_at = [text](int64_t at) {
    return static_cast<int64_t>(CharacterBytes(text[static_cast<size_t>(at)]));
  };
  const auto is_space = [text](int64_t at) {
    return CharacterClasses()[CodePointAt(text.data() + at)] == CharacterClass::kSpace;
  };
  while (span.begin < span.end && is_space(span.begin)) span.begin += bytes_at(span.begin);
  for (int64_t last = span.end - 1; last > span.begin; --last) {
    const bool begins_character = (static_cast<uint8_t>(text[static_cast<size_t>(last)]) & 0xC0) != 0x80;
    if (begins_character && !is_space(last)) break;
    if (begins_character) span.end = last;
  }
  const bool is_mark = span.begin == span.end && span.begin < static_cast<int64_t>(text.size());
  if (is_mark && !is_space(span.begin)) span.end += bytes_at(span.begin);
  return span;
}

RowFormat FormatOf(SentencePieceTokenizer::Ids ids, int pieces) {
  RowFormat format;
  if (ids == SentencePieceTokenizer::Ids::kCamembert) format.special = {.begin = 5, .end = 6, .mask = pieces + 4};
  if (ids == SentencePieceTokenizer::Ids::kXlmRoberta) format.special.mask = pieces + 1;
  return format;
}

std::unique_ptr<sentencepiece::SentencePieceProcessor> Loaded(std::string_view model) {
  constexpr int kUnknown = 0, kBegin = 1, kEnd = 2;
  RequireWholeModel(model);
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto({model.data(), model.size()});
  if (!status.ok()) throw DataError("it is not a model of sentencepiece: " + status.ToString(), kHint);
  if (processor->unk_id() != kUnknown || processor->bos_id() != kBegin || processor->eos_id() != kEnd) {
    throw DataError("its first pieces are not <unk>, <s> and </s>", kHint);
  }
  return processor;
}

// Whether the files in a folder say that its tokenizer is CamemBERT's.
bool IsCamembert(const std::string& folder) {
  for (const auto& [name, field] :
       {std::pair("/tokenizer_config.json", "tokenizer_class"), {"/config.json", "model_type"}}) {
    const auto fields = nlohmann::json::parse(TextBeside(folder + name), nullptr, /*allow_exceptions=*/false);
    const auto said = fields.is_object() ? fields.find(field) : fields.end();
    if (said != fields.end() && said->is_string())
      return said->get_ref<const std::string&>().starts_with(field[0] == 't' ? "Camembert" : "camembert");
  }
  return false;
}

}  // namespace

class SentencePieceTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const SentencePieceTokenizer& tokenizer) : tokenizer_(tokenizer) {}

 protected:
  void EncodeValid(std::string_view text, bool /*is_word*/, std::vector<int32_t>& ids,
                   std::vector<CharacterSpan>* spans) override {
    tokenizer_.added_.Split(
        text,
        [&](std::string_view part) {
          if (spans == nullptr) return EncodePart(part, ids);
          EncodeSpansOf(part, part.data() - text.data(), ids, *spans);
        },
        [&](int32_t id, std::string_view place) {
          ids.push_back(id);
          const int64_t begin = place.data() - text.data();
          if (spans != nullptr) spans->push_back({begin, begin + static_cast<int64_t>(place.size())});
        });
  }

 private:
  void Append(int32_t piece, std::vector<int32_t>& ids) const {
    ids.push_back(piece == kUnknownPiece ? static_cast<int32_t>(kUnknownToken) : piece + tokenizer_.offset_);
  }

  void EncodePart(std::string_view part, std::vector<int32_t>& ids) {
    const auto status = tokenizer_.processor_->Encode({part.data(), part.size()}, &pieces_);
    if (!status.ok()) throw DataError("sentencepiece cannot encode a text: " + status.ToString());
    for (const int piece : pieces_) Append(piece, ids);
  }

  // The library describes pieces of which it knows the places as a protocol buffer.
  void EncodeSpansOf(std::string_view part, int64_t at, std::vector<int32_t>& ids, std::vector<CharacterSpan>& spans) {
    constexpr uint64_t kPieces = 2, kId = 2, kBegin = 4, kEnd = 5;
    const std::string encoded = tokenizer_.processor_->EncodeAsSerializedProto({part.data(), part.size()});
    ProtoReader pieces(encoded);
    while (const auto piece = pieces.Next()) {
      if (piece->number != kPieces) continue;
      int32_t id = 0;
      CharacterSpan span;
      ProtoReader fields(piece->bytes);
      while (const auto field = fields.Next()) {
        if (field->number == kId) id = static_cast<int32_t>(field->value);
        if (field->number == kBegin) span.begin = static_cast<int64_t>(field->value);
        if (field->number == kEnd) span.end = static_cast<int64_t>(field->value);
      }
      Append(id, ids);
      const CharacterSpan trimmed = Trimmed(part, span);
      spans.push_back({at + trimmed.begin, at + trimmed.end});
    }
  }

  const SentencePieceTokenizer& tokenizer_;
  std::vector<int> pieces_;
};

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view model, Ids ids)
    : SentencePieceTokenizer(ids, Loaded(model)) {}

SentencePieceTokenizer::SentencePieceTokenizer(Ids ids,
                                               std::unique_ptr<sentencepiece::SentencePieceProcessor> processor)
    : Tokenizer(/*keeps_ids=*/true, /*has_dictionary=*/false, FormatOf(ids, processor->GetPieceSize())),
      offset_(ids == Ids::kCamembert ? 4 : 1),
      processor_(std::move(processor)) {
  const bool is_camembert = ids == Ids::kCamembert;
  tokens_ = {"<s>", "<pad>", "</s>", "<unk>"};
  if (is_camembert) tokens_ = {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"};
  for (int piece = static_cast<int>(tokens_.size()) - offset_; piece < processor_->GetPieceSize(); ++piece) {
    tokens_.push_back(processor_->IdToPiece(piece));
  }
  tokens_.emplace_back(kMaskSymbol);
  for (size_t id = 0; id < tokens_.size(); ++id) ids_[tokens_[id]] = static_cast<int32_t>(id);
  std::vector<AddedToken> added;
  for (const char* name : {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED", "<s>", "<pad>", "</s>", "<unk>", kMaskSymbol}) {
    const auto found = ids_.find(name);
    if (found == ids_.end()) continue;
    added.push_back({.content = name, .id = found->second, .takes_spaces_before = found->first == kMaskSymbol});
  }
  added_ = AddedTokens(std::move(added));
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::unique_ptr<TextEncoder> SentencePieceTokenizer::MakeEncoder() const { return std::make_unique<Encoder>(*this); }

int64_t SentencePieceTokenizer::IdOf(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

bool SentencePieceTokenizer::BeginsWord(int64_t id) const {
  constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581, which stands for a space
  return special().Contains(id) || id == special().mask || tokens_[static_cast<size_t>(id)].starts_with(kMark);
}

std::unique_ptr<const Tokenizer> OpenSentencePiece(const std::vector<std::string>& paths) {
  using Ids = SentencePieceTokenizer::Ids;
  const std::string& path = paths[0];
  const std::string folder = path.substr(0, path.size() - std::string_view(kSentencePieceFile).size() - 1);
  return NamingFile(path, [&] {
    auto tokenizer = std::make_unique<SentencePieceTokenizer>(ReadTokenizerFile(path),
                                                              IsCamembert(folder) ? Ids::kCamembert : Ids::kXlmRoberta);
    RequireSentencePieceSettings(folder, *tokenizer);
    return tokenizer;
  });
}

}  // namespace dtrain::data
