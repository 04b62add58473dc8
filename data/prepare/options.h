// The command line of dtrain_data: one small table of flags for the parser that all programs share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/image_table.h"
#include "data/record_source.h"

namespace dtrain::data {

struct PrepareOptions {
  std::string command;  // pack | index | tokenize | encode | inspect | verify | warm
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

  std::vector<std::string> read;               // the values of all flags that name what is read
  std::map<std::string, std::string> written;  // flags that name what is written, and their values

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

}  // namespace dtrain::data
