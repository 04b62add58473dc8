// The commands of dtrain_data: their command line, a table of them, and what they share. All print their result on
// stdout and their progress on stderr, and throw dtrain::Error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/image_table.h"
#include "data/outputs.h"
#include "data/record_source.h"

namespace dtrain::data {

struct PrepareOptions {
  std::string command;  // one of PrepareCommands()
  std::string data_dir;
  LabelTable table;  // with a path: it names the images of data_dir, or, if that is empty, of its own folder
  LabelKind labels = LabelKind::kClass;
  std::string data_format = "auto";
  std::string split;      // empty: SplitsOf
  std::string index_dir;  // empty: beside the data
  std::optional<int64_t> label_offset;
  int64_t workers = 0;  // threads; 0: the command's default
  std::optional<double> max_bad_records;
  bool strict_data = false;

  std::vector<std::string> inputs;  // tokenize: text files
  std::string encoder_json;         // tokenize, encode: GPT-2's encoder.json
  std::string vocab_bpe;            // tokenize, encode: GPT-2's vocab.bpe
  std::string tokenizer;            // tokenize, encode: a folder of Hugging Face's, instead of the two above
  std::string dict;                 // tokenize: a dict.txt; empty: make one from the text

  std::string move_bad_to;      // verify: a folder
  std::string output;           // pack, verify: a folder; tokenize: the token files without .bin and .idx
  std::string output_format;    // pack: one of RecordFormats()
  int64_t short_side = 0;       // pack: pixels; 0: bytes are kept as they are
  int64_t quality = 0;          // pack: quality of written JPEGs; 0: 95, and pixels become PNG
  bool seek_points = false;     // pack: JPEGs are rewritten so that crops decode fastest
  int64_t shards = 0;           // pack: number of shards of each split; 0: one for every 2,048 records
  int64_t part = 1, parts = 1;  // pack: this machine's share

  std::vector<std::string> read;  // the values of all flags that name what is read
  std::vector<Output> written;    // likewise of those that name what is written, but --output

  bool decode = false;  // inspect
  int64_t limit = 0;    // inspect: records of each split; 0: all
};

struct PrepareCommandLine {
  PrepareOptions options;
  std::string answer;  // answer to --help or --version, to be printed before exiting with 0; else empty
};

// Parses the command line. Throws one Error (exit code 2) that names every mistake. `version` is printed after the
// program's name by --version.
PrepareCommandLine ParsePrepareCommandLine(const std::vector<std::string>& arguments, const std::string& version = "");

// What is known of a command.
struct PrepareCommand {
  std::string name;
  const char* purpose;  // for people
  void (*run)(const PrepareOptions& options);
  // Returns where it is going to write besides PrepareOptions::written; null: nowhere.
  std::vector<Output> (*outputs)(const PrepareOptions& options) = nullptr;
};

// A new command is a row of this table (options.cc), which also has the flags with the commands that they are for.
const std::vector<PrepareCommand>& PrepareCommands();

// Runs the command of the options, after RequireOutputs of all places where it is going to write.
void RunCommand(const PrepareOptions& options);

struct OpenSplit {
  std::string name;  // train, val, or the value of --split; for "." the folder, or train where it is packed
  std::unique_ptr<RecordSource> source;
};

// Returns the format that --data_format names, or else recognises it.
std::string FormatOf(const PrepareOptions& options);

// Whether each record of the format is a file by itself, in a folder of its class.
bool HoldsFiles(const std::string& format);

// Returns the names of the splits to process: --split, or train and val as far as they exist (verify: test, too, or "."
// if folders of images have none of these), or train, since opening it reports what is missing.
std::vector<std::string> SplitsOf(const PrepareOptions& options, const std::string& format);

// Opens them. Labels have the meaning that the training split gives them, even if it is not opened; if it does not
// exist, that of `classes`, else that of the first split. Throws DataError.
std::vector<OpenSplit> OpenSplits(const PrepareOptions& options, bool rebuild_index, const Classes& classes = {});

// Returns --workers, or the number of cores that this process may use.
size_t Threads(const PrepareOptions& options);

}  // namespace dtrain::data
