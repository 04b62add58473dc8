// Makes batches ahead of time with threads: readers fetch bytes (and wait for storage), decoders turn them into rows
// (and use cores). They are threads rather than processes, so that there is no fork, no shared memory, no pickling, and
// only one copy of everything.
//
// Work is passed on in chunks of several samples of one batch, so that each lock is taken once per chunk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/pipeline/batch.h"
#include "data/pipeline/quarantine.h"
#include "data/pipeline/row_reader.h"
#include "data/record_source.h"

namespace dtrain::data {

struct LoaderOptions {
  int64_t decode_threads = 0;    // 0: AvailableCores()
  int64_t read_threads = 64;     // most concurrent reads; exceeds 8 only if storage is slow
  int64_t prefetch_batches = 4;  // batches begun but not yet taken, ≥ 1
  // No read begins while more encoded bytes than this wait to be decoded; chunks being read then may exceed it.
  int64_t max_bytes_in_flight = int64_t{1} << 28;
  bool pin_memory = false;
  BadRecordPolicy bad_records = BadRecordPolicy::kReplace;
  int64_t seed = 0;         // for choosing replacements
  int64_t first_batch = 0;  // number of the first batch
  // Completes a batch that has rows, on the thread that calls Next; null: nothing is missing.
  std::function<void(Batch& batch)> collate = nullptr;
};

// Which samples make a batch, all of one size, and for which part of a step.
struct BatchSamples {
  BatchSamples(std::vector<SampleRef> of, StepPart which = {}) : samples(std::move(of)), part(which) {}
  std::vector<SampleRef> samples;
  StepPart part;
};

// Returns batch `number` (counted from first_batch); empty after the last one. Called once per number, in order, by one
// thread of the loader at a time.
using BatchProvider = std::function<std::optional<BatchSamples>(int64_t number)>;

class Loader {
 public:
  // `source`, `decoder` and `quarantine` must outlive the loader. If `quarantine` is null, the first bad record is an
  // error. The loader starts to work at once. Throws Error (exit code 7) if its threads cannot be started.
  Loader(const RecordSource& source, const SampleDecoder& decoder, BatchProvider batches, LoaderOptions options,
         Quarantine* quarantine);
  // Abandons all work and joins the threads, each of which first finishes the record that it is reading or decoding.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch in order; empty after the last. If a thread of the loader threw while making this batch,
  // rethrows that (DataError for data), and again at every later call. One caller at a time.
  std::optional<Batch> Next();

  // Whether most calls of Next() that had to wait found no record waiting to be decoded: then storage is slower than
  // decoding.
  bool waits_for_storage() const;
  // Whether Next() would return a batch without waiting.
  bool IsReady() const;

 private:
  class Pipeline;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace dtrain::data
