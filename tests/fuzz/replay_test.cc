// Runs every input of the corpus through its target, as it is and damaged, in a build without libFuzzer, so that
// repaired findings stay repaired. scripts/dev/fuzz.sh looks for more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/fault_record.h"
#include "tests/fuzz/fuzz_target.h"

namespace dtrain::fuzz {
namespace {

using NamedTarget = std::pair<const std::string, Target>;

std::vector<std::filesystem::path> Inputs(const std::string& target) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path folder : {FUZZ_SEEDS, FUZZ_FINDINGS}) {
    if (!std::filesystem::exists(folder / target)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder / target)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Runs `bytes`, and `bytes` cut and with a bit flipped at up to 200 places.
void RunDamaged(Target target, std::vector<char> bytes) {
  const auto run = [&](size_t size) { target({reinterpret_cast<const uint8_t*>(bytes.data()), size}); };
  run(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 200) {
    run(at);
    const char intact = bytes[at];
    bytes[at] = static_cast<char>(intact ^ (1 << (at % 8)));
    run(bytes.size());
    bytes[at] = intact;
  }
}

class Replay : public testing::TestWithParam<NamedTarget> {};

TEST_P(Replay, CorpusDoesNoHarm) {
  if (!std::filesystem::exists(FUZZ_SEEDS))
    GTEST_SKIP() << "needs seeds: .venv/bin/python tests/fuzz/make_corpus.py " FUZZ_SEEDS;
  const auto inputs = Inputs(GetParam().first);
  ASSERT_GE(inputs.size(), 2U) << "a corpus of nothing";
  for (const auto& path : inputs) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NO_THROW(RunDamaged(GetParam().second, bytes));
  }
  RecordFault(14, "hostile files of all formats (the corpora of the fuzzers)", "an error, no harm",
              static_cast<int64_t>(inputs.size()));
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, testing::ValuesIn(Targets()),
                         [](const auto& instance) { return instance.param.first; });

}  // namespace
}  // namespace dtrain::fuzz
