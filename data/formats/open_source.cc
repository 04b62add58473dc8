#include "data/formats/open_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/image_folder.h"
#include "data/formats/labels.h"
#include "data/formats/packed_records.h"
#include "data/formats/record_format.h"
#include "data/formats/sentence_files.h"
#include "data/formats/tensor_file.h"
#include "data/formats/token_dataset.h"
#include "data/joined.h"
#include "data/shallow_json.h"
#include "data/storage.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

// Distinguishes a folder of images, which holds class folders, from a folder of shards, which holds none.
bool HasClassFolders(const std::string& split_dir) { return !ContentOf(split_dir).folders.empty(); }

// Whether a split holds sentences. They are looked for last: beside data of another format, which has been `found`, a
// table may be its list of labels, and any folder of folders looks like images. Throws DataError if a table lies beside
// images in folders of classes.
bool AreSentences(const std::string& data_dir, const std::string& split, const std::string& found) {
  if (found.empty()) return FindSentenceFiles(data_dir, split).has_value();
  if (found != kImageFolder) return false;
  const std::string split_dir = *FindSplit(data_dir, split);
  if (HasTextFolders(split_dir)) return true;
  if (HasImages(split_dir)) return false;  // opening them says what to do about a table of their labels
  const auto table = FindSentenceFiles(data_dir, split);
  if (!table || !HasClassFolders(split_dir)) return table.has_value();
  throw DataError(
      data_dir + " holds the split '" + split + "' as imagefolder and as sentences: " + table->path,
      "say which one: --data_format=imagefolder for the images, whose classes are their folders, --labels=" +
          table->path + " if the table has labels of images, or --data_format=sentences for its texts");
}

// Whether the files (or folders) that an index from another process was made from exist here with the same sizes.
bool FitsFilesIn(const std::string& folder, const RecordIndex& index) {
  std::vector<std::string> names;
  for (const IndexedFile& file : index.files) names.push_back(file.name);
  const std::vector<IndexedFile> here = StatFiles(folder, names);
  return std::equal(here.begin(), here.end(), index.files.begin(), [](const IndexedFile& a, const IndexedFile& b) {
    const bool need_not_be = b.bytes == 0 && b.modified_ns == 0;  // classes.txt, which did not exist there, either
    return a.bytes == b.bytes || (a.bytes < 0 && need_not_be);
  });
}

// Returns the index of a split, whose name is `name` on disk, from SourceOptions::indexes; else calls `make` and adds
// the index to them if it could not be kept.
template <typename Make>
RecordIndex SentOrMade(const SourceOptions& options, const std::string& split, const std::string& name,
                       const std::string& folder, const Make& make) {
  const std::string format = IndexFormat(options.format, options.labels);
  if (options.indexes != nullptr && options.indexes->contains(split)) {
    auto sent = ParseIndex(options.indexes->at(split));
    if (sent && sent->format == format && FitsFilesIn(folder, *sent)) return std::move(*sent);
  }
  bool is_kept = true;
  const auto not_kept = [&](const std::string& problem) {
    const std::string remedy = options.index_dir.empty() ? "give --index_dir=DIR" : "name another --index_dir";
    if (options.rebuild_index) throw Error(ExitCode::kStorage, problem, "free some space there, or " + remedy);
    is_kept = false;
    if (options.note) options.note(problem + "; " + remedy + ", or every start builds the index again");
  };
  RecordIndex index = make(KeptIndex{.path = IndexPath(options.data_dir, options.index_dir, name, format),
                                     .rebuild = options.rebuild_index,
                                     .keep = options.keep_index,
                                     .not_kept = not_kept});
  if (!is_kept && options.indexes != nullptr) (*options.indexes)[split] = SerializeIndex(index);
  return index;
}

std::unique_ptr<RecordSource> OpenImageFolder(const SourceOptions& options, const std::string& split) {
  const std::string split_dir = RequireSplit(options.data_dir, split);
  const std::string name = split_dir == options.data_dir ? "." : split_dir.substr(options.data_dir.size() + 1);
  RecordIndex index = SentOrMade(options, split, name, split_dir,
                                 [&](const KeptIndex& kept) { return IndexImageFolder(split_dir, kept); });
  return std::make_unique<ImageFolder>(split_dir, std::move(index), options.classes);
}

std::unique_ptr<RecordSource> OpenTensors(const SourceOptions& options, const std::string& split) {
  const std::string path = RequireTensorFile(options.data_dir, split);
  const auto has_its_ending = [&path](const RecordFormat* format) {
    return std::ranges::any_of(format->extensions(), [&path](const auto& ending) { return path.ends_with(ending); });
  };
  if (std::ranges::any_of(RecordFormats(), has_its_ending)) {
    throw DataError(path + " is a file of records, and --data_dir names their folder",
                    "name the beginning of the files with --train_split, for dtrain_data with --split");
  }
  if (HoldsTokenRows(path)) return std::make_unique<TokenTensorFile>(path);
  return std::make_unique<TensorFile>(path, options.label_offset, options.classes);
}

// What a pack says of a split, or of those of its shards whose numbers begin as RecordFiles::split says (train-0000).
struct PackedSplit {
  std::optional<int64_t> first_label;  // of the first class; empty if it is no pack of this format with this split
  uint64_t records = 0;                // in all shards; 0 if that is not known, or not all are chosen
};

// Throws DataError if the pack has labels of another kind, or lacks shards of a whole split.
PackedSplit ReadPack(const std::string& data_dir, const std::string& format, const RecordFiles& files, LabelKind kind) {
  const nlohmann::json recipe = ParseObject(TextBeside(data_dir + "/" + kPackRecipe)), nothing;
  if (!recipe.is_object() || recipe.value("format", nothing) != format) return {};
  const nlohmann::json splits = recipe.value("splits", nothing);
  if (!splits.is_object()) return {};
  std::string split = files.split;
  const size_t dash = split.rfind('-');
  if (!splits.contains(split) && dash != split.npos && WholeNumber(split.substr(dash + 1))) split.resize(dash);
  if (!splits.contains(split)) return {};
  const char* const labels = FactsOf(kind).name;
  if (recipe.value("labels", nlohmann::json("")) != labels) {
    throw DataError(data_dir + " was packed with labels of another kind (" + kPackRecipe + ")",
                    "give the --task that it was packed for");
  }
  const bool is_whole = files.split == split;
  const auto number = [packed = splits.at(split)](const char* key) {
    const nlohmann::json value = packed.is_object() ? packed.value(key, nlohmann::json()) : nlohmann::json();
    return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
  };
  if (is_whole && number("shards") > files.names.size()) {
    throw DataError(data_dir + " has " + std::to_string(files.names.size()) + " of " +
                        std::to_string(number("shards")) + " shards of the split '" + files.split + "' (" +
                        kPackRecipe + ")",
                    std::string(kCopyShards) + ", or run the other parts of dtrain_data pack");
  }
  const nlohmann::json first = recipe.value("first_label", nothing);
  return {first == 0 || first == 1 ? std::optional(first.get<int64_t>()) : std::nullopt,
          is_whole ? number(kPackedRecords) : 0};
}

// Throws DataError if intact shards have fewer records than they were packed with. Two damaged neighbours may be one.
void RequireAllRecords(const std::string& data_dir, const RecordIndex& index, const PackedSplit& pack) {
  const auto is_damaged = [](const IndexEntry& entry) { return entry.label < 0; };
  if (index.records.size() >= pack.records || std::ranges::any_of(index.records, is_damaged)) return;
  throw DataError(data_dir + " holds " + std::to_string(index.records.size()) + " of the " +
                      std::to_string(pack.records) + " records of the split that " + kPackRecipe + " counts",
                  "a shard was cut, or has lost a part: copy all of them again");
}

std::unique_ptr<RecordSource> OpenRecords(const RecordFormat& format, const SourceOptions& options,
                                          const std::string& split) {
  const RecordFiles files = RequireRecordFiles(options.data_dir, split, format);
  Classes classes = options.classes;  // their label offset may be that of other files
  const PackedSplit pack = ReadPack(options.data_dir, options.format, files, options.labels);
  if (pack.first_label) classes.label_offset = pack.first_label;
  RecordIndex index = SentOrMade(options, split, files.split, options.data_dir, [&](const KeptIndex& kept) {
    return IndexRecordFiles(format, options.data_dir, files, kept, options.labels);
  });
  RequireAllRecords(options.data_dir, index, pack);
  if (const std::string missing = MissingShard(files.names, format); !missing.empty() && options.note) {
    options.note(options.data_dir + ": between the others " + missing + " is missing: copy it, if it is of this set");
  }
  if (!index.cut.empty() && options.note) {
    options.note(options.data_dir + ": the mark of the end is missing in " + FirstOf(index.cut, /*most=*/5) +
                 ", which may have been cut between two records: compare sizes with those of the originals");
  }
  return std::make_unique<PackedRecords>(format, options.data_dir, std::move(index), options.label_offset,
                                         std::move(classes), options.labels);
}

}  // namespace

// A new format is a row here, or, if its files hold records one after another, in record_format.cc. Folders of images
// come last of those that are opened here: a folder of anything looks like one.
const std::vector<DataFormat>& Formats() {
  static const std::vector<DataFormat> table = [] {
    const auto finds = [](auto find) {
      return [=](const std::string& data_dir, const std::string& split) { return find(data_dir, split).has_value(); };
    };
    std::vector<DataFormat> formats = {
        {.name = kTensorFormat,
         .description = "tensors of images with labels, or of tokens",
         .has = finds(FindTensorFile),
         .open = OpenTensors,
         .files = [](const auto& data_dir,
                     const auto& split) { return std::vector{RequireTensorFile(data_dir, split)}; },
         .has_own_index = true},
        {.name = kTokenFormat,
         .description = "the .bin and .idx files of fairseq-preprocess or dtrain_data tokenize",
         .has = finds(FindTokenFiles),
         .open = [](const SourceOptions& options, const std::string& split) -> std::unique_ptr<RecordSource> {
           return std::make_unique<TokenDataset>(RequireTokenFiles(options.data_dir, split));
         },
         .files =
             [](const auto& data_dir, const auto& split) {
               const std::string prefix = RequireTokenFiles(data_dir, split);
               return std::vector{prefix + ".idx", prefix + ".bin"};
             },
         .has_own_index = true},
    };
    for (const RecordFormat* format : RecordFormats()) {
      const auto has = [=](const std::string& data_dir, const std::string& split) {
        return !FindRecordFiles(data_dir, split, *format).names.empty();
      };
      const auto files = [=](const std::string& data_dir, const std::string& split) {
        std::vector<std::string> names = RequireRecordFiles(data_dir, split, *format).names;
        for (std::string& name : names) name = data_dir + "/" + name;
        return names;
      };
      formats.push_back({.name = format->name(),
                         .description = format->description(),
                         .has = has,
                         .open = std::bind_front(OpenRecords, std::cref(*format)),
                         .files = files,
                         .holds = [=](LabelKind kind) { return format->Holds(kind); }});
    }
    formats.push_back({.name = kImageFolder,
                       .description = "a folder of images for each class",
                       .has = finds(FindSplit),
                       .open = OpenImageFolder});
    formats.push_back(
        {.name = kTextFormat,
         .description = "files of raw text for --task=masked_lm, with a tokenizer beside them or the weights",
         .has = finds(FindTextFile)});
    formats.push_back(
        {.name = kSentenceFormat,
         .description = "sentences or pairs with labels: TSV, CSV, JSONL, or a folder of texts for each class",
         .has = finds(FindSentenceFiles)});
    return formats;
  }();
  return table;
}

const DataFormat* FindFormat(const std::string& name) {
  const auto found = std::ranges::find(Formats(), name, &DataFormat::name);
  return found == Formats().end() ? nullptr : &*found;
}

bool HasSplit(const std::string& format, const std::string& data_dir, const std::string& split) {
  const DataFormat* found = FindFormat(format);
  return found != nullptr && found->has(data_dir, split);
}

std::string DetectFormat(const std::string& data_dir, const std::vector<std::string>& splits) {
  for (const std::string& split : splits) {
    std::string found;
    for (const DataFormat& format : Formats()) {
      const std::string& name = format.name;
      if (format.open == nullptr || !format.has(data_dir, split)) continue;
      if (name == kImageFolder && !found.empty() && !HasClassFolders(*FindSplit(data_dir, split))) continue;
      if (!found.empty()) {
        throw DataError(data_dir + " holds the split '" + split + "' as " + found + " and as " + name,
                        "say which one: --data_format=" + found + " or --data_format=" + name);
      }
      found = name;
    }
    if (AreSentences(data_dir, split, found)) return kSentenceFormat;
    if (!found.empty()) return found;
  }
  return kImageFolder;  // opening it reports what is missing
}

std::unique_ptr<RecordSource> OpenSource(const SourceOptions& options, const std::string& split) {
  if (!options.table.path.empty()) {
    auto source = std::make_unique<ImageTable>(options.table, options.data_dir, split, options.labels, options.classes);
    RequireClassNames(source->class_names(), options.table.path);
    return source;
  }
  if (const DataFormat* format = FindFormat(options.format); format != nullptr && format->open) {
    if (!format->holds(options.labels) && Exists(options.data_dir)) {
      throw Error(ExitCode::kUsage,
                  options.data_dir + " (" + options.format + ") has one class for each image, and this task learns " +
                      FactsOf(options.labels).what,
                  "name a table with them: --labels=FILE.csv; or TFRecord or WebDataset files that have them");
    }
    auto source = format->open(options, split);
    RequireClassNames(source->class_names(), options.data_dir);
    return source;
  }
  if (options.format == kSentenceFormat) {
    throw DataError(
        options.data_dir + " holds sentences with labels, which only the tasks of text read",
        "dtrain_main --task=text_classification --dry_run says what they hold, and what is wrong with them");
  }
  throw DataError("data of the format " + options.format + " cannot be read here");
}

}  // namespace dtrain::data
