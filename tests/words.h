// Commands and environments as one text, as people type them.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace dtrain {

// Splits a text at its white space.
inline std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace dtrain
