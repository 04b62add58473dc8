// Turns one sample into one row of a batch, or replaces it if its record is bad.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/pipeline/batch.h"
#include "data/pipeline/quarantine.h"
#include "data/record_source.h"

namespace dtrain::data {

// A batch under way: its allocated tensors and the state of its rows. Several threads write rows, each its own.
class OpenBatch {
 public:
  // Allocates tensors of `batch` with a row for each sample: for the fields, for index, and for labels unless they are
  // a field. If `pinned`, the memory is pinned, so that a GPU copies from it directly.
  OpenBatch(Batch batch, std::vector<SampleRef> samples, const std::vector<Field>& fields, bool pinned);

  int64_t rows() const { return static_cast<int64_t>(samples_.size()); }
  const SampleRef& sample(int64_t row) const { return samples_[static_cast<size_t>(row)]; }

  // Returns the memory of a row, one span per field.
  std::vector<std::span<std::byte>> RowOf(int64_t row);
  // Writes index, and the label unless labels are a field.
  void SetLabel(int64_t row, int64_t index, int64_t label);
  // Take() then omits the row. Each thread may leave out its own rows.
  void LeaveOut(int64_t row) { left_out_[static_cast<size_t>(row)] = 1; }

  // Counts `rows` further rows as finished. Returns true to the caller that completes the batch. Safe to call from many
  // threads.
  bool Finish(int64_t rows) { return unfinished_.fetch_sub(rows) == rows; }

  // Returns the batch without the rows that were left out. Call it once, when all rows are finished.
  Batch Take();

 private:
  Batch batch_;
  std::vector<SampleRef> samples_;
  std::vector<std::byte*> bases_;   // start of each field's tensor
  std::vector<int64_t> row_bytes_;  // bytes of a row of each field
  int64_t* labels_ = nullptr;       // null if the decoder writes the labels
  int64_t* index_ = nullptr;
  std::vector<uint8_t> left_out_;  // per row; bytes rather than bits, since threads write neighbouring rows
  std::atomic<int64_t> unfinished_;
};

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

  // Returns the tensors of a batch but labels and index: those of the decoder, and targets if the source has them.
  std::vector<Field> fields(int64_t size) const;

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
