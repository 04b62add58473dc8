// The commands that look at every record: dtrain_data inspect prints the content of a data set in a form that is the
// same for all formats; dtrain_data verify reads and decodes it, so that bad records are found before a run reads them.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/open_source.h"
#include "data/formats/tensor_file.h"
#include "data/formats/token_dataset.h"
#include "data/image/codecs.h"
#include "data/joined.h"
#include "data/pipeline/quarantine.h"
#include "data/prepare/commands.h"
#include "data/progress.h"
#include "data/sha256.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/text_split.h"
#include "data/written_file.h"

namespace dtrain::data {
namespace {

constexpr int64_t kRecordsAtOnce = 512;  // lines are made in parallel, then printed in order

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

void AddImage(const std::vector<uint8_t>& bytes, Json& line) {
  const cv::Mat image = DecodeImage(bytes);
  const cv::Scalar mean = cv::mean(image);
  line["width"] = image.cols;
  line["height"] = image.rows;
  line["mean_rgb"] = {mean[0], mean[1], mean[2]};
}

// Hashes the tokens of a line as int64, so that the result does not depend on their stored type.
void AddTokens(const TokenDataset& tokens, const std::vector<uint8_t>& bytes, Json& line) {
  const std::vector<int64_t> ids = WideTokens(tokens.type(), bytes);
  line["length"] = ids.size();
  line["sha256"] = Sha256Of({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int64_t)});
}

std::string Line(const OpenSplit& split, bool with_split, int64_t index, bool decode) {
  const int64_t label = split.source->Label(index);
  const auto& names = split.source->class_names();
  Json line;
  if (with_split) line["split"] = split.name;
  line["index"] = index;
  if (const auto* tokens = dynamic_cast<const TokenDataset*>(split.source.get())) {
    AddTokens(*tokens, tokens->Read(index), line);
    return JsonText(line);
  }
  std::vector<float> targets(static_cast<size_t>(split.source->num_targets()));
  if (targets.empty()) {
    line["label"] = label >= 0 ? Json(label) : Json();
    line["class"] =
        label >= 0 && label < static_cast<int64_t>(names.size()) ? Json(names[static_cast<size_t>(label)]) : Json();
  }
  try {
    if (!targets.empty()) {
      split.source->Targets(index, targets);
      line["targets"] = targets;
    }
    const std::vector<uint8_t> bytes = split.source->Read(index);
    line["bytes"] = bytes.size();
    line["sha256"] = Sha256Of(AsText(bytes));
    if (decode) AddImage(bytes, line);
  } catch (const DataError& error) {
    line["error"] = error.what();
  }
  return JsonText(line);
}

// ---- verify ----

// Throws DataError if the bytes of a record are bad.
using Check = std::function<void(const std::vector<uint8_t>& record)>;

// Returns a check that all tokens are in the folder's dictionary, or known to its tokenizer.
Check TokenCheck(const TokenDataset& tokens, const std::string& data_dir) {
  const int64_t size = StoredVocabulary(data_dir);
  return [size, type = tokens.type()](const std::vector<uint8_t>& record) {
    for (const int64_t id : WideTokens(type, record)) {
      if (id >= 0 && id < size) continue;
      throw DataError("token " + std::to_string(id) + ", but the vocabulary ends at " + std::to_string(size - 1));
    }
  };
}

// Returns the training's own check of rows of tokens, which decodes them.
Check RowCheck(const TokenTensorFile& rows, const std::string& data_dir, const std::string& split) {
  const int64_t tokens = rows.layout().tokens;
  std::shared_ptr<const SampleDecoder> decoder =
      OpenText({.data_dir = data_dir, .format = kTensorFormat, .tokens_per_sample = tokens}, split).decoder;
  return [decoder, row_bytes = static_cast<size_t>(tokens) * sizeof(int64_t)](const std::vector<uint8_t>& record) {
    std::vector<std::byte> room(3 * row_bytes);  // for ids, labels and mask
    const std::span<std::byte> all(room);
    decoder->Decode(record, {},
                    std::array{all.first(row_bytes), all.subspan(row_bytes, row_bytes), all.last(row_bytes)});
  };
}

Check CheckOf(const OpenSplit& split, const std::string& data_dir) {
  const RecordSource& source = *split.source;
  if (const auto* tokens = dynamic_cast<const TokenDataset*>(&source)) return TokenCheck(*tokens, data_dir);
  const auto* rows = dynamic_cast<const TokenTensorFile*>(&source);
  if (rows != nullptr && HasDictionary(data_dir)) return RowCheck(*rows, data_dir, split.name);
  if (source.kind() == RecordKind::kEncodedImage) return [](const auto& record) { DecodeImage(record); };
  return [](const auto& /*record*/) {};  // rows of numbers need no decoding
}

// Returns the bad records, which it appends to the file `list`, unless that is empty, and prints.
std::vector<BadRecord> VerifySplit(const OpenSplit& split, const Check& check_record, size_t threads,
                                   const std::string& list) {
  const RecordSource& source = *split.source;
  std::vector<BadRecord> bad;
  const auto note = [&bad](const BadRecord& record) { bad.push_back(record); };
  Quarantine quarantine(source.size(),
                        {.split = split.name, .max_bad_records = 1, .path = list, .on_bad_record = note});
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
  std::ranges::sort(bad, {}, &BadRecord::index);
  for (const BadRecord& record : bad) {
    std::printf("%s: %s\n", Shown(ToText(record.place)).c_str(), Shown(record.reason).c_str());
  }
  return bad;
}

// Returns the list of bad records. Empty for folders of images, unless a folder was named for it, since nothing is to
// be left among people's photos, and where nothing can be written. The list of what packing has left out stays.
std::string QuarantineList(const PrepareOptions& options) {
  const std::string& named = options.output.empty() ? options.index_dir : options.output;
  const auto are_files = [&] { return !options.table.path.empty() || HoldsFiles(FormatOf(options)); };
  if (named.empty() && (!IsWritable(options.data_dir) || are_files())) return "";
  const std::string& folder = named.empty() ? options.data_dir : named;
  const std::string list = folder + "/quarantine.jsonl";
  const auto was_left_out = [&](const BadRecord& bad) { return !LiesIn(folder, bad.place.file); };
  const bool is_of_packing =
      Exists(folder + "/" + kPackRecipe) && std::ranges::any_of(ReadBadRecords(list), was_left_out);
  return is_of_packing ? folder + "/quarantine.verify.jsonl" : list;
}

// Empties the list of bad records and returns its path; empty without one.
std::string PrepareList(const PrepareOptions& options) {
  std::string list = QuarantineList(options);
  if (list.empty()) return list;
  std::error_code ignored;
  fs::create_directories(fs::path(list).parent_path(), ignored);
  const int descriptor = CreateAnew(list);  // the list holds the bad records of this pass alone
  if (descriptor < 0)
    throw Error(ExitCode::kStorage, "cannot write " + list, "choose another folder with --output=DIR");
  close(descriptor);
  return list;
}

// Moves a file, also onto another disk. Throws Error (exit code 5); never replaces a file.
void Move(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (!error && fs::exists(fs::symlink_status(to, error))) error = std::make_error_code(std::errc::file_exists);
  if (!error || error == std::errc::no_such_file_or_directory) fs::rename(from, to, error);
  if (error == std::errc::cross_device_link) {
    error.clear();
    std::error_code ignored;
    if (fs::copy_file(from, to, error)) {
      fs::remove(from, error);
    } else if (error != std::errc::file_exists && fs::exists(from, ignored)) {
      fs::remove(to, ignored);  // the unfinished copy would be in the way of the next call
    }
  }
  if (!error) return;
  const std::string hint = HintOnWriting(error.value());
  throw Error(ExitCode::kStorage, "cannot move " + from.string() + " to " + to.string() + ": " + error.message(),
              hint.empty() ? "name another folder with --move_bad_to" : hint);
}

void MoveBad(const std::vector<BadRecord>& bad, const PrepareOptions& options) {
  for (const BadRecord& record : bad) {
    const fs::path file = record.place.file;
    if (!Exists(file)) continue;  // moved already: links had it listed twice
    const fs::path whole = file.lexically_normal();
    const fs::path below = whole.lexically_relative(fs::path(options.data_dir).lexically_normal());
    const bool is_outside = below.empty() || *below.begin() == "..";  // a --split may lie elsewhere
    const fs::path to =
        options.move_bad_to / (is_outside ? fs::absolute(whole).lexically_normal().relative_path() : below);
    Move(file, to);
    std::printf("moved %s to %s\n", Shown(file.string()).c_str(), Shown(to.string()).c_str());
  }
}

}  // namespace

void Inspect(const PrepareOptions& options) {
  const std::vector<OpenSplit> splits = OpenSplits(options, false);
  if (options.decode && splits.front().source->kind() != RecordKind::kEncodedImage) {
    throw Error(ExitCode::kUsage, "--decode: records of the format " + FormatOf(options) + " are not encoded images",
                "leave --decode out");
  }
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

std::vector<Output> VerifyOutputs(const PrepareOptions& options) {
  const std::string list = QuarantineList(options);
  if (list.empty()) return {};
  return {{.flag = "--output", .path = FolderOf(list), .marks = {kQuarantineMark}, .files = {list}, .in_folder = true}};
}

// Throws DataError if a record is bad.
void Verify(const PrepareOptions& options) {
  const bool are_files = HoldsFiles(FormatOf(options));
  const std::vector<OpenSplit> splits = OpenSplits(options, false);
  const std::string list = PrepareList(options);
  if (!options.move_bad_to.empty() && !(are_files && IsWritable(options.data_dir))) {
    throw Error(ExitCode::kUsage,
                "--move_bad_to moves image files, but " + options.data_dir + " has records in files, or is only read",
                "leave it out: training leaves bad records out by itself");
  }
  int64_t bad = 0;
  for (const OpenSplit& split : splits) {
    const auto found = VerifySplit(split, CheckOf(split, options.data_dir), Threads(options), list);
    std::printf("%s: %lld records, %zu bad\n", Shown(split.name).c_str(), static_cast<long long>(split.source->size()),
                found.size());
    if (!options.move_bad_to.empty()) {
      MoveBad(found, options);
    } else {
      bad += static_cast<int64_t>(found.size());
    }
  }
  std::fflush(stdout);
  if (bad == 0) return;
  throw DataError(CountOf(bad, "bad record") + ", listed " + (list.empty() ? "above" : "in " + list),
                  std::string("repair or replace the files named there") +
                      (are_files ? ", or move them away with --move_bad_to=DIR" : "") +
                      "; training leaves out as many as --max_bad_records allows");
}

}  // namespace dtrain::data
