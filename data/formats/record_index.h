// Where each record of a split is: built once, kept in a file, so that a set of millions of records opens in a fraction
// of a second and is read in any order. data/FORMAT.md describes the file byte by byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/ignored_files.h"

namespace dtrain::data {

// A file (or, for ImageFolder, a folder) that the index was made from. The index is stale when one has changed.
struct IndexedFile {
  std::string name;         // relative to the data set's folder
  int64_t bytes = 0;        // 0 for a folder
  int64_t modified_ns = 0;  // nanoseconds since 1970
  bool operator==(const IndexedFile&) const = default;
};

// As it is stored.
struct IndexEntry {
  uint64_t offset = 0;  // of the record in its file; for ImageFolder: of its name in `names`
  uint64_t bytes = 0;   // of the record; for ImageFolder: of the file when it was listed
  uint32_t file = 0;    // position in `files`
  int32_t label = -1;   // as it is stored in the data, from 0 or from 1; −1: unknown, the record is damaged
  bool operator==(const IndexEntry&) const = default;
};

struct RecordIndex {
  std::string format;                    // as --data_format has it
  std::string fingerprint;               // hex digest over names and sizes
  std::vector<std::string> class_names;  // in label order; empty where the format has none
  std::vector<IndexedFile> files;
  std::vector<IndexEntry> records;
  std::string names;          // ImageFolder: file names without their folder, each with a zero after it
  IgnoredFiles ignored = {};  // ImageFolder: what was left out
  bool operator==(const RecordIndex&) const = default;
};

// The file's bytes, and back. nullopt where they are not whole, or not of this version.
std::string SerializeIndex(const RecordIndex& index);
std::optional<RecordIndex> ParseIndex(std::string_view bytes);

// The index in this file; nullopt where there is none that can be used.
std::optional<RecordIndex> LoadIndex(const std::string& path);

// Writes a neighbour and renames it: readers see the old file or the new one. Returns what went wrong, or nothing.
std::string SaveIndex(const std::string& path, const RecordIndex& index);

// Where the index of a split is kept: in `index_dir`, or beside the data where that is empty.
std::string IndexPath(const std::string& data_dir, const std::string& index_dir, const std::string& split,
                      const std::string& format);

// What is there now under these names: size and time, bytes −1 where nothing is. Many at a time.
std::vector<IndexedFile> StatFiles(const std::string& folder, const std::vector<std::string>& names);

}  // namespace dtrain::data
