// Byte-level BPE as a Tokenizer: GPT-2's, RoBERTa's, and those of newer models, with added tokens and NFC.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <utility>

#include "data/error.h"
#include "data/storage.h"
#include "data/text/tokenizer_json.h"
#include "data/text/tokenizer_kinds.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

// RoBERTa's special tokens. Throws DataError unless they have fairseq's ids.
RowFormat RobertaFormat(const ByteLevelBpe& bpe) {
  constexpr const char* kHint =
      "a model's vocab.json has <s> 0, <pad> 1, </s> 2, <unk> 3, and <mask>; "
      "GPT-2's goes by --encoder_json and --vocab_bpe";
  const std::map<std::string, int64_t> wanted = {
      {"<s>", kBeginToken}, {"<pad>", kPadToken}, {"</s>", kEndToken}, {"<unk>", kUnknownToken}};
  for (const auto& [token, id] : wanted) {
    if (bpe.IdOf(token) == id) continue;
    throw DataError("the token " + token + " has the id " + std::to_string(bpe.IdOf(token)) + " instead of " +
                        std::to_string(id) + " (-1: there is none)",
                    kHint);
  }
  RowFormat format;
  format.special.mask = bpe.IdOf(kMaskSymbol);
  if (format.special.mask < 0) throw DataError("there is no token <mask>", kHint);
  return format;
}

// Whether a text may change by NFC. No character below U+0300 does, and those from there on begin with 0xCC or more.
bool MayCompose(std::string_view text) {
  return std::ranges::any_of(text, [](char byte) { return static_cast<uint8_t>(byte) >= 0xCC; });
}

std::string Composed(std::string_view text) {
  uint8_t* composed = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<uint8_t, decltype(&std::free)> owned(composed, std::free);
  if (size < 0) throw DataError("a text cannot be composed: " + std::string(utf8proc_errmsg(size)));
  return {reinterpret_cast<const char*>(composed), static_cast<size_t>(size)};
}

// The bytes of a text from which a byte of the composed text was made.
using Origins = std::vector<CharacterSpan>;

// Returns where the composed text's bytes come from. It is cut before characters that no character before them changes.
Origins OriginsOf(std::string_view text) {
  Origins origins;
  size_t begin = 0;
  for (size_t end = 0; begin < text.size(); begin = end) {
    std::string together = Composed(text.substr(begin, CharacterBytes(text[begin])));
    constexpr size_t kMostBytes = 256;  // of a letter with its marks, so that no text takes quadratic time
    for (end = begin + CharacterBytes(text[begin]); end < text.size() && end - begin < kMostBytes;) {
      const std::string_view next = text.substr(end, CharacterBytes(text[end]));
      const std::string longer = Composed(text.substr(begin, end + next.size() - begin));
      if (longer == together + Composed(next) &&
          utf8proc_get_property(static_cast<int32_t>(CodePointAt(next.data())))->combining_class == 0) {
        break;
      }
      together = longer;
      end += next.size();
    }
    origins.insert(origins.end(), together.size(), {static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
  return origins;
}

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(ByteLevelBpe bpe)
      : Tokenizer(/*keeps_ids=*/false, /*has_dictionary=*/true, {}), bpe_(std::move(bpe)) {}

  BpeTokenizer(ByteLevelBpe bpe, bool adds_space, const std::string& other_rows)
      : Tokenizer(/*keeps_ids=*/true, /*has_dictionary=*/true, RobertaFormat(bpe), other_rows),
        bpe_(std::move(bpe)),
        preparation_{.adds_space = adds_space} {}

  BpeTokenizer(ByteLevelBpe bpe, const RowFormat& format, BpePreparation preparation, std::string other_rows)
      : Tokenizer(/*keeps_ids=*/true, /*has_dictionary=*/false, format, std::move(other_rows)),
        bpe_(std::move(bpe)),
        preparation_(std::move(preparation)),
        added_(preparation_.added) {
    std::vector<AddedToken> composed = preparation_.composed_added;
    for (AddedToken& token : composed) {
      if (preparation_.composes) token.content = Composed(token.content);
    }
    composed_added_ = AddedTokens(std::move(composed));
  }

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return bpe_.tokens(); }
  int64_t IdOf(std::string_view token) const override { return bpe_.IdOf(token); }
  bool BeginsWord(int64_t id) const override {
    const std::string& token = tokens()[static_cast<size_t>(id)];
    return ByteLevelBpe::BeginsWord(token) || (!has_dictionary() && (special().Contains(id) || id == special().mask));
  }
  bool follows_settings() const override { return !has_dictionary() || preparation_.adds_space; }

 private:
  class Encoder;

  const ByteLevelBpe bpe_;
  const BpePreparation preparation_ = {};
  AddedTokens added_, composed_added_;
};

class BpeTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), preparation_(tokenizer.preparation_), bpe_(tokenizer.bpe_) {}

 protected:
  void EncodeValid(std::string_view text, bool is_word, std::vector<int32_t>& ids,
                   std::vector<CharacterSpan>* spans) override {
    const auto part = [&](std::string_view raw) { Compose(raw, raw.data() - text.data(), is_word, ids, spans); };
    if (tokenizer_.added_.empty()) return text.empty() ? void() : part(text);
    tokenizer_.added_.Split(text, part,
                            [&](int32_t id, std::string_view place) { Append(id, SpanOf(place, text), ids, spans); });
  }

 private:
  // `at` is the place of the first byte in the whole text.
  void Compose(std::string_view raw, int64_t at, bool is_word, std::vector<int32_t>& ids,
               std::vector<CharacterSpan>* spans) {
    std::string composed;
    std::string_view text = raw;
    if (preparation_.composes && MayCompose(raw)) text = composed = Composed(raw);
    Origins origins;
    if (spans != nullptr && text != raw) {
      origins = OriginsOf(raw);
      origins.resize(text.size(), {0, static_cast<int64_t>(raw.size())});
    }
    const auto span_of = [&](const char* place, size_t bytes) -> CharacterSpan {
      const int64_t first = place - text.data(), last = first + static_cast<int64_t>(bytes) - 1;
      if (origins.empty() || bytes == 0) return {at + first, at + last + 1};
      return {at + origins[static_cast<size_t>(first)].begin, at + origins[static_cast<size_t>(last)].end};
    };
    const auto part = [&](std::string_view piece) {
      const bool adds_space = (is_word || preparation_.adds_space) && !piece.starts_with(' ');
      const size_t before = ids.size();
      if (adds_space) {
        bpe_.Encode(" " + std::string(piece), ids);
      } else {
        bpe_.Encode(piece, ids);
      }
      size_t added = adds_space ? 1 : 0;  // bytes of the first token that are not in the text
      if (spans == nullptr) return;
      for (const char* place = piece.data(); const int32_t id : std::span(ids).subspan(before)) {
        const std::string& token = tokenizer_.tokens()[static_cast<size_t>(id)];
        const auto bytes = static_cast<size_t>(std::ranges::count_if(token, BeginsCharacter)) - std::exchange(added, 0);
        CharacterSpan span = span_of(place, bytes);
        for (size_t i = 0; preparation_.trims_spans && i < bytes && place[i] == ' '; ++i) ++span.begin;
        spans->push_back(span);
        place += bytes;
      }
    };
    if (tokenizer_.composed_added_.empty()) return part(text);
    tokenizer_.composed_added_.Split(text, part, [&](int32_t id, std::string_view place) {
      Append(id, span_of(place.data(), place.size()), ids, spans);
    });
  }

  const BpeTokenizer& tokenizer_;
  const BpePreparation& preparation_;
  BpeEncoder bpe_;
};

std::unique_ptr<TextEncoder> BpeTokenizer::MakeEncoder() const { return std::make_unique<Encoder>(*this); }

}  // namespace

std::unique_ptr<const Tokenizer> MakeRobertaBpe(ByteLevelBpe bpe, bool adds_space, const std::string& other_rows) {
  return std::make_unique<BpeTokenizer>(std::move(bpe), adds_space, other_rows);
}

std::unique_ptr<const Tokenizer> MakeBpe(ByteLevelBpe bpe, const RowFormat& format, BpePreparation preparation,
                                         std::string other_rows) {
  return std::make_unique<BpeTokenizer>(std::move(bpe), format, std::move(preparation), std::move(other_rows));
}

std::unique_ptr<const Tokenizer> OpenGpt2(const std::vector<std::string>& paths) {
  return std::make_unique<BpeTokenizer>(ByteLevelBpe::Load(paths[0], paths[1]));
}

std::unique_ptr<const Tokenizer> OpenRobertaBpe(const std::vector<std::string>& paths) {
  auto bpe = ByteLevelBpe::Load(paths[0], paths[1]);
  const bool adds_space = RobertaSettings(FolderOf(paths[0]), bpe).value_or(false);
  return NamingFile(paths[0], [&] { return MakeRobertaBpe(std::move(bpe), adds_space, ""); });
}

}  // namespace dtrain::data
