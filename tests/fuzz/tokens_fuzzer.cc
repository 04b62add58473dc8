// Token files and the blocks that are cut from them. The first two bytes are the length of the index, the rest is index
// and tokens. Blocks are cut in every way and must consist of tokens of the file.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "data/error.h"
#include "data/text/text_split.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/temporary_folder.h"

namespace {

using namespace dtrain;

void Cut(const TemporaryFolder& folder, data::SampleBreak sample_break) {
  constexpr int64_t kTokensPerSample = 9;
  const data::TokenBlocks blocks(std::make_unique<data::TokenDataset>(folder.path("train")), sample_break,
                                 kTokensPerSample);
  for (int64_t i = 0; i < std::min<int64_t>(blocks.size(), 100); ++i) {
    fuzz::Require(blocks.length(i) >= 2 && blocks.length(i) <= kTokensPerSample, "a block of another length");
    const auto bytes = static_cast<int64_t>(blocks.Read(i).size());
    fuzz::Require(bytes == (blocks.length(i) - blocks.front()) * data::TokenBytes(blocks.type()),
                  "a block of other bytes");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::FuzzInput input(data, size);
  const size_t index_bytes = input.TakeShort();
  static const TemporaryFolder folder;
  folder.Write("train.idx", input.Take(index_bytes));
  folder.Write("train.bin", input.rest());
  for (const auto sample_break :
       {data::SampleBreak::kNone, data::SampleBreak::kComplete, data::SampleBreak::kCompleteDoc,
        data::SampleBreak::kEos, data::SampleBreak::kJoined, data::SampleBreak::kLines}) {
    try {
      Cut(folder, sample_break);
    } catch (const DataError&) {
    }
  }
  return 0;
}
