// The data of a run: which format, which splits, how records become rows, and whether the splits fit each other.
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
  // Text: tokens of a block, which its row must have room for. Null where rows are of one size.
  std::function<int64_t(int64_t index)> length = nullptr;
  int64_t tokens_per_sample = 0;  // at most
};

struct DataSets {
  std::optional<DataSplit> train;
  std::optional<DataSplit> val;  // none: the run ends with its training loss
  data::Classes classes;         // the training split's; in an evaluation, those that val was opened with
  int64_t num_classes = 0;       // outputs of the model; labels are below it. Text: the vocabulary, with <mask>
};

// Training needs a training split; evaluation needs a validation split and opens no other. Throws DataError naming what
// is missing, empty, unreadable, or where train and val disagree about the classes. `parcel`: indexes that another rank
// has made, or to be sent to other ranks (SourceOptions::parcel).
// `known` is what the weights say of their classes in an evaluation; where they know no more than how many there are,
// the training split is asked, if it is there.
DataSets OpenDataSets(const config::Config& config, const data::Classes& known = {},
                      data::IndexParcel* parcel = nullptr);

// As validation images of encoded files are decoded.
std::unique_ptr<data::SampleDecoder> MakeEvaluationDecoder(const config::Config& config);

// Says what lies beside the images and is none; of a small set, reads all headers. Throws DataError that names every
// bad file where they are too many. For one rank: the others would find the same.
void LookThrough(const DataSets& sets, const config::DataConfig& config);

}  // namespace dtrain::loop
