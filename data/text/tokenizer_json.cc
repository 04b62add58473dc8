#include "data/text/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/joined.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/whole_number.h"

namespace dtrain::data {

using nlohmann::json;

// Each in the file of its kind.
std::unique_ptr<const Tokenizer> BpeOf(const json& tokenizer, const std::string& folder);
std::unique_ptr<const Tokenizer> WordPieceOf(const json& tokenizer, const std::string& folder);
std::unique_ptr<const Tokenizer> UnigramOf(const json& tokenizer, const std::string& folder);

namespace {

struct ModelKind {
  const char* type;  // model.type of tokenizer.json
  const char* known_as;
  // Makes it of a whole tokenizer.json and of what lies beside it in `folder`.
  std::unique_ptr<const Tokenizer> (*make)(const json& tokenizer, const std::string& folder);
};

constexpr ModelKind kModels[] = {
    {"BPE", "RoBERTa's or ModernBERT's byte-level BPE", BpeOf},
    {"WordPiece", "BERT's WordPiece", WordPieceOf},
    {"Unigram", "XLM-R's or CamemBERT's Unigram", UnigramOf},
};

constexpr uint64_t kMostTokens = uint64_t{1} << 24;

// Of a whole tokenizer.json, without the parts that differ.
constexpr char kTokenizerFields[] = R"({
  "truncation": {"direction": ["Right"], "max_length": null, "strategy": null, "stride": null},
  "added_tokens": null, "post_processor": null, "version": null, "padding": null, "decoder": null
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
  "init_inputs": [null, []],
  "backend": null, "is_local": null, "local_files_only": null, "model_specific_special_tokens": [null, {}]
})";

// The rows of a table, and those of others in their place.
json Changed(const char* table, std::initializer_list<const char*> changes) {
  json fields = json::parse(table);
  for (const char* change : changes) fields.update(json::parse(change));
  return fields;
}

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

}  // namespace

void RefuseTokenizer(const std::string& what, const std::string& wanted) {
  throw DataError(what, wanted.empty() ? "expected " + Joined(kModels, ", or ", &ModelKind::known_as) : wanted);
}

json ParsedTokenizer(const std::string& text) {
  try {
    return ParseShallow(text);
  } catch (const json::exception&) {
    RefuseTokenizer("it is not JSON");
  }
}

const json& MemberOf(const json& object, const char* name) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

void RequireFields(const json& fields, const json& table, const std::string& wanted) {
  try {
    RequireKnownFields(fields, table);
  } catch (const std::invalid_argument& error) {
    RefuseTokenizer(error.what(), wanted);
  }
}

void RequireTokenizerFields(const json& tokenizer, std::initializer_list<const char*> of_kind) {
  RequireFields(tokenizer, Changed(kTokenizerFields, of_kind));
}

IdOf IdsOf(const std::vector<std::string>& tokens) {
  std::map<std::string, int64_t, std::less<>> ids;
  for (size_t id = 0; id < tokens.size(); ++id) ids[tokens[id]] = static_cast<int64_t>(id);
  return [ids = std::move(ids)](std::string_view token) {
    const auto found = ids.find(token);
    return found == ids.end() ? int64_t{-1} : found->second;
  };
}

std::vector<std::string> TokensById(const json& vocabulary) {
  constexpr char kWanted[] = "expected an object of tokens and their ids, such as GPT-2's encoder.json";
  constexpr uint64_t kMostHoles = 1'000'000;  // most ids without a token
  if (!vocabulary.is_object() || vocabulary.empty()) {
    RefuseTokenizer("the vocabulary is not a JSON object", kWanted);
  }
  const uint64_t limit = std::min(kMostTokens, vocabulary.size() + kMostHoles);
  std::vector<std::string> tokens;
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= limit) {
      RefuseTokenizer("the vocabulary has the token '" + Shown(token, 40) + "', whose id is not a whole number below " +
                          std::to_string(limit),
                      kWanted);
    }
    const auto place = id.get<size_t>();
    if (place >= tokens.size()) tokens.resize(place + 1);
    if (!tokens[place].empty()) {
      RefuseTokenizer("the vocabulary has two tokens with the id " + std::to_string(place), kWanted);
    }
    tokens[place] = token;
  }
  return tokens;
}

void AddToken(const json& token, const json& id, FoundTokens& added) {
  const json& content = MemberOf(token, "content");
  if (!content.is_string() || content.get_ref<const std::string&>().empty() || !id.is_number_integer() ||
      id.get<uint64_t>() >= kMostTokens) {
    RefuseTokenizer("one of its added tokens has no content or no id");
  }
  const auto is_set = [&token](const char* name) { return MemberOf(token, name) == true; };
  if (is_set("single_word")) RefuseTokenizer("an added token has single_word, which is not known here");
  const AddedToken one{.content = content.get<std::string>(),
                       .id = id.get<int32_t>(),
                       .takes_spaces_before = is_set("lstrip"),
                       .takes_spaces_behind = is_set("rstrip")};
  (is_set("normalized") ? added.normalised : added.raw).push_back(one);
}

FoundTokens AddedTokensOf(const json& tokenizer) {
  const json& tokens = MemberOf(tokenizer, "added_tokens");
  FoundTokens added;
  if (!tokens.is_null() && !tokens.is_array()) RefuseTokenizer("its added_tokens are not a list");
  for (const json& token : tokens) AddToken(token, MemberOf(token, "id"), added);
  return added;
}

std::vector<int32_t> AddTo(json& vocabulary, const FoundTokens& added) {
  std::vector<int32_t> new_ids;
  for (const auto& tokens : {added.raw, added.normalised}) {
    for (const AddedToken& token : tokens) {
      const auto [place, is_new] = vocabulary.emplace(token.content, static_cast<uint32_t>(token.id));
      if (is_new) new_ids.push_back(token.id);
      if (*place != token.id) RefuseTokenizer("it has two ids for the token " + Shown(token.content, 40));
    }
  }
  return new_ids;
}

void RequireSame(const json& content, int64_t id, const IdOf& id_of) {
  if (!content.is_string()) RefuseTokenizer("one of its added tokens has no content");
  const auto& token = content.get_ref<const std::string&>();
  const int64_t known = id_of(token);
  if (known == id) return;
  const std::string what = "it gives the token " + Shown(token, 40) + " the id " + std::to_string(id);
  if (known >= 0) RefuseTokenizer(what + ", the vocabulary " + std::to_string(known));
  RefuseTokenizer(what + ", but the vocabulary lacks it",
                  "tokens that were added to a vocabulary are read from the tokenizer.json of a WordPiece or of a "
                  "byte-level BPE as ModernBERT's alone: take the tokenizer that the model came with");
}

CheckedFormat FormatOf(const json& tokenizer, const SpecialTokens& special) {
  const json& processor = MemberOf(tokenizer, "post_processor");
  CheckedFormat rows{.format = {.special = special},
                     .problem =
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
    rows.problem = "";
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
      rows.problem = "";
    }
  }
  return rows;
}

json SettingsIn(const std::string& folder, const char* changes, const IdOf& id_of, const FoundTokens& added) {
  json settings = json::object();
  const auto is_added = [&added](const json& token) {
    const json& content = token.is_object() ? MemberOf(token, "content") : token;
    const auto has_it = [&content](const AddedToken& known) { return content == known.content; };
    return std::ranges::any_of(added.raw, has_it) || std::ranges::any_of(added.normalised, has_it);
  };
  const auto read = [&](const char* name, const std::function<void(json)>& use) {
    const std::string path = folder + name, text = TextBeside(path);
    if (!text.empty()) NamingFiles({path}, [&] { use(ParsedTokenizer(text)); });
  };
  const auto use_fields = [&](json fields) {
    for (const auto& field : fields.items()) {
      const bool is_token = field.key().ends_with("_token") && field.value().is_object();
      if (is_token) field.value() = MemberOf(field.value(), "content");
      const bool is_list = field.key().ends_with("_special_tokens") && field.value().is_array();
      if (is_list) std::erase_if(field.value().get_ref<json::array_t&>(), is_added);
    }
    RequireFields(fields, Changed(kSettingsFields, {changes}),
                  "take the field out if it changes nothing, or take the tokenizer that the model came with");
    for (const auto& [id, token] : MemberOf(fields, "added_tokens_decoder").items()) {
      RequireSame(MemberOf(token, "content"), WholeNumber(id).value_or(-1), id_of);
    }
    fields.update(settings);
    settings = std::move(fields);
  };
  read("/tokenizer_config.json", use_fields);
  read("/special_tokens_map.json", use_fields);
  read("/added_tokens.json", [&](const json& tokens) {
    for (const auto& [token, id] : tokens.items()) {
      RequireSame(token, id.is_number_integer() ? id.get<int64_t>() : -1, id_of);
    }
  });
  return settings;
}

SpecialTokens SpecialTokensOf(const json& settings, const IdOf& id_of) {
  const SpecialTokens special{.begin = SpecialId(settings, "cls_token", {"[CLS]", "<s>"}, id_of),
                              .pad = SpecialId(settings, "pad_token", {"[PAD]", "<pad>"}, id_of),
                              .end = SpecialId(settings, "sep_token", {"[SEP]", "</s>"}, id_of),
                              .unknown = SpecialId(settings, "unk_token", {"[UNK]", "<unk>"}, id_of),
                              .mask = SpecialId(settings, "mask_token", {"[MASK]", "<mask>"}, id_of)};
  if (special.begin < 0 || special.pad < 0 || special.end < 0) {
    RefuseTokenizer("it has no token [CLS], [SEP] or [PAD], and no other that cls_token, sep_token and pad_token name",
                    "a model of texts needs these: the vocabulary belongs to another kind of model");
  }
  return special;
}

std::unique_ptr<const Tokenizer> OpenTokenizerJson(const std::vector<std::string>& contents,
                                                   const std::string& folder) {
  const json tokenizer = ParsedTokenizer(contents[0]);
  if (!tokenizer.is_object()) RequireFields(tokenizer, json::object());
  const json& type = MemberOf(MemberOf(tokenizer, "model"), "type");
  const auto* const kind = std::ranges::find_if(kModels, [&type](const ModelKind& one) { return type == one.type; });
  if (kind != std::end(kModels)) return kind->make(tokenizer, folder);
  const auto quoted = [](const ModelKind& one) { return '"' + std::string(one.type) + '"'; };
  RefuseTokenizer("its model.type is " + Shown(type.dump(), 40) + ", expected " + Joined(kModels, ", ", quoted));
}

}  // namespace dtrain::data
