// Turns one sample into one row of a batch, or replaces it if its record is bad.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/pipeline/open_batch.h"
#include "data/pipeline/quarantine.h"
#include "data/record_source.h"
#include "data/sample_decoder.h"

namespace dtrain::data {

enum class BadRecordPolicy {
  kReplace,   // training: another sample replaces it, chosen by (seed, epoch, index) alone
  kLeaveOut,  // evaluation: the batch becomes shorter, possibly empty
};

// The bytes of one sample, or the reason why it could not be read.
struct EncodedSample {
  std::vector<uint8_t> bytes;
  std::string problem;
};

// Pure except for the quarantine: the same samples give the same rows on any rank and thread. Safe to call from many
// threads.
class RowReader {
 public:
  // All references must outlive the reader. If `quarantine` is null, the first bad record is an error.
  RowReader(const RecordSource& source, const SampleDecoder& decoder, Quarantine* quarantine, BadRecordPolicy policy,
            int64_t seed)
      : source_(source), decoder_(decoder), quarantine_(quarantine), policy_(policy), seed_(seed) {}

  // Reads a record; a DataError becomes the sample's problem.
  EncodedSample Read(int64_t index) const;

  // Decodes the bytes into a row of the batch. Throws DataError if the quarantine does, or if no replacement can be
  // read.
  void Fill(OpenBatch& batch, int64_t row, const EncodedSample& encoded) const;

 private:
  bool Decode(OpenBatch& batch, int64_t row, const SampleRef& sample, const EncodedSample& encoded) const;

  const RecordSource& source_;
  const SampleDecoder& decoder_;
  Quarantine* const quarantine_;
  const BadRecordPolicy policy_;
  const int64_t seed_;
};

}  // namespace dtrain::data
