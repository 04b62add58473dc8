// The data of a run: its splits, with the decoders that turn records into rows. TaskKind::OpenData opens them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/formats/open_source.h"
#include "data/record_source.h"
#include "data/sample_decoder.h"
#include "trainer/config/config.h"

namespace dtrain::loop {

struct DataSplit {
  std::string name;
  std::unique_ptr<data::RecordSource> source;
  std::unique_ptr<data::SampleDecoder> decoder;
  // For text: returns the number of tokens of a block. Null if all rows have the same size.
  std::function<int64_t(int64_t index)> length = nullptr;
  int64_t tokens_per_sample = 0;  // for text: the length of the longest block allowed
};

// What the data says of the sizes of a model.
struct DataSizes {
  int64_t num_classes = 0;  // outputs of the model, more than any label; for masked words the size of the vocabulary
  int64_t vocabulary = 0;   // of text: every token is below it, <mask> included; 0: unknown
};

struct DataSets : DataSizes {
  std::optional<DataSplit> train;
  std::optional<DataSplit> val;  // empty: there is no validation, and the run ends with its training loss
  data::Classes classes;         // of the training split; in an evaluation, those that val was opened with
};

// Warns of files beside the images that are not images, and of unequal classes. Reads all headers of a small set, and
// throws DataError naming every bad file if there are too many. Called on one rank only: the others would find the
// same.
void LookThrough(const DataSets& sets, const config::DataConfig& config);

}  // namespace dtrain::loop
