// A byte-level tokenizer with the 256 bytes and a few merges, for tests. Byte b is token b.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::data {

struct SmallTokenizer {
  nlohmann::json vocabulary = nlohmann::json::object();
  std::string merges = "#version: 0.2\n";

  // Each merge is a pair of tokens in the vocabulary's notation, and its result gets the next id.
  explicit SmallTokenizer(const std::vector<std::pair<std::string, std::string>>& pairs) {
    int other = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const int point = printable ? byte : other++;
      std::string written;
      if (point >= 0x80) written += static_cast<char>(0xC0 | point >> 6);
      written += static_cast<char>(point < 0x80 ? point : 0x80 | (point & 0x3F));
      vocabulary[written] = byte;
    }
    for (const auto& [left, right] : pairs) {
      vocabulary[left + right] = vocabulary.size();
      merges += left + " " + right + "\n";
    }
  }
  std::string Json() const { return vocabulary.dump(); }
};

// The files of one with RoBERTa's special tokens: byte b is token 4 + b, "ab" is 260, <mask> 261.
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
