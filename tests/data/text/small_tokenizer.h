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

}  // namespace dtrain::data
