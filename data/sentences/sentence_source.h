// Rows of sentences as records, and their decoder. A record is the number to predict (float32, 0 without one), followed
// by the tokens of the row (uint32 each), special ones included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/record_source.h"
#include "data/sample_decoder.h"
#include "data/sentences/sentence_set.h"

namespace dtrain::data {

class SentenceSource : public RecordSource {
 public:
  // `classes` are the names in label order, and have every label of the set; empty without classes. `meaning` is the
  // fingerprint of what the tokens mean, and part of that of the source.
  SentenceSource(SentenceSet set, std::vector<std::string> classes, const std::string& meaning);

  int64_t size() const override { return set_.size(); }
  RecordKind kind() const override { return RecordKind::kTokens; }
  int64_t Label(int64_t index) const override;
  std::vector<uint8_t> Read(int64_t index) const override;
  RecordPlace Place(int64_t index) const override;
  const std::vector<std::string>& class_names() const override { return classes_; }
  IgnoredFiles ignored() const override { return set_.ignored; }
  std::string fingerprint() const override { return fingerprint_; }

  int64_t length(int64_t index) const { return set_.length(index); }  // tokens

 private:
  const SentenceSet set_;
  const std::vector<std::string> classes_;
  std::vector<int64_t> class_of_;  // by position in set_.seen
  std::string fingerprint_;
};

// The fields are those of sentence_rows.h, except labels and index, which the loader adds. Cuts off tokens beyond the
// row, because the replacement of a bad row may be longer.
class SentenceRowDecoder : public SampleDecoder {
 public:
  SentenceRowDecoder(int64_t tokens_per_sample, bool has_targets)
      : tokens_per_sample_(tokens_per_sample), has_targets_(has_targets) {}

  std::vector<Field> fields(int64_t size) const override;
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override;

 private:
  const int64_t tokens_per_sample_;  // row length if SampleRef::size is 0
  const bool has_targets_;
};

}  // namespace dtrain::data
