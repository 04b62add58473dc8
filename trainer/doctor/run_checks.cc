// Checks of what belongs to the run rather than to its machine: how its ranks find each other, and its data.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "data/error.h"
#include "data/joined.h"
#include "data/pipeline/row_reader.h"
#include "trainer/control/line_socket.h"
#include "trainer/doctor/doctor.h"
#include "trainer/launch/local_address.h"
#include "trainer/launch/run_token.h"
#include "trainer/report/log.h"
#include "trainer/tasks/task_kind.h"

namespace dtrain::doctor {
namespace {

constexpr int64_t kMostRecords = 256;
constexpr double kMostSeconds = 10;

}  // namespace

Finding LauncherFound(const launch::Launch& launch) {
  const std::string who = launch.launcher.is_one ? launch.launcher.name : "none, this machine alone";
  return Ok("launcher", who + ": rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.world_size) +
                            ", local rank " + std::to_string(launch.local_rank) + " of " +
                            std::to_string(launch.local_world_size) + ", machine " + std::to_string(launch.node_rank) +
                            " of " + std::to_string(launch.nnodes) +
                            (launch.seen.empty() ? "" : " (seen: " + launch.seen + ")"));
}

Resolved Resolve(const std::string& host) {
  Resolved resolved;
  const launch::Addresses found = launch::Resolve(host, /*port=*/0, SOCK_STREAM, &resolved.reason);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    resolved.addresses.push_back(launch::Numeric(one->ai_addr, one->ai_addrlen));
  }
  return resolved;
}

Finding JudgeAddress(const launch::Launch& launch, const Resolved& resolved) {
  constexpr const char* kCheck = "address";
  const std::string& host = launch.master_addr;
  if (host.empty()) return Ok(kCheck, "rank 0 publishes its address in the run directory, which all ranks must share");
  if (resolved.addresses.empty()) {
    return Failed(kCheck, ExitCode::kPeerLost, "rank 0's address '" + host + "' does not resolve: " + resolved.reason,
                  "set --master_addr or MASTER_ADDR to a name that all machines can resolve; in a cluster the name "
                  "service may lag by some seconds: try again");
  }
  const std::string is = "rank 0's address " + host + " is " + Joined(resolved.addresses);
  const bool loopback = std::ranges::all_of(resolved.addresses, launch::IsLoopback);
  if (launch.nnodes > 1 && loopback) {
    return Warning(kCheck, is + ": only this machine can reach it",
                   "give the address of rank 0's network interface, or remove the name's 127.x line from /etc/hosts");
  }
  return Ok(kCheck, is);
}

Finding TryPort(const launch::Launch& launch, bool already_listens) {
  constexpr const char* kCheck = "port";
  if (launch.rank != 0) return Ok(kCheck, "rank 0's port is tested when the ranks meet");
  if (launch.agent_store) return Ok(kCheck, "torchrun's store uses it; the system chooses rank 0's own");
  if (already_listens || launch.master_port == 0) return Ok(kCheck, "chosen by the system");
  return Tried(kCheck, [&] {
    close(launch::ListenOn(launch.master_addr, launch.master_port));
    return Ok(kCheck, std::to_string(launch.master_port) + " is free on " + launch.master_addr);
  });
}

Finding JudgeToken(const launch::Launch& launch) {
  constexpr const char* kCheck = "token";
  if (launch.world_size == 1) return Ok(kCheck, "one rank needs none");
  if (!launch.token.empty()) return Ok(kCheck, "the ranks share one");
  if (launch.agent_store || launch.master_addr.empty()) return Ok(kCheck, "rank 0 makes one and posts it");
  if (launch::IsLoopback(launch.master_addr)) return Ok(kCheck, "none; only this machine can reach rank 0");
  return Warning(kCheck, "none: anyone who can reach rank 0's port can join the run and end it",
                 "give all ranks the same secret in " + std::string(launch::kTokenVariable) + " (docs/trust.md)");
}

Finding JudgeClock(double seconds_off) {
  constexpr double kWorthASentence = 5;
  const std::string text = report::Format("%.1f s from rank 0's", std::abs(seconds_off));
  if (std::abs(seconds_off) < kWorthASentence) return Ok("clock", text);
  return Warning("clock", text, "set the clocks with NTP: the times in the machines' logs cannot be compared");
}

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
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count && report::SecondsSince(begin) < kMostSeconds; ++i) {
    const int64_t index = i * (source.size() / count);
    ++facts.tried;
    try {
      const auto before = std::chrono::steady_clock::now();
      const std::vector<uint8_t> bytes = source.Read(index);
      const auto between = std::chrono::steady_clock::now();
      split.decoder->Decode(bytes, {.index = index}, row);
      facts.read_seconds += std::chrono::duration<double>(between - before).count();
      facts.decode_seconds += report::SecondsSince(between);
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
