// What the files in which Hugging Face's programs describe a tokenizer have in common, whatever its kind:
// tokenizer.json, which holds it whole, and those beside a vocabulary that change it. A kind reads its own parts in its
// own file, by these functions, and is a row of the table in tokenizer_json.cc. What would give other tokens than there
// is refused by the name of the part: all throw DataError, which names no file but those beside a vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"

namespace dtrain::data {

// `wanted`: what to do about it; empty says which kinds are read.
[[noreturn]] void RefuseTokenizer(const std::string& what, const std::string& wanted = {});

nlohmann::json ParsedTokenizer(const std::string& text);

// Returns a member; null if there is none or `object` is not an object.
const nlohmann::json& MemberOf(const nlohmann::json& object, const char* name);

// Refuses fields of a whole tokenizer.json that are not known (data/shallow_json.h). `of_kind` are tables of JSON with
// the fields of a kind, of which later ones count.
void RequireTokenizerFields(const nlohmann::json& tokenizer, std::initializer_list<const char*> of_kind);
// The same with one table of all fields.
void RequireFields(const nlohmann::json& fields, const nlohmann::json& table, const std::string& wanted = {});

// The id of a token; -1 if there is none.
using IdOf = std::function<int64_t(std::string_view)>;
// Of tokens by id, of which the last one counts if several are equal.
IdOf IdsOf(const std::vector<std::string>& tokens);

// Returns the tokens of an object of tokens and their ids by id. Empty if no token has this id.
std::vector<std::string> TokensById(const nlohmann::json& vocabulary);

// Those that are looked for in a text as it is, and those that are looked for after it has been normalised.
struct FoundTokens {
  std::vector<AddedToken> raw, normalised;
};

// Returns the added_tokens of a tokenizer.json.
FoundTokens AddedTokensOf(const nlohmann::json& tokenizer);
// Adds a token, which is described by an object.
void AddToken(const nlohmann::json& token, const nlohmann::json& id, FoundTokens& added);
// Adds tokens to a vocabulary that lacks them, and returns their ids.
std::vector<int32_t> AddTo(nlohmann::json& vocabulary, const FoundTokens& added);
// Refuses an added token that has another id in the vocabulary.
void RequireSame(const nlohmann::json& content, int64_t id, const IdOf& id_of);

// Returns the rows that the post_processor of a tokenizer.json makes of these special tokens.
CheckedFormat FormatOf(const nlohmann::json& tokenizer, const SpecialTokens& special);

// Returns the fields of tokenizer_config.json and those that special_tokens_map.json has beside them, with the contents
// of tokens. Checks them, and the added tokens that these files and added_tokens.json name, as far as there are such
// files. `changes` is a table of JSON with the fields that are others for a kind, `added` what is looked for in texts,
// among which further special tokens may be.
nlohmann::json SettingsIn(const std::string& folder, const char* changes, const IdOf& id_of,
                          const FoundTokens& added = {});

// Returns the special tokens that settings name, or those that have the usual names.
SpecialTokens SpecialTokensOf(const nlohmann::json& settings, const IdOf& id_of);

}  // namespace dtrain::data
