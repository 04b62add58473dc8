// dtrain_data pack: turns many small files into few large ones, which every file system reads fast. Each shard is a
// fixed part of the split's records, whatever the number of threads and machines, so that the parts of several machines
// fit together and a second call makes the missing shards.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/crc32c.h"
#include "data/formats/in_parallel.h"
#include "data/formats/labels.h"
#include "data/formats/open_source.h"
#include "data/formats/packed_records.h"
#include "data/pipeline/quarantine.h"
#include "data/prepare/commands.h"
#include "data/prepare/packed_image.h"
#include "data/progress.h"
#include "data/sha256.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/written_file.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRecordsPerShard = 2048;
constexpr int kDefaultQuality = 95;

int QualityOf(const PrepareOptions& options) {
  return options.quality > 0 ? static_cast<int>(options.quality) : kDefaultQuality;
}

int64_t ShardCount(const PrepareOptions& options, int64_t records) {
  const int64_t wanted = options.shards > 0 ? options.shards : (records + kRecordsPerShard - 1) / kRecordsPerShard;
  return std::clamp<int64_t>(wanted, 1, std::min<int64_t>(records, 99'999));
}

std::string JoinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Returns everything that determines the output's bytes. It is written beside the output, so that shards of different
// calls are never mixed.
nlohmann::ordered_json Recipe(const PrepareOptions& options, const std::vector<OpenSplit>& splits) {
  nlohmann::ordered_json recipe = {{"format", options.output_format},
                                   {"first_label", FindRecordFormat(options.output_format)->first_label()},
                                   {"short_side", options.short_side}};
  const bool has_pixels = splits.front().source->kind() == RecordKind::kPixels;
  const bool encodes = options.short_side > 0 || (has_pixels && options.quality > 0);
  recipe["quality"] = encodes ? QualityOf(options) : 0;  // what is not set is said, too: the next call compares it
  recipe["seek_points"] = options.seek_points;
  recipe["labels"] = FactsOf(options.labels).name;
  for (const OpenSplit& split : splits) {
    auto& entry = recipe["splits"][split.name];
    entry = {{"records", split.source->size()},
             {"shards", ShardCount(options, split.source->size())},
             {"fingerprint", split.source->fingerprint()}};
    if (const auto offset = split.source->label_offset()) entry["label_offset"] = *offset;
    const auto& names = split.source->class_names();
    if (!names.empty()) entry["classes"] = Sha256Of(JoinLines(names));
  }
  return recipe;
}

// Machines that pack other parts write the same file.
void WriteTextFile(const std::string& path, const std::string& text) { PublishFile(path, text, OwnEnding(".partial")); }

// Splits may be packed by separate calls, whose recipes must agree on what both contain.
void TakeOutputFolder(const std::string& folder, nlohmann::ordered_json recipe) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ExitCode::kStorage, "cannot make the folder " + folder + ": " + error.message(),
                "choose another --output");
  }
  const std::string path = folder + "/" + kPackRecipe;
  if (const std::string text = TextBeside(path); !text.empty()) {
    const auto there = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    nlohmann::ordered_json merged = there;
    merged.merge_patch(recipe);
    nlohmann::ordered_json back = merged;
    back.merge_patch(there);
    if (back != merged) {
      throw Error(ExitCode::kUsage, folder + " holds a pack of other data or with other settings (" + path + ")",
                  "give another --output, or the same command as before to go on with it");
    }
    recipe = std::move(merged);
  }
  WriteTextFile(path, recipe.dump(2) + "\n");
}

// Notes how many records all shards of a split have, or, with null, that this is not known yet.
void NotePacked(const std::string& folder, const std::string& split, const nlohmann::ordered_json& records) {
  const std::string path = folder + "/" + kPackRecipe;
  const auto there = nlohmann::ordered_json::parse(TextBeside(path), nullptr, /*allow_exceptions=*/false);
  nlohmann::ordered_json noted = there;
  noted.merge_patch({{"splits", {{split, {{kPackedRecords, records}}}}}});
  if (noted != there) WriteTextFile(path, noted.dump(2) + "\n");
}

// Writes one shard under a temporary name, reads it back, and only then gives it its own name. So a shard that exists
// is complete.
class ShardWriter {
 public:
  // `path` is the shard's final name. All methods throw Error (exit code 5) if they cannot write.
  ShardWriter(const RecordFormat& format, const std::string& path) : format_(format), path_(path), file_(path) {}

  void Add(const PackedImage& image) {
    const std::string record = format_.Frame(image);
    places_.push_back({image.index, file_.bytes()});
    checksums_.push_back(Crc32c(record.data(), record.size()));
    file_.Append(record);
  }

  // Ends the shard, reads each record back and compares it, and renames the file. Also throws DataError if there is no
  // record, or if those that it reads back cannot be parsed.
  void Finish() {
    if (places_.empty()) {
      throw DataError("all records for " + path_ + " are bad, and an empty shard could not be told from a lost one",
                      "repair their files, or give fewer --shards; either way into another --output");
    }
    file_.Append(format_.FileEnd());
    file_.Sync();
    ReadBack();
    const std::string index = format_.IndexBeside(path_);
    if (!index.empty()) PublishFile(index, format_.MakeIndex(places_));
    file_.Publish();
  }

 private:
  void ReadBack() const {
    const RandomAccessFile file(file_.partial_path());
    for (size_t i = 0; i < places_.size(); ++i) {
      const uint64_t offset = places_[i].offset;
      const auto record = format_.Scan(file, offset);
      if (record && record->begin == offset) {
        std::vector<uint8_t> bytes = file.ReadBytes(offset, record->end - offset);
        const bool same = Crc32c(bytes.data(), bytes.size()) == checksums_[i];
        if (same && !format_.Image(std::move(bytes)).empty()) continue;  // makes all checks of the format, too
      }
      throw Error(ExitCode::kStorage,
                  "cannot write " + path_ + ": what is read back at byte " + std::to_string(offset) +
                      " is not what was written",
                  "choose another --output, then run the same command again");
    }
  }

  const RecordFormat& format_;
  const std::string path_;
  PartialFile file_;
  std::vector<PlacedRecord> places_;
  std::vector<uint32_t> checksums_;  // likewise: CRC-32C of the record
};

class SplitPacker {
 public:
  SplitPacker(const PrepareOptions& options, const OpenSplit& split)
      : options_(options),
        split_(split),
        format_(*FindRecordFormat(options.output_format)),
        has_pixels_(split.source->kind() == RecordKind::kPixels),
        shards_(ShardCount(options, split.source->size())),
        quarantine_(split.source->size(), {.split = split.name,
                                           .max_bad_records = options.max_bad_records,
                                           .strict = options.strict_data,
                                           .path = options.output + "/" + QuarantineName(options),
                                           .on_bad_record = [](const BadRecord& bad) {
                                             std::fprintf(stderr, "bad record %s left out: %s\n",
                                                          Shown(ToText(bad.place)).c_str(), Shown(bad.reason).c_str());
                                           }}) {
    for (int64_t shard = options.part - 1; shard < shards_; shard += options.parts) {
      if (Exists(PathOf(shard))) continue;
      missing_.push_back(shard);
      records_ += BeginOf(shard + 1) - BeginOf(shard);
    }
    for (const int64_t index : LeftOutBefore()) quarantine_.Recall(index);
  }

  // Of a complete split: also counts what machines have left out that packed other parts meanwhile. Throws DataError if
  // all together are more than allowed.
  void CountAllParts() {
    for (const int64_t index : LeftOutBefore()) quarantine_.Recall(index);
    if (quarantine_.count() <= quarantine_.budget()) return;
    throw DataError(split_.name + ": all parts together have left out " + CountOf(quarantine_.count(), "bad record") +
                        " of " + std::to_string(split_.source->size()) + ", and the budget is " +
                        std::to_string(quarantine_.budget()),
                    "repair the files and pack into another --output, or raise --max_bad_records");
  }

  void Run() {
    Progress progress("pack " + split_.name, "records", records_);
    InParallel(
        missing_.size(), [&](size_t i) { WriteShard(missing_[i], progress); }, 1, Threads(options_));
  }

  int64_t shards() const { return shards_; }
  int64_t written() const { return static_cast<int64_t>(missing_.size()); }
  int64_t left_out() const { return quarantine_.count(); }
  int64_t missing() const {  // shards of all parts that do not exist yet
    int64_t count = 0;
    for (int64_t shard = 0; shard < shards_; ++shard) count += Exists(PathOf(shard)) ? 0 : 1;
    return count;
  }

 private:
  // Several machines must not append to the same file of a network file system.
  static std::string QuarantineName(const PrepareOptions& options) {
    if (options.parts == 1) return "quarantine.jsonl";
    return "quarantine.part" + std::to_string(options.part) + "of" + std::to_string(options.parts) + ".jsonl";
  }

  std::string PathOf(int64_t shard) const {
    return options_.output + "/" + format_.FileName(split_.name, shard, shards_);
  }
  int64_t BeginOf(int64_t shard) const { return shard * split_.source->size() / shards_; }
  int64_t ShardOf(int64_t index) const { return ((index + 1) * shards_ - 1) / split_.source->size(); }

  // Returns the records that earlier calls, also for other parts, have left out of the shards that exist.
  std::vector<int64_t> LeftOutBefore() const {
    std::vector<int64_t> indices;
    for (const std::string& name : ContentOf(options_.output).files) {
      if (name != "quarantine.jsonl" && !name.starts_with("quarantine.part")) continue;
      for (const BadRecord& bad : ReadBadRecords(options_.output + "/" + name)) {
        const bool is_of_source = bad.split == split_.name && bad.index < split_.source->size() &&
                                  !LiesIn(options_.output, bad.place.file);  // verify's, of the pack
        if (is_of_source && Exists(PathOf(ShardOf(bad.index)))) indices.push_back(bad.index);
      }
    }
    return indices;
  }

  void WriteShard(int64_t shard, Progress& progress) {
    ShardWriter writer(format_, PathOf(shard));
    for (int64_t index = BeginOf(shard); index < BeginOf(shard + 1); ++index) {
      const std::vector<uint8_t> image = ReadImage(index);
      if (!image.empty()) writer.Add(Describe(index, image));
      progress.Add(1, static_cast<int64_t>(image.size()));
    }
    writer.Finish();
  }

  // Returns an empty vector if the record is bad.
  std::vector<uint8_t> ReadImage(int64_t index) {
    std::vector<uint8_t> image;
    try {
      image = split_.source->Read(index);
      if (image.empty()) throw DataError("the file is empty");
      if (has_pixels_) image = EncodePixels(image, split_.source->rows(), static_cast<int>(options_.quality));
      if (options_.short_side > 0) {
        image = ShrinkImage(std::move(image), static_cast<int>(options_.short_side), QualityOf(options_));
      }
      if (options_.seek_points) image = MakeSeekable(std::move(image));
    } catch (const DataError& error) {
      quarantine_.Add(index, split_.source->Place(index), error.what());
      image.clear();
    }
    return image;
  }

  PackedImage Describe(int64_t index, std::span<const uint8_t> image) const {
    const int64_t label = split_.source->Label(index);
    const auto& names = split_.source->class_names();
    const bool is_named = label >= 0 && label < static_cast<int64_t>(names.size());
    const RecordPlace place = split_.source->Place(index);
    return {image,
            label,
            index,
            is_named ? names[static_cast<size_t>(label)] : "",
            place.offset ? "" : fs::path(place.file).filename().string(),
            options_.labels,
            ValuesOf(index)};
  }

  // PackedImage::values.
  std::vector<float> ValuesOf(int64_t index) const {
    std::vector<float> targets(static_cast<size_t>(split_.source->num_targets()));
    if (targets.empty()) return targets;
    split_.source->Targets(index, targets);
    if (options_.labels != LabelKind::kSeveral) return targets;
    std::vector<float> classes;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] > 0) classes.push_back(static_cast<float>(i));
    }
    return classes;
  }

  const PrepareOptions& options_;
  const OpenSplit& split_;
  const RecordFormat& format_;
  const bool has_pixels_;
  const int64_t shards_;
  Quarantine quarantine_;
  std::vector<int64_t> missing_;  // shards of this part that do not exist yet
  int64_t records_ = 0;           // number of records in missing_
};

// The class names, shared by all splits of the output. A split that was packed earlier has written them.
Classes ClassesOf(const std::string& output) {
  return WithNames({}, ReadClassNames(output), output + "/" + kClassFile);
}

void KeepClassNames(const std::string& output, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const std::vector<std::string> there = ReadClassNames(output);
  if (there == names) return;
  const std::string path = output + "/" + kClassFile;
  if (there.empty()) return WriteTextFile(path, JoinLines(names));
  throw Error(ExitCode::kUsage,
              path + " names " + std::to_string(there.size()) + " classes, which differ from the " +
                  std::to_string(names.size()) +
                  " of this data: a label would mean different classes in the two splits",
              "pack the training split first or together with the others, or give another --output");
}

// Makes the index of a complete split. Returns its number of records.
int64_t IndexPacked(const PrepareOptions& options, const OpenSplit& split) {
  Classes classes = split.source->classes();
  classes.label_offset = FindRecordFormat(options.output_format)->first_label();
  return OpenSource({.data_dir = options.output,
                     .format = options.output_format,
                     .labels = options.labels,
                     .classes = std::move(classes),
                     .rebuild_index = true},
                    split.name)
      ->size();
}

}  // namespace

std::vector<Output> PackOutputs(const PrepareOptions& options) {
  // An earlier call has filled the folder, or another machine is beginning to.
  const auto holds_pack = [](const std::string& folder) {
    const std::vector<std::string> files = ContentOf(folder).files;  // first: the other machine may rename it meanwhile
    const std::string text = TextBeside(folder + "/" + kPackRecipe);
    const nlohmann::json recipe = ParseObject(text);
    if (!text.empty()) return recipe.contains("format") && recipe.contains("splits");
    return std::ranges::any_of(
        files, [](const std::string& name) { return name.starts_with(std::string(kPackRecipe) + ".partial."); });
  };
  return {{.flag = "--output", .path = options.output, .in_folder = true, .is_own_folder = holds_pack}};
}

// Throws DataError if more records are bad than allowed.
void Pack(const PrepareOptions& options) {
  if (!FindRecordFormat(options.output_format)->Holds(options.labels)) {
    throw Error(ExitCode::kUsage, "--output_format=" + options.output_format + " has one class for each image",
                "pack several labels or numbers into tfrecord or webdataset");
  }
  const std::vector<OpenSplit> splits = OpenSplits(options, false, ClassesOf(options.output));
  for (const OpenSplit& split : splits) {
    if (split.source->kind() == RecordKind::kPixels) RequirePixels(split.source->rows());
    if (split.source->kind() == RecordKind::kTokens) {
      throw Error(ExitCode::kUsage, "pack packs images; " + options.data_dir + " holds tokens",
                  "token files need no packing");
    }
  }
  TakeOutputFolder(options.output, Recipe(options, splits));
  KeepClassNames(options.output, splits.front().source->class_names());
  for (const OpenSplit& split : splits) {
    SplitPacker packer(options, split);
    if (packer.written() > 0) NotePacked(options.output, split.name, nullptr);
    packer.Run();
    if (packer.missing() == 0) packer.CountAllParts();
    std::printf("%s: %lld records, %lld left out, %lld of %lld shards written now", Shown(split.name).c_str(),
                static_cast<long long>(split.source->size()), static_cast<long long>(packer.left_out()),
                static_cast<long long>(packer.written()), static_cast<long long>(packer.shards()));
    const int64_t missing = packer.missing();
    if (missing == 0) {
      NotePacked(options.output, split.name, IndexPacked(options, split));
      std::printf(", indexed\n");
    } else {
      std::printf("; %lld are for other parts, the last of which makes the index\n", static_cast<long long>(missing));
    }
  }
}

}  // namespace dtrain::data
