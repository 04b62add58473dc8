// dtrain_data verify: reads and decodes every record, so that bad ones are found before a run reads them.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/careful_open.h"
#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/token_dataset.h"
#include "data/image/decode.h"
#include "data/outputs.h"
#include "data/pipeline/quarantine.h"
#include "data/prepare/commands.h"
#include "data/prepare/splits.h"
#include "data/progress.h"
#include "data/shown.h"
#include "data/text/dictionary.h"

namespace dtrain::data {
namespace {

// Throws DataError if the bytes of a record are bad.
using Check = std::function<void(const std::vector<uint8_t>& record)>;

// Returns a check that all tokens are in the folder's dictionary.
Check TokenCheck(const TokenDataset& tokens, const std::string& data_dir) {
  const int64_t size = Dictionary::Load(data_dir + "/dict.txt").size();
  return [size, type = tokens.type()](const std::vector<uint8_t>& record) {
    std::vector<int64_t> ids(record.size() / static_cast<size_t>(TokenBytes(type)));
    WidenTokens(type, record, ids.data());
    for (const int64_t id : ids) {
      if (id >= 0 && id < size) continue;
      throw DataError("token " + std::to_string(id) + ", but the dictionary ends at " + std::to_string(size - 1));
    }
  };
}

Check CheckOf(const RecordSource& source, const std::string& data_dir) {
  if (const auto* tokens = dynamic_cast<const TokenDataset*>(&source)) return TokenCheck(*tokens, data_dir);
  if (source.kind() == RecordKind::kEncodedImage) return [](const auto& record) { DecodeImage(record); };
  return [](const auto& /*record*/) {};  // rows of numbers need no decoding
}

// Returns the number of bad records, which it appends to `list`.
int64_t VerifySplit(const OpenSplit& split, const Check& check_record, size_t threads, const std::string& list) {
  const RecordSource& source = *split.source;
  Quarantine quarantine(source.size(), {.split = split.name, .max_bad_records = 1, .path = list});
  Progress progress("verify " + split.name, "records", source.size());
  const auto check = [&](size_t i) {
    const auto index = static_cast<int64_t>(i);
    size_t bytes = 0;
    try {
      const std::vector<uint8_t> record = source.Read(index);
      bytes = record.size();
      check_record(record);
    } catch (const DataError& error) {
      quarantine.Add(index, source.Place(index), error.what());
    }
    progress.Add(1, static_cast<int64_t>(bytes));
  };
  InParallel(static_cast<size_t>(source.size()), check, 1, threads);
  return quarantine.count();
}

// Returns the files that hold the records, but not single images: these are named as images, and the list is not.
std::vector<std::string> RecordFilesOf(const std::vector<OpenSplit>& splits, const PrepareOptions& options) {
  std::vector<std::string> files = {options.data_dir};
  if (FormatOf(options) == "imagefolder") return files;
  for (const OpenSplit& split : splits) {
    for (int64_t i = 0; i < split.source->size(); ++i) {
      std::string file = split.source->Place(i).file;
      if (file != files.back()) files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace

void Verify(const PrepareOptions& options) {
  const std::string folder = !options.output.empty()      ? options.output
                             : !options.index_dir.empty() ? options.index_dir
                                                          : options.data_dir;
  const std::vector<OpenSplit> splits = OpenSplits(options, false);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string list = folder + "/quarantine.jsonl";
  RequireOtherFile(list, RecordFilesOf(splits, options));
  const int descriptor = CreateAnew(list);  // the list holds the bad records of this pass alone
  if (descriptor < 0)
    throw Error(ExitCode::kStorage, "cannot write " + list, "choose another folder with --output=DIR");
  close(descriptor);

  int64_t bad = 0;
  for (const OpenSplit& split : splits) {
    const int64_t count = VerifySplit(split, CheckOf(*split.source, options.data_dir), Threads(options), list);
    std::printf("%s: %lld records, %lld bad\n", Shown(split.name).c_str(), static_cast<long long>(split.source->size()),
                static_cast<long long>(count));
    bad += count;
  }
  std::fflush(stdout);
  if (bad == 0) return;
  throw DataError(std::to_string(bad) + (bad == 1 ? " bad record" : " bad records") + ", listed in " + list,
                  "repair or replace the files named there; training leaves out as many as --max_bad_records allows");
}

}  // namespace dtrain::data
