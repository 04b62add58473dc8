// The commands that look at every record: dtrain_data inspect prints the content of a data set in a form that is the
// same for all formats; dtrain_data verify reads and decodes it, so that bad records are found before a run reads them.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/careful_open.h"
#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/token_dataset.h"
#include "data/image/codecs.h"
#include "data/pipeline/quarantine.h"
#include "data/prepare/commands.h"
#include "data/progress.h"
#include "data/sha256.h"
#include "data/shown.h"
#include "data/text/dictionary.h"

namespace dtrain::data {
namespace {

constexpr int64_t kRecordsAtOnce = 512;  // lines are made in parallel, then printed in order

using Json = nlohmann::ordered_json;

void AddImage(const std::vector<uint8_t>& bytes, Json& line) {
  const cv::Mat image = DecodeImage(bytes);
  const cv::Scalar mean = cv::mean(image);
  line["width"] = image.cols;
  line["height"] = image.rows;
  line["mean_rgb"] = {mean[0], mean[1], mean[2]};
}

// Hashes the tokens of a line as int64, so that the result does not depend on their stored type.
void AddTokens(const TokenDataset& tokens, const std::vector<uint8_t>& bytes, Json& line) {
  std::vector<int64_t> ids(bytes.size() / static_cast<size_t>(TokenBytes(tokens.type())));
  WidenTokens(tokens.type(), bytes, ids.data());
  line["length"] = ids.size();
  line["sha256"] = Sha256Of({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int64_t)});
}

std::string Dump(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string Line(const OpenSplit& split, bool with_split, int64_t index, bool decode) {
  const int64_t label = split.source->Label(index);
  const auto& names = split.source->class_names();
  Json line;
  if (with_split) line["split"] = split.name;
  line["index"] = index;
  if (const auto* tokens = dynamic_cast<const TokenDataset*>(split.source.get())) {
    AddTokens(*tokens, tokens->Read(index), line);
    return Dump(line);
  }
  line["label"] = label >= 0 ? Json(label) : Json();
  line["class"] =
      label >= 0 && label < static_cast<int64_t>(names.size()) ? Json(names[static_cast<size_t>(label)]) : Json();
  try {
    const std::vector<uint8_t> bytes = split.source->Read(index);
    line["bytes"] = bytes.size();
    line["sha256"] = Sha256Of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (decode) AddImage(bytes, line);
  } catch (const DataError& error) {
    line["error"] = error.what();
  }
  return Dump(line);
}

// ---- verify ----

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

}  // namespace

void Inspect(const PrepareOptions& options) {
  const std::string format = FormatOf(options);
  if (options.decode && (format == "safetensors" || format == "tokens")) {
    throw Error(ExitCode::kUsage, "--decode: records of the format " + format + " are not encoded images",
                "leave --decode out");
  }
  const std::vector<OpenSplit> splits = OpenSplits(options, false);
  for (const OpenSplit& split : splits) {
    int64_t count = split.source->size();
    if (options.limit > 0) count = std::min(count, options.limit);
    for (int64_t begin = 0; begin < count; begin += kRecordsAtOnce) {
      std::vector<std::string> lines(static_cast<size_t>(std::min(kRecordsAtOnce, count - begin)));
      const auto make = [&](size_t i) {
        lines[i] = Line(split, splits.size() > 1, begin + static_cast<int64_t>(i), options.decode);
      };
      InParallel(lines.size(), make, 1, Threads(options));
      for (const std::string& line : lines) std::printf("%s\n", line.c_str());
    }
  }
}

void Verify(const PrepareOptions& options) {
  const std::vector<OpenSplit> splits = OpenSplits(options, false);
  std::error_code ignored;
  const std::string list = QuarantineList(options);
  std::filesystem::create_directories(std::filesystem::path(list).parent_path(), ignored);
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
