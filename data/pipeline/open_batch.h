// A batch under way: its tensors, allocated, and what is known of its rows. Rows are written by several threads, each
// its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/pipeline/batch.h"
#include "data/sample_decoder.h"

namespace dtrain::data {

class OpenBatch {
 public:
  // Tensors for the fields and for index, with a row for each sample, and for labels unless they are a field; `pinned`:
  // in memory that a GPU copies from without a detour.
  OpenBatch(int64_t number, std::vector<SampleRef> samples, const std::vector<Field>& fields, bool pinned);

  int64_t rows() const { return static_cast<int64_t>(samples_.size()); }
  const SampleRef& sample(int64_t row) const { return samples_[static_cast<size_t>(row)]; }

  // Where the decoder writes a row: one span a field.
  std::vector<std::span<std::byte>> RowOf(int64_t row);
  void SetLabel(int64_t row, int64_t index, int64_t label);
  void LeaveOut(int64_t row) { left_out_[static_cast<size_t>(row)] = 1; }

  // Leaves a row to a device: see Batch::deferred.
  void Defer(DeferredRow row);
  int64_t deferred_bytes() const { return deferred_bytes_; }

  // Counts rows that are finished; true for those that make the batch complete. From many threads.
  bool Finish(int64_t rows) { return unfinished_.fetch_sub(rows) == rows; }

  // The batch without the rows that were left out; once, when it is complete. Where none was, rows can be written
  // later, too: deferred ones that no device could decode.
  Batch Take();

 private:
  Batch batch_;
  std::vector<SampleRef> samples_;
  std::vector<std::byte*> bases_;   // of each field's tensor
  std::vector<int64_t> row_bytes_;  // of each field
  int64_t* labels_ = nullptr;       // null: the decoder writes them
  int64_t* index_ = nullptr;
  std::vector<uint8_t> left_out_;      // per row; bytes, for threads to write beside each other
  std::vector<DeferredRow> deferred_;  // per row; without bytes: not deferred
  std::atomic<int64_t> deferred_bytes_{0};
  std::atomic<int64_t> unfinished_;
};

}  // namespace dtrain::data
