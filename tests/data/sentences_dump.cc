// Prints the rows of a split of sentences, a JSON array per line: label, then the tokens. For the comparison with
// transformers in tests/interop.
//
//   sentences_dump DATA_DIR SPLIT TOKENIZER_FOLDER TOKENS_PER_SAMPLE class|number
//   sentences_dump FILE.csv: prints the cells of a table instead, a JSON array per row
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/formats/table_reader.h"
#include "data/sentences/sentence_split.h"
#include "data/storage.h"
#include "data/text/token_rows.h"

namespace {

using namespace dtrain::data;

void DumpTable(const std::string& path) {
  const std::vector<uint8_t> bytes = ReadWholeFile(path);
  TableReader table(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, TableFormatOf(path).value());
  std::vector<size_t> all;
  for (size_t i = 0; i < table.header().size(); ++i) all.push_back(i);
  table.Select(all);
  std::puts(nlohmann::json(table.header()).dump().c_str());
  TableRow row;
  while (table.Next(row)) std::puts(nlohmann::json(row.cells).dump().c_str());
}

void DumpSplit(const std::vector<std::string>& arguments) {
  const bool is_number = arguments.at(4) == "number";
  const SentenceSplit split = OpenSentences({.data_dir = arguments[0],
                                             .target = is_number ? kNumberTarget : kClassTarget,
                                             .tokens_per_sample = std::stoll(arguments[3]),
                                             .tokenizer_paths = {arguments[2]}},
                                            arguments[1]);
  for (int64_t i = 0; i < split.source->size(); ++i) {
    const SampleRef sample{.index = i, .size = split.length(i)};
    std::vector<int64_t> ids(static_cast<size_t>(sample.size));
    std::vector<uint8_t> mask(ids.size());
    float target = 0;
    std::vector<std::span<std::byte>> rows = {std::as_writable_bytes(std::span(ids)),
                                              std::as_writable_bytes(std::span(mask))};
    if (is_number) rows.push_back(std::as_writable_bytes(std::span(&target, 1)));
    split.decoder->Decode(split.source->Read(i), sample, rows);
    nlohmann::json line = {
        is_number ? nlohmann::json(target)
                  : nlohmann::json(split.source->class_names()[static_cast<size_t>(split.source->Label(i))])};
    for (const int64_t id : ids) line.push_back(id);
    std::puts(line.dump().c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  try {
    if (arguments.size() == 1) {
      DumpTable(arguments[0]);
    } else {
      DumpSplit(arguments);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sentences_dump: %s\n", error.what());
    return 3;
  }
  return 0;
}
