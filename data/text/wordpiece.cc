// BERT's tokenizer, WordPiece (Devlin et al. 2018), of a vocab.txt or a tokenizer.json. A text is cleaned, cut into
// words at white space, around punctuation and around Chinese characters, and each word is cut into the longest pieces
// that the vocabulary has, from left to right. The ids are those of Hugging Face's `tokenizers`, except for characters
// that are newer than the tables of Unicode that either has.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include "data/error.h"
#include "data/text/tokenizer_json.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

using nlohmann::json;

constexpr char kWordPieceFields[] = R"({
  "pre_tokenizer": {"type": ["BertPreTokenizer"]},
  "normalizer": {"type": ["BertNormalizer"], "clean_text": [true, false], "handle_chinese_chars": [true, false],
                 "strip_accents": [null, true, false], "lowercase": [true, false]},
  "model": {"type": ["WordPiece"], "continuing_subword_prefix": ["##"], "vocab": null, "unk_token": null,
            "max_input_chars_per_word": null}
})";

// Of the files beside a vocabulary.
constexpr char kBertSettings[] = R"({
  "tokenizer_class": [null, "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast",
                      "PreTrainedTokenizerFast", "TokenizersBackend"],
  "do_lower_case": [null, true, false], "strip_accents": [null, true, false],
  "tokenize_chinese_chars": [null, true, false], "do_basic_tokenize": [null, true], "never_split": [null, []],
  "wordpieces_prefix": [null, "##"], "clean_text": [null, true]
})";

constexpr std::string_view kContinuation = "##";

struct WordPieceOptions {
  std::vector<std::string> tokens;      // by id; pieces that continue a word begin with ##
  FoundTokens added = {};               // also in the text that has been cleaned as below
  std::vector<int32_t> no_pieces = {};  // ids of added tokens, of which no word is made
  std::string unknown = "[UNK]";        // a token; a word that cannot be cut becomes this
  size_t most_characters = 100;         // longer words do, too
  // Whether control characters are removed, Chinese characters are words of their own, accents are removed, and letters
  // become lower-case ones.
  bool cleans = true, parts_chinese = true, strips_accents = true, lowers = true;
  CheckedFormat format = {};
};

// A character, and the bytes of the text that it was made from.
struct TracedCharacter {
  int32_t code_point = 0;
  int64_t begin = 0, end = 0;
};

bool IsPunctuation(int32_t point) {
  const utf8proc_category_t category = utf8proc_category(point);
  const bool is_symbol = category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
  return (is_symbol && point < 0x80) || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

// Whether cleaning removes a character.
bool IsRemoved(int32_t point) {
  if (point == '\t' || point == '\n' || point == '\r') return false;
  const utf8proc_category_t category = utf8proc_category(point);
  return point == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

// The blocks of Chinese characters, as `tokenizers` has them.
bool IsChinese(int32_t point) {
  constexpr std::array<std::pair<int32_t, int32_t>, 8> kBlocks = {{{0x4E00, 0x9FFF},
                                                                   {0x3400, 0x4DBF},
                                                                   {0x20000, 0x2A6DF},
                                                                   {0x2A700, 0x2B73F},
                                                                   {0x2B740, 0x2B81F},
                                                                   {0x2B920, 0x2CEAF},
                                                                   {0xF900, 0xFAFF},
                                                                   {0x2F800, 0x2FA1F}}};
  return std::ranges::any_of(kBlocks,
                             [point](const auto& block) { return point >= block.first && point <= block.second; });
}

// Appends the characters of which a character is composed (Unicode's NFD, without the order).
void AppendDecomposed(const TracedCharacter& character, std::vector<TracedCharacter>& characters) {
  if (character.code_point < 0x80) return characters.push_back(character);
  std::array<int32_t, 8> parts;
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(character.code_point, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &boundary);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    characters.push_back({parts[static_cast<size_t>(i)], character.begin, character.end});
  }
}

// Orders marks behind a letter as Unicode does, and then removes accents.
void RemoveAccents(std::vector<TracedCharacter>& characters) {
  const auto order = [](const TracedCharacter& character) {
    return utf8proc_get_property(character.code_point)->combining_class;
  };
  for (auto begin = characters.begin(); begin != characters.end();) {
    const auto end = std::find_if(begin, characters.end(), [&](const auto& other) { return order(other) == 0; });
    std::stable_sort(begin, end, [&](const auto& a, const auto& b) { return order(a) < order(b); });
    begin = end == characters.end() ? end : end + 1;
  }
  std::erase_if(characters, [](const auto& one) { return utf8proc_category(one.code_point) == UTF8PROC_CATEGORY_MN; });
}

class WordPieceTokenizer : public Tokenizer {
 public:
  explicit WordPieceTokenizer(WordPieceOptions options);

  std::unique_ptr<TextEncoder> MakeEncoder() const override;
  const std::vector<std::string>& tokens() const override { return options_.tokens; }
  int64_t IdOf(std::string_view token) const override {
    const bool continues = token.starts_with(kContinuation);
    const auto& pieces = continues ? continuations_ : beginnings_;
    const auto found = pieces.find(token.substr(continues ? kContinuation.size() : 0));
    if (found != pieces.end()) return found->second;
    const auto added = no_pieces_.find(token);
    return added == no_pieces_.end() ? -1 : added->second;
  }
  const char* transformers_class() const override { return "BertTokenizer"; }
  bool BeginsWord(int64_t id) const override { return !tokens()[static_cast<size_t>(id)].starts_with(kContinuation); }

 private:
  class Encoder;

  const WordPieceOptions options_;
  // Ids by piece, without ##. The keys point into the tokens.
  std::unordered_map<std::string_view, int32_t> beginnings_, continuations_;
  std::unordered_map<std::string_view, int32_t> no_pieces_;  // of added tokens that are none
  size_t longest_ = 0;                                       // bytes
  int32_t unknown_ = 0;
  AddedTokens added_, normalised_added_;
};

class WordPieceTokenizer::Encoder : public TextEncoder {
 public:
  explicit Encoder(const WordPieceTokenizer& tokenizer)
      : TextEncoder(tokenizer.added_), tokenizer_(tokenizer), options_(tokenizer.options_) {}

  // Returns a text as the vocabulary's words are written.
  std::string Normalised(std::string_view text) {
    Normalise(text, 0);
    std::string normalised;
    for (const TracedCharacter& one : characters_) AppendUtf8(static_cast<uint32_t>(one.code_point), normalised);
    return normalised;
  }

 private:
  // Fills characters_ with a part of the text, whose first byte is at `at`.
  void Normalise(std::string_view part, int64_t at) {
    constexpr int32_t kDottedI = 0x130, kDotAbove = 0x307;  // the only letter whose lower-case form is two characters
    characters_.clear();
    for (size_t i = 0; i < part.size(); i += CharacterBytes(part[i])) {
      const int64_t begin = at + static_cast<int64_t>(i), end = begin + static_cast<int64_t>(CharacterBytes(part[i]));
      TracedCharacter one{static_cast<int32_t>(CodePointAt(part.data() + i)), begin, end};
      if (options_.cleans && IsRemoved(one.code_point)) continue;
      if (options_.cleans && IsSpace(static_cast<uint32_t>(one.code_point))) one.code_point = ' ';
      const bool is_word = options_.parts_chinese && IsChinese(one.code_point);
      if (is_word) characters_.push_back({' ', begin, begin});
      if (options_.strips_accents) {
        AppendDecomposed(one, characters_);
      } else if (options_.lowers && one.code_point == kDottedI) {
        characters_.insert(characters_.end(), {{'i', begin, end}, {kDotAbove, begin, end}});
      } else {
        characters_.push_back(one);
      }
      if (is_word) characters_.push_back({' ', end, end});
    }
    if (options_.strips_accents) RemoveAccents(characters_);
    for (size_t i = 0; options_.lowers && i < characters_.size(); ++i) {
      characters_[i].code_point = utf8proc_tolower(characters_[i].code_point);
    }
  }

  void EncodePart(std::string_view part, int64_t at, bool /*is_word*/, EncodedText& out) override {
    Normalise(part, at);
    if (tokenizer_.normalised_added_.empty()) return EncodeWords(characters_, out);
    std::string text;
    std::vector<size_t> character_of;  // by byte
    for (size_t i = 0; i < characters_.size(); ++i) {
      AppendUtf8(static_cast<uint32_t>(characters_[i].code_point), text);
      character_of.resize(text.size(), i);
    }
    const auto characters_in = [&](std::string_view place) {
      const auto first = character_of[static_cast<size_t>(place.data() - text.data())];
      const auto last = character_of[static_cast<size_t>(place.data() - text.data()) + place.size() - 1];
      return std::span<const TracedCharacter>(characters_).subspan(first, last + 1 - first);
    };
    tokenizer_.normalised_added_.Split(
        text, [&](std::string_view words) { EncodeWords(characters_in(words), out); },
        [&](int32_t id, std::string_view place) {
          const auto characters = characters_in(place);
          out.Append(id, {characters.front().begin, characters.back().end});
        });
  }

  void EncodeWords(std::span<const TracedCharacter> characters, EncodedText& out) {
    size_t begin = 0;
    const auto finish = [&](size_t end) {
      if (end > begin) EncodeOne(characters.subspan(begin, end - begin), out);
      begin = end;
    };
    for (size_t i = 0; i < characters.size(); ++i) {
      if (IsSpace(static_cast<uint32_t>(characters[i].code_point))) {
        finish(i);
        begin = i + 1;
      } else if (IsPunctuation(characters[i].code_point)) {
        finish(i);
        finish(i + 1);
      }
    }
    finish(characters.size());
  }

  // Encodes a word.
  void EncodeOne(std::span<const TracedCharacter> word, EncodedText& out) {
    const size_t before = out.ids.size(), spans_before = out.spans == nullptr ? 0 : out.spans->size();
    const auto fail = [&] {
      out.ids.resize(before);
      if (out.spans != nullptr) out.spans->resize(spans_before);
      out.Append(tokenizer_.unknown_, {word.front().begin, word.back().end});
    };
    if (word.size() > options_.most_characters) return fail();
    text_.clear();
    ends_.assign(1, 0);
    for (const TracedCharacter& one : word) {
      AppendUtf8(static_cast<uint32_t>(one.code_point), text_);
      ends_.push_back(text_.size());
    }
    for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      const auto& pieces = begin == 0 ? tokenizer_.beginnings_ : tokenizer_.continuations_;
      const size_t at = ends_[begin];
      auto found = pieces.end();
      // No character has less than a byte: of a word of any length, this looks at as many as a token may have.
      for (end = std::min(word.size(), begin + tokenizer_.longest_); end > begin && found == pieces.end(); --end) {
        found = pieces.find(std::string_view(text_).substr(at, ends_[end] - at));
      }
      if (found == pieces.end()) return fail();
      ++end;  // the loop has counted one down behind the piece
      out.Append(found->second, {word[begin].begin, word[end - 1].end});
    }
  }

  const WordPieceTokenizer& tokenizer_;
  const WordPieceOptions& options_;
  std::vector<TracedCharacter> characters_;
  std::string text_;          // of a word
  std::vector<size_t> ends_;  // in bytes, of the word's characters; the first one begins at 0
};

WordPieceTokenizer::WordPieceTokenizer(WordPieceOptions options)
    : Tokenizer(/*keeps_ids=*/true, /*has_dictionary=*/false, options.format),
      options_(std::move(options)),
      added_(options_.added.raw) {
  std::vector<bool> is_piece(tokens().size(), true);
  for (const int32_t id : options_.no_pieces) {
    is_piece[static_cast<size_t>(id)] = false;
    no_pieces_.emplace(tokens()[static_cast<size_t>(id)], id);
  }
  for (size_t id = 0; id < tokens().size(); ++id) {
    if (!is_piece[id]) continue;
    const std::string_view token = tokens()[id];
    longest_ = std::max(longest_, token.size());
    const bool continues = token.starts_with(kContinuation);
    (continues ? continuations_ : beginnings_)[token.substr(continues ? kContinuation.size() : 0)] =
        static_cast<int32_t>(id);
  }
  const int64_t unknown = IdOf(options_.unknown);
  if (unknown < 0) throw DataError("the token " + options_.unknown + " for unknown words is not in the vocabulary");
  unknown_ = static_cast<int32_t>(unknown);
  if (options_.added.normalised.empty()) return;
  std::vector<AddedToken> normalised = options_.added.normalised;
  Encoder encoder(*this);
  for (AddedToken& token : normalised) token.content = encoder.Normalised(token.content);
  std::erase_if(normalised, [](const AddedToken& token) { return token.content.empty(); });
  normalised_added_ = AddedTokens(std::move(normalised));
}

std::unique_ptr<TextEncoder> WordPieceTokenizer::MakeEncoder() const { return std::make_unique<Encoder>(*this); }

// Whether transformers takes a tokenizer.json as it is, and these settings change nothing.
bool TakesFileAlone(const json& settings) {
  const json& kind = MemberOf(settings, "tokenizer_class");
  return kind == "PreTrainedTokenizerFast" || kind == "TokenizersBackend";
}

// Whether transformers gives the model types of tokens. TokenizersBackend is version 5's own name.
bool TakesTypes(const json& settings) {
  const json &inputs = MemberOf(settings, "model_input_names"), &kind = MemberOf(settings, "tokenizer_class");
  if (inputs.is_array()) return std::ranges::find(inputs, "token_type_ids") != inputs.end();
  return kind != "DistilBertTokenizer" && kind != "DistilBertTokenizerFast" && kind != "TokenizersBackend";
}

// Completes a WordPiece tokenizer, whose vocabulary and format are known, by the settings of its folder.
void ApplySettings(const json& settings, WordPieceOptions& options) {
  const auto is_set = [&settings](const char* name, bool otherwise) {
    const json& value = MemberOf(settings, name);
    return value.is_boolean() ? value.get<bool>() : otherwise;
  };
  const bool changes_letters = settings.contains("do_lower_case") || settings.contains("strip_accents");
  options.lowers = is_set("do_lower_case", options.lowers);
  // Unless it is said, accents go with capitals.
  if (changes_letters) options.strips_accents = is_set("strip_accents", options.lowers);
  options.parts_chinese = is_set("tokenize_chinese_chars", options.parts_chinese);
}

}  // namespace

// Rows of the tables of kinds (tokenizer_json.cc, tokenizer.cc).

std::unique_ptr<const Tokenizer> WordPieceOf(const json& tokenizer, const std::string& folder) {
  RequireTokenizerFields(tokenizer, {kWordPieceFields});
  if (!MemberOf(tokenizer, "pre_tokenizer").is_object()) RefuseTokenizer("it has no pre_tokenizer");
  const json &model = MemberOf(tokenizer, "model"), &normalizer = MemberOf(tokenizer, "normalizer");
  json vocabulary = MemberOf(model, "vocab");
  if (!vocabulary.is_object()) RefuseTokenizer("its model has no vocab");
  FoundTokens added = AddedTokensOf(tokenizer);
  std::vector<int32_t> no_pieces = AddTo(vocabulary, added);
  WordPieceOptions options{
      .tokens = TokensById(vocabulary), .added = std::move(added), .no_pieces = std::move(no_pieces)};
  if (const json& unknown = MemberOf(model, "unk_token"); unknown.is_string()) options.unknown = unknown;
  if (const json& most = MemberOf(model, "max_input_chars_per_word"); most.is_number_unsigned()) {
    options.most_characters = most;
  }
  const auto is_set = [&](const char* name) { return MemberOf(normalizer, name) == true; };
  options.cleans = is_set("clean_text");
  options.parts_chinese = is_set("handle_chinese_chars");
  options.lowers = is_set("lowercase");
  options.strips_accents = MemberOf(normalizer, "strip_accents").is_null() ? options.lowers : is_set("strip_accents");
  const IdOf id_of = IdsOf(options.tokens);
  const json settings = SettingsIn(folder, kBertSettings, id_of, options.added);
  if (!TakesFileAlone(settings)) ApplySettings(settings, options);
  options.format = FormatOf(tokenizer, SpecialTokensOf(settings, id_of));
  options.format.format.has_types &= TakesTypes(settings);
  return std::make_unique<WordPieceTokenizer>(std::move(options));
}

// A token in each line.
std::unique_ptr<const Tokenizer> OpenVocabTxt(const std::vector<std::string>& contents, const std::string& folder) {
  WordPieceOptions options;
  for (std::string_view text = contents[0]; !text.empty();) options.tokens.emplace_back(TakeLine(text));
  const IdOf id_of = IdsOf(options.tokens);
  const json settings = SettingsIn(folder, kBertSettings, id_of);
  ApplySettings(settings, options);
  const SpecialTokens special = SpecialTokensOf(settings, id_of);
  options.format.format = {.special = special, .ends_between = 1, .has_types = TakesTypes(settings)};
  if (const json& unknown = MemberOf(settings, "unk_token"); unknown.is_string()) options.unknown = unknown;
  for (const auto& [id, token] : MemberOf(settings, "added_tokens_decoder").items()) {
    AddToken(token, WholeNumber(id).value_or(-1), options.added);
  }
  for (const int64_t id : {special.begin, special.pad, special.end, special.unknown, special.mask}) {
    const auto has_it = [id](const std::vector<AddedToken>& tokens) {
      return std::ranges::find(tokens, id, &AddedToken::id) != tokens.end();
    };
    if (id < 0 || has_it(options.added.raw) || has_it(options.added.normalised)) continue;
    options.added.raw.push_back({.content = options.tokens[static_cast<size_t>(id)], .id = static_cast<int32_t>(id)});
  }
  return std::make_unique<WordPieceTokenizer>(std::move(options));
}

}  // namespace dtrain::data
