// The commands that make the start of a run of many ranks fast: dtrain_data index rebuilds the indexes; dtrain_data
// warm reads every byte once. File systems that load lazily (FSx for Lustre from S3) are slow only at the first read,
// and many concurrent reads hide that.
#include <algorithm>
#include <atomic>
#include <cstdio>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/open_source.h"
#include "data/prepare/commands.h"
#include "data/progress.h"
#include "data/shown.h"
#include "data/storage.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{4} << 20;
constexpr size_t kWarmThreads = 64;

// The unit of work of a thread: a piece of a file, or the whole file.
struct Block {
  std::string path;
  uint64_t offset = 0;
  uint64_t most_bytes = kBlockBytes;
};

// Returns the files of one split, large ones in blocks. Nothing is parsed, because making an index would read the files
// first.
std::vector<Block> BlocksOf(const PrepareOptions& options, const std::string& format, const std::string& split) {
  const DataFormat* known = FindFormat(format);
  std::vector<Block> blocks;
  if (known == nullptr || known->records_are_files() || !known->files) {  // of a folder, or of a table
    const auto source = OpenSource({.data_dir = options.data_dir,
                                    .format = format,
                                    .labels = options.labels,
                                    .table = options.table,
                                    .index_dir = options.index_dir},
                                   split);
    for (int64_t i = 0; i < source->size(); ++i) blocks.push_back({source->Place(i).file, 0, UINT64_MAX});
    return blocks;
  }
  for (const std::string& path : known->files(options.data_dir, split)) {
    const uint64_t bytes = RandomAccessFile(path).size();
    for (uint64_t offset = 0; offset < bytes; offset += kBlockBytes) blocks.push_back({path, offset, kBlockBytes});
  }
  return blocks;
}

// Reads a block and returns its number of bytes.
uint64_t Touch(const Block& block) {
  const RandomAccessFile file(block.path);
  const uint64_t end = block.offset + std::min(block.most_bytes, file.size() - std::min(file.size(), block.offset));
  std::vector<uint8_t> bytes(std::min(kBlockBytes, end - block.offset));
  for (uint64_t at = block.offset; at < end; at += bytes.size()) {
    file.Read(at, std::min<uint64_t>(bytes.size(), end - at), bytes.data());
  }
  return end - block.offset;
}

}  // namespace

void MakeIndexes(const PrepareOptions& options) {
  const std::string format = FormatOf(options);
  if (const DataFormat* known = FindFormat(format); known != nullptr && known->has_own_index) {
    throw Error(ExitCode::kUsage, "data of the format " + format + " needs no index file: it has an index of its own",
                "leave this step out");
  }
  for (const OpenSplit& split : OpenSplits(options, true)) {
    std::printf("%s: %s, %lld records, %lld classes, fingerprint %s\n", Shown(split.name).c_str(), format.c_str(),
                static_cast<long long>(split.source->size()), static_cast<long long>(split.source->num_classes()),
                split.source->fingerprint().c_str());
  }
}

void Warm(const PrepareOptions& options) {
  const std::string format = FormatOf(options);
  std::vector<Block> blocks;
  for (const std::string& split : SplitsOf(options, format)) {
    for (Block& block : BlocksOf(options, format, split)) blocks.push_back(std::move(block));
  }
  std::atomic<int64_t> failed{0};
  Progress progress("warm", "reads", static_cast<int64_t>(blocks.size()));
  const auto touch = [&](size_t i) {
    uint64_t bytes = 0;
    try {
      bytes = Touch(blocks[i]);
    } catch (const DataError& error) {
      if (failed++ == 0) std::fprintf(stderr, "%s\n", Shown(error.what()).c_str());
    }
    progress.Add(1, static_cast<int64_t>(bytes));
  };
  InParallel(blocks.size(), touch, 1, options.workers > 0 ? static_cast<size_t>(options.workers) : kWarmThreads);
  const auto bytes = static_cast<double>(progress.bytes());
  std::printf("warm: %zu reads, %.3f GB in %.2f s, %.3f GB/s\n", blocks.size(), 1e-9 * bytes, progress.seconds(),
              1e-9 * bytes / progress.seconds());
  if (failed == 0) return;
  throw DataError(std::to_string(failed) + " reads failed; the first is named above", "dtrain_data verify lists them");
}

}  // namespace dtrain::data
