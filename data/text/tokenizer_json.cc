#include "data/text/tokenizer_json.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/formats/protobuf.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/text_lines.h"
#include "data/text/tokenizer_kinds.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

using nlohmann::json;

constexpr char kWanted[] = "expected a byte-level BPE tokenizer with <s>, <pad>, </s>, <unk> and <mask>";
constexpr char kWantedParts[] =
    "expected RoBERTa's or ModernBERT's byte-level BPE, BERT's WordPiece, or XLM-R's or CamemBERT's Unigram";
constexpr std::array<std::string_view, 5> kSpecialTokenNames = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};

// Of a whole tokenizer.json, without the parts that differ.
constexpr char kTokenizerFields[] = R"({
  "truncation": {"direction": ["Right"], "max_length": null, "strategy": null, "stride": null},
  "added_tokens": null, "post_processor": null, "version": null, "padding": null, "decoder": null
})";
constexpr char kBpeFields[] = R"({
  "pre_tokenizer": {"type": ["ByteLevel"], "add_prefix_space": [false, true], "use_regex": [true], "trim_offsets": null},
  "normalizer": {"type": ["NFC"]},
  "model": {"type": ["BPE"], "dropout": [null, 0], "continuing_subword_prefix": [null, ""],
            "end_of_word_suffix": [null, ""], "byte_fallback": [false], "ignore_merges": [false],
            "vocab": null, "merges": null, "unk_token": null, "fuse_unk": null}
})";
constexpr char kRobertaFields[] = R"({"normalizer": [null]})";
constexpr char kWordPieceFields[] = R"({
  "pre_tokenizer": {"type": ["BertPreTokenizer"]},
  "normalizer": {"type": ["BertNormalizer"], "clean_text": [true, false], "handle_chinese_chars": [true, false],
                 "strip_accents": [null, true, false], "lowercase": [true, false]},
  "model": {"type": ["WordPiece"], "continuing_subword_prefix": ["##"], "vocab": null, "unk_token": null,
            "max_input_chars_per_word": null}
})";
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

// Of tokenizer_config.json and special_tokens_map.json.
constexpr char kSettingsFields[] = R"({
  "bos_token": null, "cls_token": null, "pad_token": null, "eos_token": null, "sep_token": null,
  "unk_token": null, "mask_token": null,
  "additional_special_tokens": [null, []], "extra_special_tokens": [null, {}, []], "added_tokens_decoder": null,
  "tokenizer_class": [null, "PreTrainedTokenizerFast", "TokenizersBackend"],
  "add_prefix_space": [null, false, true], "truncation_side": ["right"], "padding_side": ["right"],
  "model_max_length": null, "max_length": null, "max_len": null, "stride": null, "truncation_strategy": null,
  "pad_to_multiple_of": null, "pad_token_type_id": null, "errors": null, "trim_offsets": null, "do_lower_case": null,
  "clean_up_tokenization_spaces": null, "split_special_tokens": [null, false], "model_input_names": null,
  "name_or_path": null, "special_tokens_map_file": null, "tokenizer_file": null, "vocab_file": null,
  "merges_file": null, "use_fast": null, "from_slow": null, "processor_class": null, "chat_template": null,
  "backend": null, "is_local": null, "local_files_only": null, "model_specific_special_tokens": [null, {}]
})";
constexpr char kRobertaSettings[] = R"({
  "bos_token": ["<s>"], "cls_token": ["<s>"], "pad_token": ["<pad>"], "eos_token": ["</s>"], "sep_token": ["</s>"],
  "unk_token": ["<unk>"], "mask_token": ["<mask>"], "split_special_tokens": null,
  "tokenizer_class": [null, "RobertaTokenizer", "RobertaTokenizerFast", "PreTrainedTokenizerFast"]
})";
constexpr char kBertSettings[] = R"({
  "tokenizer_class": [null, "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast",
                      "PreTrainedTokenizerFast", "TokenizersBackend"],
  "do_lower_case": [null, true, false], "strip_accents": [null, true, false],
  "tokenize_chinese_chars": [null, true, false], "do_basic_tokenize": [null, true], "never_split": [null, []],
  "wordpieces_prefix": [null, "##"], "clean_text": [null, true]
})";
constexpr char kSentencePieceSettings[] = R"({
  "tokenizer_class": [null, "XLMRobertaTokenizer", "XLMRobertaTokenizerFast", "CamembertTokenizer",
                      "CamembertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"],
  "bos_token": ["<s>"], "cls_token": ["<s>"], "pad_token": ["<pad>"], "eos_token": ["</s>"], "sep_token": ["</s>"],
  "unk_token": ["<unk>"], "mask_token": ["<mask>"], "add_prefix_space": [null, true], "sp_model_kwargs": [null, {}],
  "full_tokenizer_file": null, "legacy": null, "unk_id": null, "extra_special_tokens": [null, {}, [], ["<s>", "</s>"]],
  "additional_special_tokens": [null, [], ["<s>NOTUSED", "</s>NOTUSED"], ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]]
})";

[[noreturn]] void Refuse(const std::string& what, const char* wanted = kWanted) { throw DataError(what, wanted); }

// The rows of a table, and those of others in their place.
json Changed(const char* table, std::initializer_list<const char*> changes) {
  json fields = json::parse(table);
  for (const char* change : changes) fields.update(json::parse(change));
  return fields;
}

void RequireFields(const json& fields, const json& table, const char* wanted = kWanted) {
  try {
    RequireKnownFields(fields, table);
  } catch (const std::invalid_argument& error) {
    Refuse(error.what(), wanted);
  }
}

// Returns a member; null if there is none or `object` is not an object.
const json& MemberOf(const json& object, const char* name) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

json Parsed(const std::string& text) {
  try {
    return ParseShallow(text);
  } catch (const json::exception&) {
    Refuse("it is not JSON");
  }
}

// Throws DataError unless the token is a special one, which does not occur in texts here.
void RequireSpecial(const std::string& token) {
  if (std::ranges::find(kSpecialTokenNames, token) != kSpecialTokenNames.end()) return;
  Refuse("it has the added token '" + Shown(token, 40) + "', which it looks for in texts before it merges");
}

// The added tokens of a tokenizer.json, or of added_tokens_decoder.
struct Added {
  std::vector<AddedToken> raw, normalised;  // looked for in a text as it is, and after it has been normalised
};

void AddToken(const json& token, const json& id, Added& added) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 24;
  const json& content = MemberOf(token, "content");
  if (!content.is_string() || content.get_ref<const std::string&>().empty() || !id.is_number_unsigned() ||
      id.get<uint64_t>() >= kMostTokens) {
    Refuse("one of its added tokens has no content or no id");
  }
  const auto is_set = [&token](const char* name) { return MemberOf(token, name) == true; };
  if (is_set("single_word")) Refuse("an added token has single_word, which is not known here");
  const AddedToken one{.content = content.get<std::string>(),
                       .id = id.get<int32_t>(),
                       .takes_spaces_before = is_set("lstrip"),
                       .takes_spaces_behind = is_set("rstrip")};
  (is_set("normalized") ? added.normalised : added.raw).push_back(one);
}

Added AddedTokensOf(const json& tokens) {
  Added added;
  if (!tokens.is_null() && !tokens.is_array()) Refuse("its added_tokens are not a list");
  for (const json& token : tokens) AddToken(token, MemberOf(token, "id"), added);
  return added;
}

// Adds tokens to the vocabulary, if they are not in it.
void AddTo(json& vocabulary, const Added& added) {
  for (const auto& tokens : {added.raw, added.normalised}) {
    for (const AddedToken& token : tokens) {
      if (!vocabulary.contains(token.content)) vocabulary[token.content] = token.id;
      if (vocabulary[token.content] != token.id) Refuse("it has two ids for the token " + Shown(token.content, 40));
    }
  }
}

// A merge is "a b" or, in newer files, ["a", "b"]. No token holds a space, which is written as another character.
std::string MergeLine(const json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
  if (!is_pair) Refuse("one of its merges is not a pair of tokens");
  return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

TokenizerParts BpePartsOf(const json& tokenizer) {
  const json& model = MemberOf(tokenizer, "model");
  if (!MemberOf(tokenizer, "pre_tokenizer").is_object()) Refuse("it has no pre_tokenizer");
  if (!MemberOf(model, "vocab").is_object()) Refuse("its model has no vocab");
  if (!MemberOf(model, "merges").is_array()) Refuse("its model has no merges");
  json vocabulary = model["vocab"];
  AddTo(vocabulary, AddedTokensOf(MemberOf(tokenizer, "added_tokens")));
  TokenizerParts parts{.vocabulary = vocabulary.dump(), .merges = ""};
  for (const json& merge : model["merges"]) {
    const std::string line = MergeLine(merge);
    if (line.find_first_of("\r\n") != std::string::npos) Refuse("one of its merges holds a line end");
    parts.merges += line + "\n";
  }
  return parts;
}

// The rows that a post_processor makes.
struct Rows {
  RowFormat format;
  std::string other;  // what is wrong with them; empty if nothing is
};

// Writes one list of a TemplateProcessing: ids of special tokens, and A and B, with the token types behind them.
std::string Written(const json& list, const json& specials) {
  std::string text;
  for (const json& item : list) {
    const bool is_special = MemberOf(item, "SpecialToken").is_object();
    const json& part = MemberOf(item, is_special ? "SpecialToken" : "Sequence");
    const json& name = MemberOf(part, "id");
    if (!name.is_string()) return "";
    const json ids = is_special ? MemberOf(MemberOf(specials, name.get<std::string>().c_str()), "ids") : json();
    if (is_special && ids.size() != 1) return "";
    text += (is_special ? ids[0].dump() : name.get<std::string>()) + ":" + MemberOf(part, "type_id").dump() + " ";
  }
  return text;
}

// `special` are the ids of tokens by name, which those of the rows must be.
Rows RowsOf(const json& processor, const SpecialTokens& special) {
  Rows rows{.format = {.special = special},
            .other =
                "its post_processor does not put one special token before a text "
                "and one behind it, and one or two between the texts of a pair"};
  const json& type = MemberOf(processor, "type");
  const json &cls = MemberOf(processor, "cls"), &sep = MemberOf(processor, "sep");
  const auto is_token = [](const json& token, int64_t id) {
    return token.is_array() && token.size() == 2 && token[1] == id;
  };
  if ((type == "BertProcessing" || type == "RobertaProcessing") && is_token(cls, special.begin) &&
      is_token(sep, special.end)) {
    rows.format.ends_between = type == "BertProcessing" ? 1 : 2;
    rows.format.has_types = type == "BertProcessing";
    rows.other = "";
  }
  if (type != "TemplateProcessing") return rows;
  const std::string begin = std::to_string(special.begin), end = std::to_string(special.end);
  const std::string single = begin + ":0 A:0 " + end + ":0 ",
                    pair = Written(MemberOf(processor, "pair"), MemberOf(processor, "special_tokens"));
  if (Written(MemberOf(processor, "single"), MemberOf(processor, "special_tokens")) != single) return rows;
  for (const int ends : {1, 2}) {
    for (const char* const second : {"0", "1"}) {
      const std::string between = ends == 2 ? end + ":0 " : "";
      if (pair != single + between + "B:" + second + " " + end + ":" + second + " ") continue;
      rows.format.ends_between = ends;
      rows.format.has_types = *second == '1';
      rows.other = "";
    }
  }
  return rows;
}

using IdOf = std::function<int64_t(std::string_view)>;

// Throws DataError unless an added token has the same id in the vocabulary.
void RequireSame(const json& content, int64_t id, const IdOf& id_of) {
  if (!content.is_string()) Refuse("one of its added tokens has no content");
  const auto& token = content.get_ref<const std::string&>();
  if (id_of(token) == id) return;
  Refuse("it gives the token " + Shown(token, 40) + " the id " + std::to_string(id) + ", the vocabulary " +
         std::to_string(id_of(token)));
}

// Returns the fields of tokenizer_config.json and those that special_tokens_map.json has beside them, with the contents
// of tokens. Checks them, and the added tokens that these files and added_tokens.json name. `changes` are to
// kSettingsFields. Without a folder there are no files.
json SettingsIn(const std::string& folder, const char* changes, const char* wanted, const IdOf& id_of) {
  json settings = json::object();
  if (folder.empty()) return settings;
  const auto read = [&](const char* name, const std::function<void(json)>& use) {
    const std::string path = folder + name, text = TextBeside(path);
    if (!text.empty()) NamingFile(path, [&] { use(Parsed(text)); });
  };
  const auto use_fields = [&](json fields) {
    for (const auto& field : fields.items()) {
      const bool is_token = field.key().ends_with("_token") && field.value().is_object();
      if (is_token) field.value() = MemberOf(field.value(), "content");
    }
    RequireFields(fields, Changed(kSettingsFields, {changes}), wanted);
    for (const auto& [id, token] : MemberOf(fields, "added_tokens_decoder").items()) {
      RequireSame(MemberOf(token, "content"), WholeNumber(id).value_or(-1), id_of);
    }
    fields.update(settings);
    settings = std::move(fields);
  };
  read("/tokenizer_config.json", use_fields);
  read("/special_tokens_map.json", use_fields);
  read("/added_tokens.json", [&](const json& added) {
    for (const auto& [token, id] : added.items()) {
      RequireSame(token, id.is_number_integer() ? id.get<int64_t>() : -1, id_of);
    }
  });
  return settings;
}

// Returns the id of a special token: of the name that a settings' field has, else of the first of `names` that is a
// token; -1 if there is none.
int64_t SpecialId(const json& settings, const char* field, std::initializer_list<const char*> names,
                  const IdOf& id_of) {
  const json& given = MemberOf(settings, field);
  if (given.is_string()) return id_of(given.get<std::string>());
  for (const char* name : names) {
    if (const int64_t id = id_of(name); id >= 0) return id;
  }
  return -1;
}

SpecialTokens SpecialTokensOf(const json& settings, const IdOf& id_of) {
  const SpecialTokens special{.begin = SpecialId(settings, "cls_token", {"[CLS]", "<s>"}, id_of),
                              .pad = SpecialId(settings, "pad_token", {"[PAD]", "<pad>"}, id_of),
                              .end = SpecialId(settings, "sep_token", {"[SEP]", "</s>"}, id_of),
                              .unknown = SpecialId(settings, "unk_token", {"[UNK]", "<unk>"}, id_of),
                              .mask = SpecialId(settings, "mask_token", {"[MASK]", "<mask>"}, id_of)};
  if (special.begin < 0 || special.pad < 0 || special.end < 0) {
    Refuse("it has no token [CLS], [SEP] or [PAD], and no other that cls_token, sep_token and pad_token name",
           "a model of texts needs these: the vocabulary belongs to another kind of model");
  }
  return special;
}

std::optional<bool> PrefixSpaceIn(const json& settings) {
  const json& said = MemberOf(settings, "add_prefix_space");
  return said.is_boolean() ? std::optional(said.get<bool>()) : std::nullopt;
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
    if (const json& content = MemberOf(token, "content"); content.is_string()) RequireSpecial(content);
  }
  return BpePartsOf(tokenizer);
}

std::unique_ptr<const Tokenizer> RobertaOf(const json& tokenizer, const std::string& folder) {
  const TokenizerParts parts = RobertaParts(tokenizer);
  ByteLevelBpe bpe(parts.vocabulary, parts.merges);
  const bool adds_space =
      RobertaSettings(folder, bpe).value_or(MemberOf(MemberOf(tokenizer, "pre_tokenizer"), "add_prefix_space") == true);
  const Rows rows = RowsOf(MemberOf(tokenizer, "post_processor"), {});
  const bool is_usual = rows.other.empty() && rows.format == RowFormat{};
  return MakeRobertaBpe(
      std::move(bpe), adds_space,
      is_usual ? ""
               : "its post_processor does not put <s> and </s> around sentences and pairs (<s> a </s></s> b </s>)");
}

std::unique_ptr<const Tokenizer> BpeOf(const json& tokenizer, const std::string& folder) {
  if (IsRoberta(tokenizer)) {
    RequireFields(tokenizer, Changed(kTokenizerFields, {kBpeFields, kRobertaFields}));
    return RobertaOf(tokenizer, folder);
  }
  RequireFields(tokenizer, Changed(kTokenizerFields, {kBpeFields}), kWantedParts);
  const TokenizerParts parts = BpePartsOf(tokenizer);
  ByteLevelBpe bpe(parts.vocabulary, parts.merges);
  const IdOf id_of = [&](std::string_view token) { return bpe.IdOf(token); };
  const json settings = SettingsIn(folder, "{}", kWantedParts, id_of);
  const Rows rows = RowsOf(MemberOf(tokenizer, "post_processor"), SpecialTokensOf(settings, id_of));
  Added added = AddedTokensOf(MemberOf(tokenizer, "added_tokens"));
  const json& processor = MemberOf(tokenizer, "post_processor");
  const json& before_words = MemberOf(tokenizer["pre_tokenizer"], "add_prefix_space");
  BpePreparation preparation{.adds_space = PrefixSpaceIn(settings).value_or(before_words == true),
                             .composes = MemberOf(tokenizer, "normalizer").is_object(),
                             .trims_spans = MemberOf(processor, "trim_offsets") == true,
                             .added = std::move(added.raw),
                             .composed_added = std::move(added.normalised)};
  return MakeBpe(std::move(bpe), rows.format, std::move(preparation), rows.other);
}

// Returns the tokens of a vocabulary by id.
std::vector<std::string> TokensById(const json& vocabulary) {
  if (!vocabulary.is_object() || vocabulary.empty()) Refuse("its model has no vocab", kWantedParts);
  constexpr uint64_t kMostHoles = 1'000'000;
  std::vector<std::string> tokens;
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary.size() + kMostHoles) {
      Refuse("the id of the token '" + Shown(token, 40) + "' is not a whole number as large as the vocabulary",
             kWantedParts);
    }
    const auto place = id.get<size_t>();
    if (place >= tokens.size()) tokens.resize(place + 1);
    if (!tokens[place].empty())
      Refuse("the vocabulary has two tokens with the id " + std::to_string(place), kWantedParts);
    tokens[place] = token;
  }
  return tokens;
}

// Completes a WordPiece tokenizer, whose vocabulary and format are known, by the settings of its folder.
void ApplyBertSettings(const json& settings, WordPieceOptions& options) {
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

std::unique_ptr<const Tokenizer> WordPieceOf(const json& tokenizer, const std::string& folder) {
  RequireFields(tokenizer, Changed(kTokenizerFields, {kWordPieceFields}), kWantedParts);
  if (!MemberOf(tokenizer, "pre_tokenizer").is_object()) Refuse("it has no pre_tokenizer", kWantedParts);
  const json &model = tokenizer["model"], &normalizer = MemberOf(tokenizer, "normalizer");
  json vocabulary = MemberOf(model, "vocab");
  Added added = AddedTokensOf(MemberOf(tokenizer, "added_tokens"));
  if (vocabulary.is_object()) AddTo(vocabulary, added);
  WordPieceOptions options{
      .tokens = TokensById(vocabulary), .added = std::move(added.raw), .normalised_added = std::move(added.normalised)};
  if (MemberOf(model, "unk_token").is_string()) options.unknown = model["unk_token"];
  if (MemberOf(model, "max_input_chars_per_word").is_number_unsigned()) {
    options.most_characters = model["max_input_chars_per_word"];
  }
  const auto is_set = [&](const char* name) { return MemberOf(normalizer, name) == true; };
  options.cleans = is_set("clean_text");
  options.parts_chinese = is_set("handle_chinese_chars");
  options.lowers = is_set("lowercase");
  options.strips_accents = MemberOf(normalizer, "strip_accents").is_null() ? options.lowers : is_set("strip_accents");
  const IdOf id_of = [&](std::string_view token) -> int64_t {
    const auto found = vocabulary.find(token);
    return found == vocabulary.end() ? -1 : found->get<int64_t>();
  };
  const json settings = SettingsIn(folder, kBertSettings, kWantedParts, id_of);
  ApplyBertSettings(settings, options);
  const Rows rows = RowsOf(MemberOf(tokenizer, "post_processor"), SpecialTokensOf(settings, id_of));
  options.format = rows.format;
  options.other_rows = rows.other;
  return MakeWordPiece(std::move(options));
}

// Returns the bytes of a text in base64.
std::string FromBase64(const std::string& text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const auto* const digits = reinterpret_cast<const unsigned char*>(text.data());
  const int decoded =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), digits, static_cast<int>(text.size()));
  if (decoded < 0) Refuse("its precompiled_charsmap is not in base64", kWantedParts);
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
  for (const json& step : steps) RequireFields(step, json::parse(kUnigramStep), kWantedParts);
  return steps;
}

// The tokenizer of XLM-R or CamemBERT, which is made a model of sentencepiece again.
std::unique_ptr<const Tokenizer> UnigramOf(const json& tokenizer, const std::string& folder) {
  constexpr int kPiece = 1, kNormalizer = 3;                   // of a model
  constexpr int kText = 1, kScore = 2, kType = 3, kTable = 2;  // of these
  constexpr uint64_t kUnknown = 2, kControl = 3;
  RequireFields(tokenizer, Changed(kTokenizerFields, {kUnigramFields}), kWantedParts);
  StepsOf(MemberOf(tokenizer, "pre_tokenizer"), "pretokenizers");
  ProtobufWriter model, normalizer;
  for (const json& step : StepsOf(MemberOf(tokenizer, "normalizer"), "normalizers")) {
    const json& table = MemberOf(step, "precompiled_charsmap");
    if (table.is_string()) normalizer.Bytes(kTable, FromBase64(table.get_ref<const std::string&>()));
  }
  const json& vocabulary = MemberOf(tokenizer["model"], "vocab");
  const auto token = [&](size_t id) -> const json& { return vocabulary[id][0]; };
  const auto is_scored = [](const json& item) {
    return item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_number();
  };
  const std::vector<const char*> of_xlm = {"<s>", "<pad>", "</s>", "<unk>"},
                                 of_camembert = {"<s>NOTUSED",   "<pad>", "</s>NOTUSED", "<unk>",
                                                 "<unk>NOTUSED", "<s>",   "</s>"};
  if (!vocabulary.is_array() || vocabulary.size() <= of_camembert.size() ||
      !std::all_of(vocabulary.begin(), vocabulary.end(), is_scored)) {
    Refuse("its model has no vocab of pieces with scores", kWantedParts);
  }
  const bool is_camembert = token(0) == of_camembert[0];
  const std::vector<const char*>& first = is_camembert ? of_camembert : of_xlm;
  for (size_t id = 0; id < first.size(); ++id) {
    if (token(id) != first[id]) Refuse("the token " + std::to_string(id) + " is not " + first[id], kWantedParts);
  }
  if (token(vocabulary.size() - 1) != "<mask>") Refuse("its last token is not <mask>", kWantedParts);
  for (const char* special : {"<unk>", "<s>", "</s>"}) {
    const uint64_t type = special == std::string_view("<unk>") ? kUnknown : kControl;
    model.Message(kPiece, ProtobufWriter().Bytes(kText, special).Varint(kType, type));
  }
  for (size_t id = first.size(); id + 1 < vocabulary.size(); ++id) {
    const json& piece = vocabulary[id];
    model.Message(
        kPiece,
        ProtobufWriter().Bytes(kText, piece[0].get_ref<const std::string&>()).Float(kScore, piece[1].get<float>()));
  }
  model.Message(kNormalizer, normalizer);
  auto made =
      MakeSentencePiece(model.bytes(), is_camembert ? SentencePieceIds::kCamembert : SentencePieceIds::kXlmRoberta);
  for (const json& added : MemberOf(tokenizer, "added_tokens")) {
    const json& id = MemberOf(added, "id");
    RequireSame(MemberOf(added, "content"), id.is_number_unsigned() ? id.get<int64_t>() : -1,
                [&](std::string_view text) { return made->IdOf(text); });
  }
  const Rows rows = RowsOf(MemberOf(tokenizer, "post_processor"), made->special());
  if (!rows.other.empty() || !(rows.format == made->format())) {
    Refuse("its post_processor does not put <s> and </s> around sentences and pairs (<s> a </s></s> b </s>)",
           kWantedParts);
  }
  RequireSentencePieceSettings(folder, *made);
  return made;
}

}  // namespace

std::unique_ptr<const Tokenizer> ParseTokenizerJson(std::string_view text, const std::string& folder) {
  const json tokenizer = Parsed(std::string(text));
  if (!tokenizer.is_object()) RequireFields(tokenizer, json::object());
  const json& type = MemberOf(MemberOf(tokenizer, "model"), "type");
  if (type == "WordPiece") return WordPieceOf(tokenizer, folder);
  if (type == "BPE") return BpeOf(tokenizer, folder);
  if (type == "Unigram") return UnigramOf(tokenizer, folder);
  Refuse("its model.type is " + Shown(type.dump(), 40) + R"(, expected "BPE", "WordPiece" or "Unigram")", kWantedParts);
}

std::unique_ptr<const Tokenizer> OpenTokenizerJson(const std::vector<std::string>& paths) {
  const std::string text = ReadTokenizerFile(paths[0]);
  return NamingFile(paths[0], [&] { return ParseTokenizerJson(text, FolderOf(paths[0])); });
}

std::unique_ptr<const Tokenizer> ParseVocabTxt(std::string_view text, const std::string& folder) {
  WordPieceOptions options;
  std::map<std::string, int64_t, std::less<>> ids;
  while (!text.empty()) {
    const auto id = static_cast<int64_t>(options.tokens.size());
    ids[options.tokens.emplace_back(TakeLine(text))] = id;  // if a token occurs twice, the last one counts
  }
  const IdOf id_of = [&](std::string_view token) {
    const auto found = ids.find(token);
    return found == ids.end() ? int64_t{-1} : found->second;
  };
  const json settings = SettingsIn(folder, kBertSettings, kWantedParts, id_of);
  ApplyBertSettings(settings, options);
  options.format = {.special = SpecialTokensOf(settings, id_of), .ends_between = 1, .has_types = true};
  if (const json& unknown = MemberOf(settings, "unk_token"); unknown.is_string()) options.unknown = unknown;
  const SpecialTokens& special = options.format.special;
  for (const int64_t id : {special.begin, special.pad, special.end, special.unknown, special.mask}) {
    if (id >= 0)
      options.added.push_back({.content = options.tokens[static_cast<size_t>(id)], .id = static_cast<int32_t>(id)});
  }
  Added decoded;
  for (const auto& [id, token] : MemberOf(settings, "added_tokens_decoder").items()) {
    AddToken(token, WholeNumber(id).value_or(-1), decoded);
  }
  if (!decoded.raw.empty()) options.added = std::move(decoded.raw);
  options.normalised_added = std::move(decoded.normalised);
  return MakeWordPiece(std::move(options));
}

std::unique_ptr<const Tokenizer> OpenVocabTxt(const std::vector<std::string>& paths) {
  const std::string text = ReadTokenizerFile(paths[0]);
  return NamingFile(paths[0], [&] { return ParseVocabTxt(text, FolderOf(paths[0])); });
}

TokenizerParts PartsOf(const TokenizerFiles& files) {
  if (files.paths.size() == 2) {
    return {.vocabulary = ReadTokenizerFile(files.paths[0]), .merges = ReadTokenizerFile(files.paths[1])};
  }
  return NamingFile(files.paths[0], [&] { return RobertaParts(Parsed(ReadTokenizerFile(files.paths[0]))); });
}

std::optional<bool> RobertaSettings(const std::string& folder, const ByteLevelBpe& tokenizer) {
  return PrefixSpaceIn(SettingsIn(folder, kRobertaSettings, kWanted, [&](std::string_view token) {
    RequireSpecial(std::string(token));
    return tokenizer.IdOf(token);
  }));
}

void RequireSentencePieceSettings(const std::string& folder, const Tokenizer& tokenizer) {
  SettingsIn(folder, kSentencePieceSettings, "expected the tokenizer of XLM-R or CamemBERT",
             [&](std::string_view token) { return tokenizer.IdOf(token); });
}

}  // namespace dtrain::data
