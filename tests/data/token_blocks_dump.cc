// Prints the blocks that a token file is cut into, one line of tokens per block, for the comparison with fairseq in
// tests/interop.
//
//   token_blocks_dump PREFIX none|complete|complete_doc|eos TOKENS_PER_SAMPLE
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "data/text/token_blocks.h"

int main(int argc, char** argv) {
  using namespace dtrain::data;
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const TokenBlocks blocks(std::make_unique<TokenDataset>(arguments.at(0)), SampleBreakFromName(arguments.at(1)),
                             std::stoll(arguments.at(2)));
    for (int64_t i = 0; i < blocks.size(); ++i) {
      std::vector<int64_t> tokens(static_cast<size_t>(blocks.length(i) - 1));  // without the <s> in front
      WidenTokens(blocks.type(), blocks.Read(i), tokens.data());
      for (const int64_t token : tokens) std::printf("%lld ", static_cast<long long>(token));
      std::puts("");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "token_blocks_dump: %s\n", error.what());
    return 3;
  }
  return 0;
}
