// The data of a run: its splits, with the decoders that turn records into rows. TaskKind::OpenData opens them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/open_source.h"
#include "data/pipeline/batch.h"
#include "data/record_source.h"
#include "data/sentences/sentence_split.h"
#include "trainer/config/config.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::distributed {
class Rendezvous;
}

namespace dtrain::tasks {

struct DataSplit {
  std::string name;  // in messages and records
  std::unique_ptr<data::RecordSource> source;
  std::unique_ptr<data::SampleDecoder> decoder;
  // For text: returns the number of tokens of a block. Null if all rows have the same size.
  std::function<int64_t(int64_t index)> length = nullptr;
  int64_t tokens_per_sample = 0;     // for text: the length of the longest block allowed
  std::vector<int64_t> shards = {};  // samples of each folder, of which epochs take one in turn; empty: one folder
  std::vector<data::SentenceText> texts = {};  // of sentences, with --predictions; otherwise empty
  std::string whole = {};                      // fingerprint of the split that this is a part of; empty: it is no part
  std::vector<std::string> groups = {};        // of sentences: data::SentenceSplit::groups
  std::shared_ptr<const data::SplitWords> words = nullptr;  // if words have labels; also of a part, those of the whole
  // Completes each batch on the host (LoaderOptions::collate); null: nothing is missing.
  std::function<void(data::Batch& batch)> collate = nullptr;

  std::string whole_fingerprint() const { return whole.empty() ? source->fingerprint() : whole; }
};

// What the data says of the sizes of a model, and of what its outputs mean.
struct DataSizes {
  int64_t num_classes = 0;  // outputs of the model, more than any label; for masked words the size of the vocabulary
  int64_t vocabulary = 0;   // of text: every token is below it, <mask> included; 0: unknown
  std::optional<data::SpecialTokens> special = {};  // likewise: of its tokenizer, if that is known
  weights::NumberScale scale = {};  // of numbers to predict; in an evaluation that of the weights counts
  data::Classes classes = {};       // of the training split; in an evaluation, those that val was opened with
};

struct DataSets : DataSizes {
  std::optional<DataSplit> train;
  std::optional<DataSplit> val;        // empty: there is no validation, and the run ends with its training loss
  std::vector<DataSplit> further_val;  // the further validation sets, in the order of --val_split
};

// Returns the validation sets, the one that decides first; none if there is no validation.
std::vector<const DataSplit*> ValidationSets(const DataSets& sets);

// Returns the training set and the validation sets, as far as they are there.
std::vector<const DataSplit*> AllSplits(const DataSets& sets);

// Returns the number of epochs that together have all samples: 1 without shards.
inline int64_t NumShards(const DataSplit& split) {
  return split.shards.empty() ? 1 : static_cast<int64_t>(split.shards.size());
}

// Returns the fingerprints of the validation sets, separated by commas.
std::string ValFingerprint(const DataSets& sets);

// Warns of files beside the images that are not images, of photographs that are not stored upright, and of unequal
// classes. Reads all headers of a small set, and throws DataError naming every bad file if there are too many. Called
// on one rank only: the others would find the same.
void LookThrough(const DataSets& sets, const config::Config& config);

// --cache=ram: puts a cache in front of the records of all splits, so that after the first epoch none is read from
// storage again. The ranks of a machine share one cache: the first rank to arrive
// makes it, the others find it through `rendezvous` (null: this rank is alone). It grows to at most 80 % of the memory
// that is free now. A rank that cannot open the shared cache (it runs in a container of its own) logs a warning and
// makes its own, limited to its share of that memory. A collective, called after ControlPlane::WaitForAll.
void KeepInMemory(DataSets& data, distributed::Rendezvous* rendezvous);

}  // namespace dtrain::tasks
