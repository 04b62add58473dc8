// Prints the samples that text is cut into, for the comparisons in tests/interop.
//
//   token_blocks_dump PREFIX MODE TOKENS_PER_SAMPLE
//       the blocks of a token file: a line of tokens for each, without the <s> in front
//   token_blocks_dump DATA_DIR MODE TOKENS_PER_SAMPLE TOKENIZER SEED EPOCH
//       the rows of the raw text DATA_DIR/train.txt: a line of tokens, masked, and one of labels for each
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "data/text/text_split.h"
#include "data/text/token_blocks.h"

namespace dtrain::data {
namespace {

void Print(std::span<const int64_t> numbers) {
  for (const int64_t number : numbers) std::printf("%lld ", static_cast<long long>(number));
  std::puts("");
}

void PrintBlocks(const TokenBlocks& blocks) {
  for (int64_t i = 0; i < blocks.size(); ++i) {
    std::vector<int64_t> tokens(static_cast<size_t>(blocks.length(i) - blocks.front()));
    WidenTokens(blocks.type(), blocks.Read(i), tokens.data());
    Print(tokens);
  }
}

void PrintRows(const TextSplit& text, int64_t epoch) {
  for (int64_t i = 0; i < text.source->size(); ++i) {
    const auto length = static_cast<size_t>(text.length(i));
    std::vector<int64_t> tokens(length), labels(length);
    std::vector<std::byte> mask(length);
    const std::vector<std::span<std::byte>> rows = {std::as_writable_bytes(std::span(tokens)),
                                                    std::as_writable_bytes(std::span(labels)), mask};
    text.decoder->Decode(text.source->Read(i), {.index = i, .epoch = epoch}, rows);
    Print(tokens);
    Print(labels);
  }
}

void Dump(const std::vector<std::string>& arguments) {
  const SampleBreak mode = SampleBreakFromName(arguments.at(1));
  const int64_t tokens_per_sample = std::stoll(arguments.at(2));
  if (arguments.size() == 3) {
    return PrintBlocks({std::make_unique<TokenDataset>(arguments[0]), mode, tokens_per_sample});
  }
  const TextOptions options{.data_dir = arguments[0],
                            .dictionary_dir = arguments.at(3),
                            .format = "text",
                            .tokens_per_sample = tokens_per_sample,
                            .sample_break = mode,
                            .seed = std::stoll(arguments.at(4))};
  PrintRows(OpenText(options, "train"), std::stoll(arguments.at(5)));
}

}  // namespace
}  // namespace dtrain::data

int main(int argc, char** argv) {
  try {
    dtrain::data::Dump({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "token_blocks_dump: %s\n", error.what());
    return 3;
  }
  return 0;
}
