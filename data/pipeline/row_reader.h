// One sample → one row of a batch, or what stands in for it where its record is bad.
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
  kReplace,   // training: another sample stands in, chosen by (seed, epoch, index) alone
  kLeaveOut,  // evaluation: the batch gets shorter, possibly empty
};

// The bytes of one sample, or why there are none.
struct EncodedSample {
  std::vector<uint8_t> bytes;
  std::string problem;
};

// Pure but for the quarantine: the same samples give the same rows on any rank and thread. Safe to call from many
// threads.
class RowReader {
 public:
  // All outlive the reader. Without a quarantine the first bad record is an error.
  RowReader(const RecordSource& source, const SampleDecoder& decoder, Quarantine* quarantine, BadRecordPolicy policy,
            int64_t seed)
      : source_(source), decoder_(decoder), quarantine_(quarantine), policy_(policy), seed_(seed) {}

  EncodedSample Read(int64_t index) const;

  // Decodes what was read for it into a row of the batch, or leaves it to a device (Batch::deferred). Throws DataError
  // where the quarantine does, or where no sample can be found that would stand in.
  void Fill(OpenBatch& batch, int64_t row, EncodedSample encoded) const;

  // The same, and nothing is left to a device.
  void FillNow(OpenBatch& batch, int64_t row, const EncodedSample& encoded) const;

 private:
  bool Defer(OpenBatch& batch, int64_t row, EncodedSample& encoded) const;
  bool Decode(OpenBatch& batch, int64_t row, const SampleRef& sample, const EncodedSample& encoded) const;

  const RecordSource& source_;
  const SampleDecoder& decoder_;
  Quarantine* const quarantine_;
  const BadRecordPolicy policy_;
  const int64_t seed_;
};

}  // namespace dtrain::data
