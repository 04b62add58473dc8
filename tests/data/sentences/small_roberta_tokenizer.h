// The files of a small tokenizer with RoBERTa's special tokens, for tests: byte b is token 4 + b, "ab" is 260, <mask>
// 261.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/data/text/small_tokenizer.h"

namespace dtrain::data {

inline SmallTokenizer SmallMerges() {
  return SmallTokenizer(std::vector<std::pair<std::string, std::string>>{{"a", "b"}});
}

inline nlohmann::json SmallRobertaVocabulary() {
  nlohmann::json ids = {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}, {"<mask>", 261}};
  const SmallTokenizer small = SmallMerges();
  for (const auto& [token, id] : small.vocabulary.items()) ids[token] = id.get<int64_t>() + 4;
  return ids;
}

// As `tokenizers` writes it.
inline nlohmann::json SmallTokenizerJson() {
  nlohmann::json vocabulary = SmallRobertaVocabulary();
  vocabulary.erase("<mask>");
  return {{"version", "1.0"},
          {"added_tokens", {{{"id", 0}, {"content", "<s>"}}, {{"id", 261}, {"content", "<mask>"}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", {{"type", "RobertaProcessing"}, {"sep", {"</s>", 2}}, {"cls", {"<s>", 0}}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"continuing_subword_prefix", ""},
            {"vocab", vocabulary},
            {"merges", nlohmann::json::array({nlohmann::json::array({"a", "b"})})}}}};
}

}  // namespace dtrain::data
