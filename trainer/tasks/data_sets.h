// Opens the data of a run: finds its format and splits, makes the decoders that turn records into rows, and checks that
// the splits fit each other.
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

struct DataSets {
  std::optional<DataSplit> train;
  std::optional<DataSplit> val;  // empty: there is no validation, and the run ends with its training loss
  data::Classes classes;         // of the training split; in an evaluation, those that val was opened with
  int64_t num_classes = 0;       // outputs of the model, more than any label; for text the size of the vocabulary,
                                 // <mask> included
};

// Opens the training split and, if there is one, the validation split; modes other than train get the validation split
// alone. Throws DataError naming what is missing, empty or unreadable, or if the splits disagree about the classes, and
// UsageError if flags do not fit the data. `known`: in an evaluation, the classes that the weights were trained on; if
// only their number is known, the training split is asked for the rest, provided it is there. `parcel`: indexes that
// another rank has made, or that are to be sent to other ranks (SourceOptions::parcel).
DataSets OpenDataSets(const config::Config& config, const data::Classes& known = {},
                      data::IndexParcel* parcel = nullptr);

// The decoder of encoded validation images.
std::unique_ptr<data::SampleDecoder> MakeEvaluationDecoder(const config::Config& config);

// Warns of files beside the images that are not images. Reads all headers of a small set, and throws DataError naming
// every bad file if there are too many. Called on one rank only: the others would find the same.
void LookThrough(const DataSets& sets, const config::DataConfig& config);

}  // namespace dtrain::loop
