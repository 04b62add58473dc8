#include "data/text/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

using nlohmann::json;

constexpr char kWanted[] = "expected a byte-level BPE tokenizer with <s>, <pad>, </s>, <unk> and <mask>";
constexpr std::array<std::string_view, 5> kSpecialTokenNames = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};

constexpr char kTokenizerFields[] = R"({
  "pre_tokenizer": {"type": ["ByteLevel"], "add_prefix_space": [false], "use_regex": [true], "trim_offsets": null},
  "normalizer": [null],
  "truncation": {"direction": ["Right"], "max_length": null, "strategy": null, "stride": null},
  "model": {"type": ["BPE"], "dropout": [null, 0], "continuing_subword_prefix": [null, ""],
            "end_of_word_suffix": [null, ""], "byte_fallback": [false], "ignore_merges": [false],
            "vocab": null, "merges": null, "unk_token": null, "fuse_unk": null},
  "added_tokens": null, "post_processor": null, "version": null, "padding": null, "decoder": null
})";

// Of tokenizer_config.json and special_tokens_map.json.
constexpr char kSettingsFields[] = R"({
  "bos_token": ["<s>"], "cls_token": ["<s>"], "pad_token": ["<pad>"], "eos_token": ["</s>"], "sep_token": ["</s>"],
  "unk_token": ["<unk>"], "mask_token": ["<mask>"],
  "additional_special_tokens": [null, []], "extra_special_tokens": [null, {}, []], "added_tokens_decoder": null,
  "tokenizer_class": [null, "RobertaTokenizer", "RobertaTokenizerFast", "PreTrainedTokenizerFast"],
  "add_prefix_space": [false], "truncation_side": ["right"], "padding_side": ["right"],
  "model_max_length": null, "max_length": null, "max_len": null, "stride": null, "truncation_strategy": null,
  "pad_to_multiple_of": null, "pad_token_type_id": null, "errors": null, "trim_offsets": null, "do_lower_case": null,
  "clean_up_tokenization_spaces": null, "split_special_tokens": null, "model_input_names": null, "name_or_path": null,
  "special_tokens_map_file": null, "tokenizer_file": null, "vocab_file": null, "merges_file": null, "use_fast": null,
  "from_slow": null, "processor_class": null, "chat_template": null, "backend": null, "is_local": null
})";

[[noreturn]] void Refuse(const std::string& what) { throw DataError(what, kWanted); }

void RequireFields(const json& fields, const char* table) {
  try {
    RequireKnownFields(fields, json::parse(table));
  } catch (const std::invalid_argument& error) {
    Refuse(error.what());
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

// Adds the special tokens to the vocabulary, if they are not in it.
void AddSpecialTokens(const json& added, json& vocabulary) {
  if (added.is_null()) return;
  if (!added.is_array()) Refuse("its added_tokens are not a list");
  for (const json& token : added) {
    const json& content = MemberOf(token, "content");
    const json& id = MemberOf(token, "id");
    if (!content.is_string() || !id.is_number_unsigned()) Refuse("one of its added_tokens has no content or no id");
    const auto& name = content.get_ref<const std::string&>();
    RequireSpecial(name);
    if (!vocabulary.contains(name)) vocabulary[name] = id;
    if (vocabulary[name] != id) Refuse("it has two ids for the token " + name);
  }
}

// A merge is "a b" or, in newer files, ["a", "b"]. No token holds a space, which is written as another character.
std::string MergeLine(const json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
  if (!is_pair) Refuse("one of its merges is not a pair of tokens");
  return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

bool MarksSentences(const json& post_processor) {
  return MemberOf(post_processor, "type") == "RobertaProcessing" &&
         MemberOf(post_processor, "cls") == json::array({"<s>", 0}) &&
         MemberOf(post_processor, "sep") == json::array({"</s>", 2});
}

// Throws DataError unless tokens and their ids are those of the tokenizer.
void RequireSame(const json& content, int64_t id, const ByteLevelBpe& tokenizer) {
  if (!content.is_string()) Refuse("one of its added tokens has no content");
  const auto& token = content.get_ref<const std::string&>();
  RequireSpecial(token);
  if (tokenizer.IdOf(token) == id) return;
  Refuse("it gives the token " + token + " the id " + std::to_string(id) + ", the vocabulary " +
         std::to_string(tokenizer.IdOf(token)));
}

void RequireAddedTokens(const json& added, const ByteLevelBpe& tokenizer) {
  for (const auto& [token, id] : added.items()) {
    RequireSame(token, id.is_number_integer() ? id.get<int64_t>() : -1, tokenizer);
  }
}

void RequireSettings(const json& given, const ByteLevelBpe& tokenizer) {
  json settings = given;
  for (const auto& field : settings.items()) {
    const bool is_token = field.key().ends_with("_token") && field.value().is_object();
    if (is_token) field.value() = MemberOf(field.value(), "content");
  }
  RequireFields(settings, kSettingsFields);
  for (const auto& [id, token] : MemberOf(settings, "added_tokens_decoder").items()) {
    RequireSame(MemberOf(token, "content"), WholeNumber(id).value_or(-1), tokenizer);
  }
}

}  // namespace

TokenizerParts ParseTokenizerJson(std::string_view text) {
  const json tokenizer = Parsed(std::string(text));
  RequireFields(tokenizer, kTokenizerFields);
  if (!MemberOf(tokenizer, "pre_tokenizer").is_object()) Refuse("it has no pre_tokenizer");
  const json& model = MemberOf(tokenizer, "model");
  if (!MemberOf(model, "vocab").is_object()) Refuse("its model has no vocab");
  if (!MemberOf(model, "merges").is_array()) Refuse("its model has no merges");
  json vocabulary = model["vocab"];
  AddSpecialTokens(MemberOf(tokenizer, "added_tokens"), vocabulary);
  TokenizerParts parts{.vocabulary = vocabulary.dump(),
                       .merges = "",
                       .marks_sentences = MarksSentences(MemberOf(tokenizer, "post_processor"))};
  for (const json& merge : model["merges"]) {
    const std::string line = MergeLine(merge);
    if (line.find_first_of("\r\n") != std::string::npos) Refuse("one of its merges holds a line end");
    parts.merges += line + "\n";
  }
  return parts;
}

void RequireKnownSettings(const std::string& folder, const ByteLevelBpe& tokenizer) {
  constexpr std::pair<const char*, void (*)(const json&, const ByteLevelBpe&)> kFiles[] = {
      {"/tokenizer_config.json", RequireSettings},
      {"/special_tokens_map.json", RequireSettings},
      {"/added_tokens.json", RequireAddedTokens}};
  for (const auto& [name, require] : kFiles) {
    const std::string text = TextBeside(folder + name);
    if (text.empty()) continue;
    try {
      require(Parsed(text), tokenizer);
    } catch (const DataError& error) {
      throw DataError(folder + name + ": " + error.what(), error.hint());
    }
  }
}

}  // namespace dtrain::data
