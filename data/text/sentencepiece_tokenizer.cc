// The tokenizers of XLM-R and CamemBERT: the sentencepiece library, whose ids fairseq has moved behind its own special
// tokens. A tokenizer.json of theirs is made a model of the library again. It trusts the table of characters in a model
// and would read outside of it, so it is checked before.
#include <openssl/evp.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "data/error.h"
#include "data/formats/protobuf.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/tokenizer_json.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

using nlohmann::json;

constexpr char kUnigramFields[] = R"({
  "pre_tokenizer": null, "normalizer": null,
  "model": {"type": ["Unigram"], "unk_id": [3], "byte_fallback": [null, false], "vocab": null}
})";
// Its pre-tokenizer and its normalizer are one of these, or several in a row, as sentencepiece does it in one.
constexpr char kUnigramStep[] = R"({
  "type": ["WhitespaceSplit", "Metaspace", "Precompiled", "Replace", "Strip"],
  "strip_left": [false, true], "strip_right": [true], "replacement": ["\u2581"],
  "prepend_scheme": ["always"], "add_prefix_space": [true], "split": [true], "str_rep": null,
  "precompiled_charsmap": null, "pattern": [{"Regex": " {2,}"}], "content": [" ", "\u2581"]
})";

// Of the files beside either.
constexpr char kSentencePieceSettings[] = R"({
  "tokenizer_class": [null, "XLMRobertaTokenizer", "XLMRobertaTokenizerFast", "CamembertTokenizer",
                      "CamembertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"],
  "bos_token": ["<s>"], "cls_token": ["<s>"], "pad_token": ["<pad>"], "eos_token": ["</s>"], "sep_token": ["</s>"],
  "unk_token": ["<unk>"], "mask_token": ["<mask>"], "add_prefix_space": [null, true], "sp_model_kwargs": [null, {}],
  "full_tokenizer_file": null, "legacy": null, "unk_id": null, "extra_special_tokens": [null, {}, [], ["<s>", "</s>"]],
  "additional_special_tokens": [null, [], ["<s>NOTUSED", "</s>NOTUSED"], ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]]
})";

constexpr int kUnknownPiece = 0, kBeginPiece = 1, kEndPiece = 2;
constexpr const char* kFirstPieces[] = {"<unk>", "<s>", "</s>"};
constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581, which stands for a space
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

// The library takes the end of a piece for where its first zero is.
void RequireWholeModel(std::string_view model) {
  constexpr uint64_t kPiece = 1, kText = 1, kNormalizer = 3, kTable = 2;
  for (ProtobufReader fields(AsBytes(model), "it is not a whole model of sentencepiece", kHint); fields.Next();) {
    const bool is_piece = fields.IsBytes(kPiece);
    if (!is_piece && !fields.IsBytes(kNormalizer)) continue;
    for (ProtobufReader parts = fields.Inner(); parts.Next();) {
      if (!is_piece && parts.IsBytes(kTable)) RequireWholeTable(AsText(parts.bytes()));
      if (is_piece && parts.IsBytes(kText) && AsText(parts.bytes()).find('\0') != std::string_view::npos) {
        throw DataError("one of its pieces contains a zero byte (U+0000)", "train the tokenizer on texts without it");
      }
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

// How a kind of model numbers the pieces, of which the first ones are kFirstPieces.
struct Numbering {
  const char *tokenizer_class, *model_type;  // how those of tokenizer_config.json and of config.json begin
  std::vector<std::string> first;            // tokens before those whose id is the number of their piece plus `offset`
  int offset = 0;
  SpecialTokens special = {};  // but for <mask>, which comes after all pieces

  // Returns the tokens that a vocabulary begins with: all of `first` and of kFirstPieces.
  std::vector<std::string> Beginning() const {
    std::vector<std::string> tokens = first;
    for (size_t piece = first.size() - static_cast<size_t>(offset); piece < std::size(kFirstPieces); ++piece) {
      tokens.emplace_back(kFirstPieces[piece]);
    }
    return tokens;
  }
};

// If nothing says which one it is, it is the first. In a tokenizer.json their first tokens tell.
const Numbering kNumberings[] = {{"XLMRoberta", "xlm-roberta", {"<s>", "<pad>", "</s>", "<unk>"}, 1},
                                 {"Camembert",
                                  "camembert",
                                  {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"},
                                  4,
                                  {.begin = 5, .end = 6}}};

RowFormat FormatOfPieces(const Numbering& numbering, int pieces) {
  RowFormat format{.special = numbering.special};
  format.special.mask = pieces + numbering.offset;
  return format;
}

std::unique_ptr<sentencepiece::SentencePieceProcessor> Loaded(std::string_view model) {
  RequireWholeModel(model);
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto({model.data(), model.size()});
  if (!status.ok()) throw DataError("it is not a model of sentencepiece: " + status.ToString(), kHint);
  if (processor->unk_id() != kUnknownPiece || processor->bos_id() != kBeginPiece || processor->eos_id() != kEndPiece) {
    throw DataError("its first pieces are not <unk>, <s> and </s>", kHint);
  }
  return processor;
}

// Returns the numbering that tokenizer_config.json, or the config.json of a model in the same folder, says.
const Numbering& NumberingIn(const std::string& folder) {
  for (const auto& [name, field, beginning] :
       {std::tuple("/tokenizer_config.json", "tokenizer_class", &Numbering::tokenizer_class),
        {"/config.json", "model_type", &Numbering::model_type}}) {
    const json fields = json::parse(TextBeside(folder + name), nullptr, /*allow_exceptions=*/false);
    const json& said = MemberOf(fields, field);
    if (!said.is_string()) continue;
    for (const Numbering& numbering : kNumberings) {
      if (said.get_ref<const std::string&>().starts_with(numbering.*beginning)) return numbering;
    }
    break;
  }
  return kNumberings[0];
}

// What a tokenizer.json does with white space that is not in the library's own model, which makes one space of several
// and leaves out those at the ends.
struct WhiteSpace {
  bool splits = false;      // each kind of white space separates words (WhitespaceSplit)
  bool strips_end = false;  // each kind is left out at the end (Strip)
  bool keeps_last = false;  // a space at the end is a piece of its own
  bool mask_takes = true;   // spaces in front of <mask> belong to it
};

// What is looked for in texts as it is, if it has an id.
constexpr std::string_view kAddedTokens[] = {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED", "<s>",
                                             "<pad>",      "</s>",        "<unk>",        kMaskSymbol};

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const Numbering& numbering, std::unique_ptr<sentencepiece::SentencePieceProcessor> processor,
                         WhiteSpace white_space = {});

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return tokens_; }
  int64_t IdOf(std::string_view token) const override {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  const char* transformers_class() const override {
    return tokens_.front() == "<s>NOTUSED" ? "CamembertTokenizer" : "XLMRobertaTokenizer";
  }
  bool BeginsWord(int64_t id) const override {
    return special().Contains(id) || id == special().mask || tokens_[static_cast<size_t>(id)].starts_with(kMark);
  }

 private:
  class Encoder;

  const int32_t offset_;  // of ids to numbers of pieces
  const WhiteSpace white_space_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys point into tokens_
  AddedTokens added_;
};

class SentencePieceTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const SentencePieceTokenizer& tokenizer) : TextEncoder(tokenizer.added_), tokenizer_(tokenizer) {}

 private:
  void EncodePart(std::string_view part, int64_t at, bool /*is_word*/, EncodedText& out) override {
    const WhiteSpace& white_space = tokenizer_.white_space_;
    const std::string_view spaced = white_space.splits       ? WithSpaces(part)
                                    : white_space.strips_end ? WithoutSpacesAtEnd(part)
                                                             : part;
    out.spans == nullptr ? EncodeIds(spaced, out) : EncodeSpansOf(spaced, at, out);
    if (!white_space.keeps_last || !part.ends_with(' ')) return;
    const int64_t end = at + static_cast<int64_t>(part.size());
    out.Append(static_cast<int32_t>(tokenizer_.IdOf(kMark)), {end - 1, end});
  }

  int32_t IdOfPiece(int32_t piece) const {
    return piece == kUnknownPiece ? int32_t{kUnknownToken} : piece + tokenizer_.offset_;
  }

  static std::string_view WithoutSpacesAtEnd(std::string_view text) {
    size_t end = 0;  // behind the last character that is no white space
    for (size_t at = 0; at < text.size(); at += CharacterBytes(text[at])) {
      if (!IsSpace(CodePointAt(text.data() + at))) end = at + CharacterBytes(text[at]);
    }
    return text.substr(0, end);
  }

  // Returns the text with as many spaces as bytes in place of each white space.
  std::string_view WithSpaces(std::string_view text) {
    spaced_.assign(text);
    for (size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
      bytes = CharacterBytes(text[at]);
      if (IsSpace(CodePointAt(text.data() + at))) spaced_.replace(at, bytes, bytes, ' ');
    }
    return spaced_;
  }

  void EncodeIds(std::string_view part, EncodedText& out) {
    const auto status = tokenizer_.processor_->Encode({part.data(), part.size()}, &pieces_);
    if (!status.ok()) throw DataError("sentencepiece cannot encode a text: " + status.ToString());
    for (const int piece : pieces_) out.Append(IdOfPiece(piece), {});
  }

  // The library describes pieces of which it knows the places as a protocol buffer.
  void EncodeSpansOf(std::string_view part, int64_t at, EncodedText& out) {
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
      const CharacterSpan trimmed = Trimmed(part, span);
      out.Append(IdOfPiece(id), {at + trimmed.begin, at + trimmed.end});
    }
  }

  const SentencePieceTokenizer& tokenizer_;
  std::vector<int> pieces_;
  std::string spaced_;
};

SentencePieceTokenizer::SentencePieceTokenizer(const Numbering& numbering,
                                               std::unique_ptr<sentencepiece::SentencePieceProcessor> processor,
                                               WhiteSpace white_space)
    : Tokenizer(/*keeps_ids=*/true, /*has_dictionary=*/false, {FormatOfPieces(numbering, processor->GetPieceSize())}),
      offset_(numbering.offset),
      white_space_(white_space),
      processor_(std::move(processor)),
      tokens_(numbering.first) {
  for (int piece = static_cast<int>(tokens_.size()) - offset_; piece < processor_->GetPieceSize(); ++piece) {
    tokens_.push_back(processor_->IdToPiece(piece));
  }
  tokens_.emplace_back(kMaskSymbol);
  for (size_t id = 0; id < tokens_.size(); ++id) ids_[tokens_[id]] = static_cast<int32_t>(id);
  std::vector<AddedToken> added;
  for (const std::string_view name : kAddedTokens) {
    const auto found = ids_.find(name);
    if (found == ids_.end()) continue;
    added.push_back({.content = std::string(name),
                     .id = found->second,
                     .takes_spaces_before = found->first == kMaskSymbol && white_space.mask_takes});
  }
  added_ = AddedTokens(std::move(added));
}

std::unique_ptr<TextEncoder> SentencePieceTokenizer::MakeEncoder() const { return std::make_unique<Encoder>(*this); }

// Returns the bytes of a text in base64.
std::string FromBase64(const std::string& text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const auto* const digits = reinterpret_cast<const unsigned char*>(text.data());
  const int decoded =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), digits, static_cast<int>(text.size()));
  if (decoded < 0) RefuseTokenizer("its precompiled_charsmap is not in base64");
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;  // of which zeros are made
  bytes.resize(static_cast<size_t>(decoded) - padding);
  return bytes;
}

// Returns the steps of a pre-tokenizer or a normalizer, which `list` names if there are several. Throws DataError for
// other ones than XLM-R's.
std::vector<json> StepsOf(const json& part, const char* list) {
  std::vector<json> steps;
  if (part.is_null()) return steps;
  const json& several = MemberOf(part, list);
  if (several.is_array()) steps.assign(several.begin(), several.end());
  if (steps.empty()) steps.push_back(part);
  for (const json& step : steps) RequireFields(step, json::parse(kUnigramStep));
  return steps;
}

// `before` and `normal` are the steps of the pre-tokenizer and of the normalizer.
WhiteSpace WhiteSpaceOf(const std::vector<json>& before, const std::vector<json>& normal) {
  const auto has = [](const std::vector<json>& steps, const char* type) {
    return std::ranges::any_of(steps, [type](const json& step) { return step["type"] == type; });
  };
  if (!has(before, "Metaspace")) RefuseTokenizer("its pre_tokenizer has no Metaspace");
  if (has(before, "WhitespaceSplit")) return {.splits = !has(normal, "Precompiled")};  // whose table does so
  if (!has(normal, "Replace")) {
    RefuseTokenizer("it keeps several spaces in a row: it has neither a WhitespaceSplit nor a Replace");
  }
  const bool strips = has(normal, "Strip");
  return {.strips_end = strips, .keeps_last = !strips};
}

void RequireSettings(const std::string& folder, const Tokenizer& tokenizer) {
  SettingsIn(folder, kSentencePieceSettings, [&](std::string_view token) { return tokenizer.IdOf(token); });
}

}  // namespace

// Rows of the tables of kinds (tokenizer_json.cc, tokenizer.cc).

std::unique_ptr<const Tokenizer> UnigramOf(const json& tokenizer, const std::string& folder) {
  constexpr int kPiece = 1, kNormalizer = 3;                   // of a model
  constexpr int kText = 1, kScore = 2, kType = 3, kTable = 2;  // of these
  constexpr uint64_t kUnknown = 2, kControl = 3;
  constexpr size_t kFewestTokens = 8;
  RequireTokenizerFields(tokenizer, {kUnigramFields});
  const std::vector<json> steps = StepsOf(MemberOf(tokenizer, "normalizer"), "normalizers");
  WhiteSpace white_space = WhiteSpaceOf(StepsOf(MemberOf(tokenizer, "pre_tokenizer"), "pretokenizers"), steps);
  for (const json& added : MemberOf(tokenizer, "added_tokens")) {
    if (MemberOf(added, "content") == kMaskSymbol) white_space.mask_takes = MemberOf(added, "lstrip") != false;
  }
  ProtobufWriter model, normalizer;
  for (const json& step : steps) {
    const json& table = MemberOf(step, "precompiled_charsmap");
    if (table.is_string()) normalizer.Bytes(kTable, FromBase64(table.get_ref<const std::string&>()));
  }
  const json& vocabulary = MemberOf(tokenizer["model"], "vocab");
  const auto token = [&](size_t id) -> const json& { return vocabulary[id][0]; };
  const auto is_scored = [](const json& item) {
    return item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_number();
  };
  if (!vocabulary.is_array() || vocabulary.size() < kFewestTokens ||
      !std::all_of(vocabulary.begin(), vocabulary.end(), is_scored)) {
    RefuseTokenizer("its model has no vocab of pieces with scores");
  }
  const auto* const found =
      std::ranges::find_if(kNumberings, [&](const auto& one) { return token(0) == one.first[0]; });
  const Numbering& numbering = found == std::end(kNumberings) ? kNumberings[0] : *found;
  const std::vector<std::string> first = numbering.Beginning();
  for (size_t id = 0; id < first.size(); ++id) {
    if (token(id) != first[id]) RefuseTokenizer("the token " + std::to_string(id) + " is not " + first[id]);
  }
  if (token(vocabulary.size() - 1) != "<mask>") RefuseTokenizer("its last token is not <mask>");
  for (const std::string_view special : kFirstPieces) {
    const uint64_t type = special == kFirstPieces[kUnknownPiece] ? kUnknown : kControl;
    model.Message(kPiece, ProtobufWriter().Bytes(kText, special).Varint(kType, type));
  }
  for (size_t id = first.size(); id + 1 < vocabulary.size(); ++id) {
    const json& piece = vocabulary[id];
    model.Message(
        kPiece,
        ProtobufWriter().Bytes(kText, piece[0].get_ref<const std::string&>()).Float(kScore, piece[1].get<float>()));
  }
  model.Message(kNormalizer, normalizer);
  auto made = std::make_unique<const SentencePieceTokenizer>(numbering, Loaded(model.bytes()), white_space);
  if (white_space.keeps_last && made->IdOf(kMark) < 0)
    RefuseTokenizer("it keeps a last space, of which it has no piece");
  for (const json& added : MemberOf(tokenizer, "added_tokens")) {
    const json &id = MemberOf(added, "id"), &content = MemberOf(added, "content");
    RequireSame(content, id.is_number_unsigned() ? id.get<int64_t>() : -1,
                [&](std::string_view text) { return made->IdOf(text); });
    const auto& name = content.get_ref<const std::string&>();
    if (std::ranges::find(kAddedTokens, name) == std::end(kAddedTokens)) {
      RefuseTokenizer("it has '" + Shown(name, 40) + "' among its added_tokens, which would be looked for in texts");
    }
  }
  const CheckedFormat rows = FormatOf(tokenizer, made->special());
  if (!rows.problem.empty() || !(rows.format == made->format())) {
    RefuseTokenizer("its post_processor does not put <s> and </s> around sentences and pairs (<s> a </s></s> b </s>)");
  }
  RequireSettings(folder, *made);
  return made;
}

std::unique_ptr<const Tokenizer> OpenSentencePiece(const std::vector<std::string>& contents,
                                                   const std::string& folder) {
  auto tokenizer = std::make_unique<const SentencePieceTokenizer>(NumberingIn(folder), Loaded(contents[0]));
  RequireSettings(folder, *tokenizer);
  return tokenizer;
}

}  // namespace dtrain::data
