// dtrain_data encode: runs the tokenizer alone, for use by other programs.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/prepare/commands.h"
#include "data/prepare/tokenizer_choice.h"
#include "data/text/utf8.h"

namespace dtrain::data {

void Encode(const PrepareOptions& options) {
  const Tokenizer tokenizer(ChosenTokenizer(options));
  BpeEncoder encoder(tokenizer.bpe());
  std::ios::sync_with_stdio(false);
  std::string line;
  std::vector<int32_t> ids;
  int64_t replaced = 0;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (!IsUtf8(line)) line = ReplaceInvalidUtf8(line, replaced);
    const auto text = nlohmann::json::parse(line, nullptr, false);
    if (!text.is_string()) {
      throw DataError("stdin, line " + std::to_string(number) + " is not a JSON string",
                      "write one JSON string per line: in double quotes, with JSON's escapes");
    }
    ids.clear();
    encoder.Encode(text.get_ref<const std::string&>(), ids);
    std::string answer = "[";
    for (const int32_t id : ids) answer += (answer.size() > 1 ? "," : "") + std::to_string(id);
    std::cout << answer << "]\n";
    if (std::cin.rdbuf()->in_avail() <= 0)
      std::cout.flush();  // a program that writes single lines waits for each answer
  }
  if (!std::cout.flush()) throw Error(ExitCode::kStorage, "cannot write to stdout", "");
  if (replaced > 0) {
    std::fprintf(stderr, "warning: %lld pieces of invalid UTF-8 were replaced by U+FFFD\n",
                 static_cast<long long>(replaced));
  }
}

}  // namespace dtrain::data
