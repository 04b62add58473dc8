#include "trainer/doctor/doctor.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "data/error.h"
#include "data/pipeline/row_reader.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::doctor {
namespace {

constexpr int64_t kMostRecords = 256;
constexpr double kMostSeconds = 10;

using Clock = std::chrono::steady_clock;
using report::SecondsSince;

}  // namespace

Finding JudgeReading(const ReadFacts& facts, double most_bad) {
  constexpr double kSlowSeconds = 0.02;  // per record; a local disk takes a thousandth of that
  const std::string check = "data, " + facts.split;
  const double each = 1.0 / static_cast<double>(std::max<int64_t>(1, facts.tried));
  const std::string text =
      report::Format("%lld of %lld records read, %.2f ms and %.1f KB each, and decoded in %.2f ms",
                     static_cast<long long>(facts.tried), static_cast<long long>(facts.records),
                     1e3 * facts.read_seconds * each, facts.bytes / 1e3 * each, 1e3 * facts.decode_seconds * each);
  if (facts.bad > 0) {
    const std::string bad = text + "; " + std::to_string(facts.bad) + " cannot be used, the first: " + facts.first_bad;
    const std::string remedy = "dtrain_data verify lists all of them";
    // The records that were tried are a sample. A larger fraction of them is bad than is allowed of all.
    if (static_cast<double>(facts.bad) * each > most_bad) return Failed(check, ExitCode::kData, bad, remedy);
    return Warning(check, bad, remedy);
  }
  if (facts.read_seconds * each > kSlowSeconds) {
    return Warning(check, text, "storage is slow: use dtrain_data pack or warm, --shuffle=shard or --cache=ram");
  }
  return Ok(check, text);
}

ReadFacts ReadSome(const tasks::DataSplit& split) {
  const data::RecordSource& source = *split.source;
  ReadFacts facts{.split = split.name, .records = source.size()};
  data::OpenBatch batch({}, {data::SampleRef{}}, split.decoder->fields(0), /*pinned=*/false);
  const std::vector<std::span<std::byte>> row = batch.RowOf(0);
  const int64_t count = std::min(kMostRecords, source.size());
  const auto begin = Clock::now();
  for (int64_t i = 0; i < count && SecondsSince(begin) < kMostSeconds; ++i) {
    const int64_t index = i * (source.size() / count);
    ++facts.tried;
    try {
      const auto before = Clock::now();
      const std::vector<uint8_t> bytes = source.Read(index);
      const auto between = Clock::now();
      split.decoder->Decode(bytes, {.index = index}, row);
      facts.read_seconds += std::chrono::duration<double>(between - before).count();
      facts.decode_seconds += SecondsSince(between);
      facts.bytes += static_cast<double>(bytes.size());
    } catch (const DataError& error) {
      if (facts.bad++ == 0) facts.first_bad = source.Location(index) + ": " + error.what();
    }
  }
  return facts;
}

void ExamineData(const config::Config& config, Findings& findings) {
  config::Config reading = config;
  reading.run.dry_run = true;  // no index is kept
  const tasks::DataSets sets = tasks::KindOf(reading).OpenData(reading, /*known=*/{}, /*indexes=*/nullptr);
  for (const tasks::DataSplit* split : tasks::AllSplits(sets)) {
    const int64_t size = split->source->size();
    const int64_t budget =
        data::BadRecordBudget(size, {.max_bad_records = config.data.max_bad_records, .strict = config.data.strict});
    findings.Say(JudgeReading(ReadSome(*split), static_cast<double>(budget) / static_cast<double>(size)));
  }
}

}  // namespace dtrain::doctor
