// The places of all records of a split. The index is built once and kept in a file, so that a set of millions of
// records opens in a fraction of a second and can be read in any order. data/FORMAT.md describes the file byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/folder_names.h"
#include "data/record_source.h"

namespace dtrain::data {

// A file (for ImageFolder, a folder) that the index was made from. The index is stale if one of them has changed.
struct IndexedFile {
  std::string name;         // relative to the data set's folder
  int64_t bytes = 0;        // 0 for a folder
  int64_t modified_ns = 0;  // nanoseconds since 1970
  bool operator==(const IndexedFile&) const = default;
};

// One record, in the layout of the index file.
struct IndexEntry {
  uint64_t offset = 0;  // bytes from the start of the file; for ImageFolder: position of the file's name in `names`
  uint64_t bytes = 0;   // length of the record; for ImageFolder: size of the file when it was listed
  uint32_t file = 0;    // position in `files` (of the folder, for ImageFolder)
  // As stored in the data, counted from 0 or from 1; −1 if the record is damaged. If labels are of several classes or
  // numbers, their count.
  int32_t label = -1;
  bool operator==(const IndexEntry&) const = default;
};

constexpr float kMostClass = 16'777'216;  // of labels that are numbers: up to it, float32 has all whole numbers

// What is known of a kind of labels.
struct LabelKindFacts {
  const char* name;       // in indexes and packs
  std::string_view task;  // the --task that learns them
  const char* what;       // for messages
};
inline constexpr LabelKindFacts kLabelKinds[] = {{"", "image_classification", "a class"},
                                                 {"several", "image_multilabel", "several labels"},
                                                 {"numbers", "image_regression", "numbers"}};  // as LabelKind
inline const LabelKindFacts& FactsOf(LabelKind kind) { return kLabelKinds[static_cast<size_t>(kind)]; }

inline constexpr char kImageFolder[] = "imagefolder";  // in --data_format and RecordIndex::format
// Returns RecordIndex::format: the name in --data_format, and behind a dot that of the kind of labels, if it has one.
std::string IndexFormat(const std::string& format, LabelKind kind);

struct RecordIndex {
  std::string format;                    // IndexFormat
  std::string fingerprint;               // hex digest over names and sizes
  std::vector<std::string> class_names;  // in label order; empty if the format has none
  std::vector<IndexedFile> files;
  std::vector<IndexEntry> records;
  std::string names;                  // ImageFolder: file names without their folder, each followed by a zero byte
  std::vector<float> values = {};     // labels of several classes, as stored, or numbers; of all records
  IgnoredFiles ignored = {};          // ImageFolder: files that are not images
  std::vector<std::string> cut = {};  // names of the files that RecordFormat::MayEnd finds without their end
  bool operator==(const RecordIndex&) const = default;
};

// Convert an index into the bytes of its file and back. ParseIndex returns an empty optional if the bytes are damaged
// or of another version.
std::string SerializeIndex(const RecordIndex& index);
std::optional<RecordIndex> ParseIndex(std::string_view bytes);

// Returns the index in a file; empty if there is none that can be used.
std::optional<RecordIndex> LoadIndex(const std::string& path);

// Where the index of a split is kept, and what becomes of it.
struct KeptIndex {
  std::string path;
  bool rebuild = false;                                           // make it anew
  bool keep = true;                                               // write a new one to the file
  std::function<void(const std::string& problem)> not_kept = {};  // why it could not be written; may be empty
};

// Returns the index in the file if `is_fresh` says that nothing has changed since; else what `make` makes of the old
// one, which it keeps in the file.
RecordIndex FreshIndex(const KeptIndex& kept, const std::string& format,
                       const std::function<bool(const RecordIndex& old)>& is_fresh,
                       const std::function<RecordIndex(const std::optional<RecordIndex>& old)>& make);

// Writes the index to a temporary file beside `path`, makes missing folders, and renames it, so that readers see the
// old file or the new one. Returns what went wrong, or an empty string.
std::string SaveIndex(const std::string& path, const RecordIndex& index);

// Returns the path of a split's index: in `index_dir`, or beside the data if that is empty.
std::string IndexPath(const std::string& data_dir, const std::string& index_dir, const std::string& split,
                      const std::string& format);

// Returns the present size and time of each name in `folder`; bytes is −1 for a name that does not exist. Many calls of
// stat run at the same time.
std::vector<IndexedFile> StatFiles(const std::string& folder, const std::vector<std::string>& names);

}  // namespace dtrain::data
