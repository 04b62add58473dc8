// The tokenizer of XLM-R and CamemBERT (tokenizer_kinds.h). The library trusts the table of characters in a model and
// would read outside of it, so it is checked before.
#include <sentencepiece_processor.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "data/error.h"
#include "data/formats/protobuf.h"
#include "data/storage.h"
#include "data/text/tokenizer_json.h"
#include "data/text/tokenizer_kinds.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr int kUnknownPiece = 0;
constexpr char kHint[] = "copy the sentencepiece.bpe.model that came with the weights";

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
  for (ProtobufReader fields(AsBytes(model), "it is not a whole model of sentencepiece", kHint); fields.Next();) {
    if (!fields.IsBytes(kNormalizer)) continue;
    for (ProtobufReader parts = fields.Inner(); parts.Next();) {
      if (parts.IsBytes(kTable)) RequireWholeTable(AsText(parts.bytes()));
    }
  }
}

// Leaves out white space at both ends of a span of bytes. What has nothing left, the mark of a word alone, stands for
// the character behind it.
CharacterSpan Trimmed(std::string_view text, CharacterSpan span) {
  const auto bytes_at = [text](int64_t at) {
    return static_cast<int64_t>(CharacterBytes(text[static_cast<size_t>(at)]));
  };
  const auto is_space = [text](int64_t at) { return IsSpace(CodePointAt(text.data() + at)); };
  while (span.begin < span.end && is_space(span.begin)) span.begin += bytes_at(span.begin);
  for (int64_t last = span.end - 1; last > span.begin; --last) {
    const bool begins_character = BeginsCharacter(text[static_cast<size_t>(last)]);
    if (begins_character && !is_space(last)) break;
    if (begins_character) span.end = last;
  }
  const bool is_mark = span.begin == span.end && span.begin < static_cast<int64_t>(text.size());
  if (is_mark && !is_space(span.begin)) span.end += bytes_at(span.begin);
  return span;
}

RowFormat FormatOf(SentencePieceIds ids, int pieces) {
  RowFormat format;
  if (ids == SentencePieceIds::kCamembert) format.special = {.begin = 5, .end = 6, .mask = pieces + 4};
  if (ids == SentencePieceIds::kXlmRoberta) format.special.mask = pieces + 1;
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

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(SentencePieceIds ids, std::unique_ptr<sentencepiece::SentencePieceProcessor> processor);

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return tokens_; }
  int64_t IdOf(std::string_view token) const override {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  bool BeginsWord(int64_t id) const override {
    constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581, which stands for a space
    return special().Contains(id) || id == special().mask || tokens_[static_cast<size_t>(id)].starts_with(kMark);
  }

 private:
  class Encoder;

  const int32_t offset_;  // of ids to numbers of pieces
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys point into tokens_
  AddedTokens added_;
};

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
        [&](int32_t id, std::string_view place) { Append(id, SpanOf(place, text), ids, spans); });
  }

 private:
  void AppendPiece(int32_t piece, std::vector<int32_t>& ids) const {
    ids.push_back(piece == kUnknownPiece ? static_cast<int32_t>(kUnknownToken) : piece + tokenizer_.offset_);
  }

  void EncodePart(std::string_view part, std::vector<int32_t>& ids) {
    const auto status = tokenizer_.processor_->Encode({part.data(), part.size()}, &pieces_);
    if (!status.ok()) throw DataError("sentencepiece cannot encode a text: " + status.ToString());
    for (const int piece : pieces_) AppendPiece(piece, ids);
  }

  // The library describes pieces of which it knows the places as a protocol buffer.
  void EncodeSpansOf(std::string_view part, int64_t at, std::vector<int32_t>& ids, std::vector<CharacterSpan>& spans) {
    constexpr uint64_t kPieces = 2, kId = 2, kBegin = 4, kEnd = 5;
    const std::string encoded = tokenizer_.processor_->EncodeAsSerializedProto({part.data(), part.size()});
    for (ProtobufReader pieces(AsBytes(encoded), "damaged pieces"); pieces.Next();) {
      if (!pieces.IsBytes(kPieces)) continue;
      int32_t id = 0;
      CharacterSpan span;
      for (ProtobufReader fields = pieces.Inner(); fields.Next();) {
        if (fields.IsVarint(kId)) id = static_cast<int32_t>(fields.varint());
        if (fields.IsVarint(kBegin)) span.begin = static_cast<int64_t>(fields.varint());
        if (fields.IsVarint(kEnd)) span.end = static_cast<int64_t>(fields.varint());
      }
      AppendPiece(id, ids);
      const CharacterSpan trimmed = Trimmed(part, span);
      spans.push_back({at + trimmed.begin, at + trimmed.end});
    }
  }

  const SentencePieceTokenizer& tokenizer_;
  std::vector<int> pieces_;
};

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceIds ids,
                                               std::unique_ptr<sentencepiece::SentencePieceProcessor> processor)
    : Tokenizer(/*keeps_ids=*/true, /*has_dictionary=*/false, FormatOf(ids, processor->GetPieceSize())),
      offset_(ids == SentencePieceIds::kCamembert ? 4 : 1),
      processor_(std::move(processor)) {
  const bool is_camembert = ids == SentencePieceIds::kCamembert;
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

std::unique_ptr<TextEncoder> SentencePieceTokenizer::MakeEncoder() const { return std::make_unique<Encoder>(*this); }

}  // namespace

std::unique_ptr<const Tokenizer> MakeSentencePiece(std::string_view model, SentencePieceIds ids) {
  return std::make_unique<SentencePieceTokenizer>(ids, Loaded(model));
}

std::unique_ptr<const Tokenizer> OpenSentencePiece(const std::vector<std::string>& paths) {
  const std::string& path = paths[0];
  const std::string folder = path.substr(0, path.size() - std::string_view(kSentencePieceFile).size() - 1);
  return NamingFile(path, [&] {
    auto tokenizer = MakeSentencePiece(
        ReadTokenizerFile(path), IsCamembert(folder) ? SentencePieceIds::kCamembert : SentencePieceIds::kXlmRoberta);
    RequireSentencePieceSettings(folder, *tokenizer);
    return tokenizer;
  });
}

}  // namespace dtrain::data
