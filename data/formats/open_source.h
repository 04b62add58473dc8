// Recognises the format of a data set and opens a split of it as a RecordSource, for the trainer and for dtrain_data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/image_table.h"
#include "data/record_source.h"

namespace dtrain::data {

// Serialised indexes (record_index.h) that could not be cached, by split. One process makes them and sends them to the
// others, so that not every process lists millions of files.
using SharedIndexes = std::map<std::string, std::string>;

struct SourceOptions {
  std::string data_dir;
  std::string format;                        // one of Formats()
  LabelKind labels = LabelKind::kClass;      // what the records' labels are to be
  LabelTable table = {};                     // with a path: it has the labels, and names the images in data_dir
  std::string index_dir = {};                // folder for indexes; empty: beside the data
  std::optional<int64_t> label_offset = {};  // given by the user; empty: automatic
  // The classes as far as they are known: for another split those of the training split (RecordSource::classes), for an
  // evaluation those of the checkpoint. They define the labels, and a label outside them throws DataError. If nothing
  // is known, the split defines its classes.
  Classes classes = {};
  bool rebuild_index = false;                         // make it anew; Error (exit code 5) if it cannot be kept
  bool keep_index = true;                             // false: a new index is not written to a file
  std::function<void(const std::string&)> note = {};  // called with problems that are not errors; may be empty
  // Of these, an index is used if all files it was made from exist here with the same sizes. An index that was made
  // here but could not be written to its file is added. May be null.
  SharedIndexes* indexes = nullptr;
};

// The file that dtrain_data pack writes beside its output. Readers of the records take their first label from it
// instead of guessing. Of a split whose shards are all written, it has the number of records in them.
inline constexpr char kPackRecipe[] = "pack.json", kPackedRecords[] = "packed";

inline constexpr char kTensorFormat[] = "safetensors", kTokenFormat[] = "tokens", kTextFormat[] = "text",
                      kSentenceFormat[] = "sentences";

// What is known of a format of data.
struct DataFormat {
  std::string name, description;  // in --data_format, and for people
  std::function<bool(const std::string& data_dir, const std::string& split)> has;
  // As OpenSource; null: only tasks of text read it (data/text/text_split.h, data/sentences/sentence_split.h).
  std::function<std::unique_ptr<RecordSource>(const SourceOptions&, const std::string& split)> open = nullptr;
  // Returns the paths of a split's files, or throws DataError; null: each record is a file by itself, an image.
  std::function<std::vector<std::string>(const std::string& data_dir, const std::string& split)> files = nullptr;
  bool has_own_index = false;  // so that none is made
  // Whether its records can have labels of this kind.
  std::function<bool(LabelKind kind)> holds = [](LabelKind kind) { return kind == LabelKind::kClass; };

  bool records_are_files() const { return open != nullptr && files == nullptr; }
};

const std::vector<DataFormat>& Formats();

// Returns the format of this name, or null.
const DataFormat* FindFormat(const std::string& name);

// Returns the format of the first of these splits that exists; kImageFolder if none does, since opening that reports
// what is missing. Raw text is not detected. Throws DataError if several formats fit.
std::string DetectFormat(const std::string& data_dir, const std::vector<std::string>& splits);

// Whether the split exists in this format. Throws DataError if shards of it are missing.
bool HasSplit(const std::string& format, const std::string& data_dir, const std::string& split);

// Opens a split after loading or making its index. For the format tokens a record is a line of text
// (data/text/text_split.h cuts them into the blocks that a model sees). Throws DataError, which says what is missing or
// does not fit.
std::unique_ptr<RecordSource> OpenSource(const SourceOptions& options, const std::string& split);

}  // namespace dtrain::data
