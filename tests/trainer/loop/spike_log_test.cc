#include "trainer/loop/spike_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/formats/synthetic.h"
#include "tests/temporary_folder.h"
#include "trainer/errors.h"

namespace dtrain::loop {
namespace {

const data::Synthetic& Source() {
  static const data::Synthetic source(1000, 2, 4, 4);
  return source;
}

bool Add(SpikeLog& log, int64_t step, std::optional<Rewind> rewind = std::nullopt, size_t samples = 3) {
  std::vector<int64_t> indices(samples);
  std::iota(indices.begin(), indices.end(), 7);
  return log.Add({.spike = {.step = step, .loss = 9, .mean = 2, .deviation = 0.5},
                  .action = rewind ? "rewind" : "log",
                  .rewind = rewind,
                  .samples = indices},
                 Source());
}

std::vector<nlohmann::json> LinesOf(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(SpikeLog, NamesTheSamples) {
  const TemporaryFolder folder;
  SpikeLog log(folder / "spikes.jsonl");
  EXPECT_TRUE(log.RewindsTo(0).empty());
  log.Resume(5);
  EXPECT_FALSE(std::filesystem::exists(folder / "spikes.jsonl"));
  Add(log, 12);
  Add(log, 14, std::nullopt, 900);
  const auto lines = LinesOf(folder / "spikes.jsonl");
  EXPECT_EQ(lines.at(0).at("step"), 12);
  EXPECT_EQ(lines[0].at("samples").at(2).at("index"), 9);
  EXPECT_EQ(lines[0]["samples"][2].at("file"), Source().Place(9).file);
  EXPECT_EQ(lines.at(1).at("samples_of_step"), 900);
  EXPECT_EQ(static_cast<int64_t>(lines[1].at("samples").size()), SpikeLog::kMostSamples);
}

// The run went from 8 back to 6 twice, then saved at 10, and went back there from 13.
TEST(SpikeLog, KeepsTheRewindsThatTheCheckpointDoesNotKnow) {
  const TemporaryFolder folder;
  SpikeLog log(folder / "spikes.jsonl");
  Add(log, 3);
  Add(log, 8, Rewind{6, 2});
  Add(log, 9, Rewind{6, 3});
  Add(log, 13, Rewind{10, 3});
  Add(log, 14);
  EXPECT_EQ(log.RewindsTo(10), (std::vector<Rewind>{{10, 3}}));
  log.Resume(10);
  EXPECT_EQ(LinesOf(folder / "spikes.jsonl").size(), 4U);
  EXPECT_EQ(log.RewindsTo(6), (std::vector<Rewind>{{6, 2}, {6, 3}}));
  log.Resume(6);  // 10 was damaged
  EXPECT_TRUE(log.RewindsTo(10).empty());
  EXPECT_EQ(log.RewindsTo(6).size(), 2U);
  log.Resume(-1);  // a new run
  EXPECT_TRUE(LinesOf(folder / "spikes.jsonl").empty());
}

TEST(SpikeLog, HasSoManyLinesAtMostAndAllRewinds) {
  const TemporaryFolder folder;
  SpikeLog log(folder / "spikes.jsonl");
  for (int64_t step = 1; step <= SpikeLog::kMostLines; ++step) ASSERT_TRUE(Add(log, step));
  EXPECT_FALSE(Add(log, SpikeLog::kMostLines + 1));
  EXPECT_TRUE(Add(log, SpikeLog::kMostLines + 2, Rewind{1, 1}));
  EXPECT_EQ(static_cast<int64_t>(LinesOf(folder / "spikes.jsonl").size()), SpikeLog::kMostLines + 1);
}

TEST(SpikeLog, DamageIsAnError) {
  for (const char* line : {"", "[]", "{}", "{\"step\":1.5}", "{\"step\":-1}", "{\"step\":18446744073709551615}",
                           "{\"step\":1", "{\"step\":9,\"checkpoint\":3}", "{\"step\":9,\"left_out_batches\":3}",
                           "{\"step\":9,\"checkpoint\":3,\"left_out_batches\":\"6\"}"}) {
    const TemporaryFolder folder;
    std::ofstream(folder / "spikes.jsonl") << line << "\n";
    SpikeLog log(folder / "spikes.jsonl");
    EXPECT_THROW(log.RewindsTo(3), StorageError) << line;
    EXPECT_THROW(log.Resume(3), StorageError) << line;
  }
}

}  // namespace
}  // namespace dtrain::loop
