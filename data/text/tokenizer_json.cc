#include "data/text/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/shallow_json.h"
#include "data/shown.h"

namespace dtrain::data {
namespace {

using nlohmann::json;

constexpr char kWanted[] = "expected the byte-level BPE tokenizer of a RoBERTa model";
constexpr std::array<std::string_view, 5> kSpecialTokenNames = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};

[[noreturn]] void Refuse(const std::string& what) { throw DataError(what, kWanted); }

// Returns a member; null if there is none or `object` is not an object.
const json& MemberOf(const json& object, const char* name) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

std::string TypeOf(const json& part) {
  const json& type = MemberOf(part, "type");
  return type.is_string() ? Shown(type.get<std::string>(), 40) : "of an unknown type";
}

bool IsSet(const json& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_null() && value != false && value != 0;
}

void RequireByteLevel(const json& tokenizer) {
  if (const json& normalizer = MemberOf(tokenizer, "normalizer"); !normalizer.is_null()) {
    Refuse("it changes texts before tokenizing them: its normalizer is " + TypeOf(normalizer));
  }
  const json& cuts = MemberOf(tokenizer, "pre_tokenizer");
  if (TypeOf(cuts) != "ByteLevel") Refuse("its pre_tokenizer is " + TypeOf(cuts) + " instead of ByteLevel");
  if (IsSet(MemberOf(cuts, "add_prefix_space"))) Refuse("it puts a space before each text (add_prefix_space)");
  if (MemberOf(cuts, "use_regex") == false) Refuse("it does not cut texts into words (use_regex is false)");
}

void RequirePlainBpe(const json& model) {
  const json& type = MemberOf(model, "type");  // old files have none
  if (!type.is_null() && type != "BPE") Refuse("its model is " + TypeOf(model) + " instead of BPE");
  for (const char* name :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
    if (IsSet(MemberOf(model, name))) Refuse("its model has " + std::string(name));
  }
  if (!MemberOf(model, "vocab").is_object()) Refuse("its model has no vocab");
  if (!MemberOf(model, "merges").is_array()) Refuse("its model has no merges");
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
    if (std::ranges::find(kSpecialTokenNames, name) == kSpecialTokenNames.end()) {
      Refuse("it has the added token '" + Shown(name, 40) + "', which it looks for in texts before it merges");
    }
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

}  // namespace

TokenizerParts ParseTokenizerJson(std::string_view text) {
  json tokenizer;
  try {
    tokenizer = ParseShallow(std::string(text));
  } catch (const json::exception&) {
    Refuse("it is not JSON");
  }
  RequireByteLevel(tokenizer);
  const json& model = MemberOf(tokenizer, "model");
  RequirePlainBpe(model);
  json vocabulary = model["vocab"];
  AddSpecialTokens(MemberOf(tokenizer, "added_tokens"), vocabulary);
  TokenizerParts parts{.vocabulary = vocabulary.dump(), .merges = ""};
  for (const json& merge : model["merges"]) {
    const std::string line = MergeLine(merge);
    if (line.find_first_of("\r\n") != std::string::npos) Refuse("one of its merges holds a line end");
    parts.merges += line + "\n";
  }
  return parts;
}

}  // namespace dtrain::data
