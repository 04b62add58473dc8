// Byte-level BPE as a Tokenizer: GPT-2's, RoBERTa's, and those of newer models, with added tokens and NFC.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <utility>

#include "data/error.h"
#include "data/shown.h"
#include "data/text/byte_level_bpe.h"
#include "data/text/tokenizer_json.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

using nlohmann::json;

constexpr char kBpeFields[] = R"({
  "pre_tokenizer": {"type": ["ByteLevel"], "add_prefix_space": [false, true], "use_regex": [true], "trim_offsets": null},
  "normalizer": {"type": ["NFC"]},
  "model": {"type": ["BPE"], "dropout": [null, 0], "continuing_subword_prefix": [null, ""],
            "end_of_word_suffix": [null, ""], "byte_fallback": [false], "ignore_merges": [false],
            "vocab": null, "merges": null, "unk_token": null, "fuse_unk": null}
})";
constexpr char kRobertaFields[] = R"({"normalizer": [null]})";

// Of the files beside a RoBERTa's.
constexpr char kRobertaSettings[] = R"({
  "bos_token": ["<s>"], "cls_token": ["<s>"], "pad_token": ["<pad>"], "eos_token": ["</s>"], "sep_token": ["</s>"],
  "unk_token": ["<unk>"], "mask_token": ["<mask>"], "split_special_tokens": null,
  "tokenizer_class": [null, "RobertaTokenizer", "RobertaTokenizerFast", "PreTrainedTokenizerFast",
                      "TokenizersBackend"]
})";

// How a text is prepared for the merges, and what the ids are.
struct BpeOptions {
  bool keeps_ids = true, has_dictionary = true;  // as in Tokenizer
  CheckedFormat format = {};
  bool adds_space = false;  // whether a text gets a space in front, unless it has one (add_prefix_space)
  bool composes = false;    // whether characters are composed (Unicode's NFC)
  bool trims_spans = true;  // whether spans of characters leave out a space in front
  FoundTokens added = {};   // also in the composed text
};

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
  BpeTokenizer(ByteLevelBpe bpe, BpeOptions options)
      : Tokenizer(options.keeps_ids, options.has_dictionary, options.format),
        bpe_(std::move(bpe)),
        options_(std::move(options)),
        added_(options_.added.raw) {
    std::vector<AddedToken> composed = options_.added.normalised;
    for (AddedToken& token : composed) {
      if (options_.composes) token.content = Composed(token.content);
    }
    composed_added_ = AddedTokens(std::move(composed));
  }

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return bpe_.tokens(); }
  int64_t IdOf(std::string_view token) const override { return bpe_.IdOf(token); }
  const char* transformers_class() const override {
    return has_dictionary() ? "RobertaTokenizer" : "PreTrainedTokenizerFast";
  }
  bool BeginsWord(int64_t id) const override {
    const std::string& token = tokens()[static_cast<size_t>(id)];
    return ByteLevelBpe::BeginsWord(token) || (!has_dictionary() && (special().Contains(id) || id == special().mask));
  }
  bool follows_settings() const override { return !has_dictionary() || options_.adds_space; }

 private:
  class Encoder;

  const ByteLevelBpe bpe_;
  const BpeOptions options_;
  AddedTokens added_, composed_added_;
};

class BpeTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const BpeTokenizer& tokenizer)
      : TextEncoder(tokenizer.added_), tokenizer_(tokenizer), options_(tokenizer.options_), bpe_(tokenizer.bpe_) {}

 private:
  void EncodePart(std::string_view raw, int64_t at, bool is_word, EncodedText& out) override {
    std::vector<uint32_t>& ids = out.ids;
    std::vector<CharacterSpan>* const spans = out.spans;
    std::string composed;
    std::string_view text = raw;
    if (options_.composes && MayCompose(raw)) text = composed = Composed(raw);
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
      const bool adds_space = (is_word || options_.adds_space) && !piece.starts_with(' ');
      const size_t before = ids.size();
      if (adds_space) {
        bpe_.Encode(" " + std::string(piece), ids);
      } else {
        bpe_.Encode(piece, ids);
      }
      size_t added = adds_space ? 1 : 0;  // bytes of the first token that are not in the text
      if (spans == nullptr) return;
      for (const char* place = piece.data(); const uint32_t id : std::span(ids).subspan(before)) {
        const std::string& token = tokenizer_.tokens()[id];
        const auto bytes = static_cast<size_t>(std::ranges::count_if(token, BeginsCharacter)) - std::exchange(added, 0);
        // The added space alone counts as the first character, if spans have spaces.
        const bool is_added = bytes == 0 && !options_.trims_spans && place != piece.data() + piece.size();
        CharacterSpan span = span_of(place, is_added ? 1 : bytes);
        for (size_t i = 0; options_.trims_spans && i < bytes && place[i] == ' '; ++i) ++span.begin;
        spans->push_back(span);
        place += bytes;
      }
    };
    if (tokenizer_.composed_added_.empty()) return part(text);
    tokenizer_.composed_added_.Split(
        text, part, [&](int32_t id, std::string_view place) { out.Append(id, span_of(place.data(), place.size())); });
  }

  const BpeTokenizer& tokenizer_;
  const BpeOptions& options_;
  BpeEncoder bpe_;
};

std::unique_ptr<TextEncoder> BpeTokenizer::MakeEncoder() const { return std::make_unique<Encoder>(*this); }

// ---- RoBERTa's ----

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

constexpr char kWantedOfRoberta[] = "expected a byte-level BPE tokenizer with <s>, <pad>, </s>, <unk> and <mask>";

// Throws DataError unless an added token is a special one, which does not occur in texts here.
void RequireSpecial(std::string_view token) {
  constexpr std::string_view kNames[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
  if (std::ranges::find(kNames, token) != std::end(kNames)) return;
  RefuseTokenizer(
      "it has the added token '" + Shown(std::string(token), 40) + "', which it looks for in texts before it merges",
      kWantedOfRoberta);
}

std::optional<bool> PrefixSpaceIn(const json& settings) {
  const json& said = MemberOf(settings, "add_prefix_space");
  return said.is_boolean() ? std::optional(said.get<bool>()) : std::nullopt;
}

// `options` are those without the settings in `folder`.
std::unique_ptr<const Tokenizer> RobertaOf(ByteLevelBpe bpe, const std::string& folder, BpeOptions options) {
  const json settings = SettingsIn(folder, kRobertaSettings, [&](std::string_view token) {
    RequireSpecial(token);
    return bpe.IdOf(token);
  });
  options.adds_space = PrefixSpaceIn(settings).value_or(options.adds_space);
  options.format.format = RobertaFormat(bpe);
  return std::make_unique<BpeTokenizer>(std::move(bpe), std::move(options));
}

// ---- tokenizer.json ----

// A merge is "a b" or, in newer files, ["a", "b"]. No token holds a space, which is written as another character.
std::string MergeLine(const json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
  if (!is_pair) RefuseTokenizer("one of its merges is not a pair of tokens");
  return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

TokenizerParts BpePartsOf(const json& tokenizer) {
  const json& model = MemberOf(tokenizer, "model");
  if (!MemberOf(tokenizer, "pre_tokenizer").is_object()) RefuseTokenizer("it has no pre_tokenizer");
  if (!MemberOf(model, "vocab").is_object()) RefuseTokenizer("its model has no vocab");
  if (!MemberOf(model, "merges").is_array()) RefuseTokenizer("its model has no merges");
  json vocabulary = model["vocab"];
  AddTo(vocabulary, AddedTokensOf(tokenizer));
  TokenizerParts parts{.vocabulary = vocabulary.dump(), .merges = ""};
  for (const json& merge : model["merges"]) {
    const std::string line = MergeLine(merge);
    if (line.find_first_of("\r\n") != std::string::npos) RefuseTokenizer("one of its merges holds a line end");
    parts.merges += line + "\n";
  }
  return parts;
}

bool IsRoberta(const json& tokenizer) {
  const auto is_begin = [](const json& token) { return MemberOf(token, "content") == "<s>"; };
  const json& added = MemberOf(tokenizer, "added_tokens");
  return MemberOf(MemberOf(tokenizer, "model"), "vocab").contains("<s>") ||
         std::any_of(added.begin(), added.end(), is_begin);
}

// Returns the parts of a RoBERTa's tokenizer.json.
TokenizerParts RobertaParts(const json& tokenizer) {
  for (const json& token : MemberOf(tokenizer, "added_tokens")) {
    if (const json& content = MemberOf(token, "content"); content.is_string())
      RequireSpecial(content.get_ref<const std::string&>());
  }
  return BpePartsOf(tokenizer);
}

ByteLevelBpe BpeOfParts(const TokenizerParts& parts) { return {parts.vocabulary, parts.merges}; }

bool AddsSpace(const json& tokenizer) {
  return MemberOf(MemberOf(tokenizer, "pre_tokenizer"), "add_prefix_space") == true;
}

}  // namespace

// Rows of the tables of kinds (tokenizer.cc, tokenizer_json.cc).

std::unique_ptr<const Tokenizer> OpenGpt2(const std::vector<std::string>& contents, const std::string& /*folder*/) {
  return std::make_unique<BpeTokenizer>(ByteLevelBpe(contents[0], contents[1]), BpeOptions{.keeps_ids = false});
}

std::unique_ptr<const Tokenizer> OpenRobertaBpe(const std::vector<std::string>& contents, const std::string& folder) {
  return RobertaOf({contents[0], contents[1]}, folder, {});
}

// With the token <s> it is RoBERTa's: it must have fairseq's special tokens and no other added ones, and these never
// occur in texts.
std::unique_ptr<const Tokenizer> BpeOf(const json& tokenizer, const std::string& folder) {
  if (IsRoberta(tokenizer)) {
    RequireTokenizerFields(tokenizer, {kBpeFields, kRobertaFields});
    ByteLevelBpe bpe = BpeOfParts(RobertaParts(tokenizer));
    const CheckedFormat rows = FormatOf(tokenizer, {});
    const bool is_usual = rows.problem.empty() && rows.format == RowFormat{};
    const char* const problem =
        is_usual ? ""
                 : "its post_processor does not put <s> and </s> around sentences and pairs (<s> a </s></s> b </s>)";
    return RobertaOf(std::move(bpe), folder, {.format = {{}, problem}, .adds_space = AddsSpace(tokenizer)});
  }
  RequireTokenizerFields(tokenizer, {kBpeFields});
  ByteLevelBpe bpe = BpeOfParts(BpePartsOf(tokenizer));
  const IdOf id_of = [&](std::string_view token) { return bpe.IdOf(token); };
  FoundTokens added = AddedTokensOf(tokenizer);
  const json settings = SettingsIn(folder, "{}", id_of, added);
  BpeOptions options{.has_dictionary = false,
                     .format = FormatOf(tokenizer, SpecialTokensOf(settings, id_of)),
                     .adds_space = PrefixSpaceIn(settings).value_or(AddsSpace(tokenizer)),
                     .composes = MemberOf(tokenizer, "normalizer").is_object(),
                     .trims_spans = MemberOf(MemberOf(tokenizer, "post_processor"), "trim_offsets") == true,
                     .added = std::move(added)};
  return std::make_unique<BpeTokenizer>(std::move(bpe), std::move(options));
}

TokenizerParts PartsOf(const TokenizerFiles& files) {
  if (files.paths.size() == 2) {
    return {.vocabulary = ReadTokenizerFile(files.paths[0]), .merges = ReadTokenizerFile(files.paths[1])};
  }
  return NamingFiles(files.paths, [&] { return RobertaParts(ParsedTokenizer(ReadTokenizerFile(files.paths[0]))); });
}

}  // namespace dtrain::data
