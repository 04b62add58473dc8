// Batches, made ahead by threads: readers fetch bytes (they wait for storage), decoders turn them into rows (they use
// cores). Threads rather than processes: no fork, no shared memory, no pickling, one copy of everything.
//
// Work is handed over in chunks of several samples of one batch, so that the price of a lock is paid once a chunk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/pipeline/batch.h"
#include "data/pipeline/quarantine.h"
#include "data/pipeline/row_reader.h"
#include "data/record_source.h"
#include "data/sample_decoder.h"

namespace dtrain::data {

struct LoaderOptions {
  int64_t decode_threads = 0;    // 0: AvailableCores()
  int64_t read_threads = 64;     // reads in flight at most; only storage that is slow gets more than 8
  int64_t prefetch_batches = 4;  // batches begun and not yet taken, ≥ 1
  // Encoded bytes read and not yet decoded, overshot by a chunk at most; and as many that wait for a device
  // (Batch::deferred), overshot by a batch.
  int64_t max_bytes_in_flight = int64_t{1} << 28;
  bool pin_memory = false;
  BadRecordPolicy bad_records = BadRecordPolicy::kReplace;
  int64_t seed = 0;         // of replacements
  int64_t first_batch = 0;  // number of the first batch
};

// The samples of batch `number` (from first_batch), all of one size, or nullopt after the last one. Called once per
// number, in order, by one thread at a time (not the caller's).
using BatchProvider = std::function<std::optional<std::vector<SampleRef>>(int64_t number)>;

class Loader {
 public:
  // `source`, `decoder` and `quarantine` must outlive the loader. Without a quarantine the first bad record is an
  // error. Work starts at once.
  Loader(const RecordSource& source, const SampleDecoder& decoder, BatchProvider batches, LoaderOptions options,
         Quarantine* quarantine);
  // Abandons what is under way and joins the threads: waits for one read at most.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch in order; nullopt after the last. What a worker threw while making it is thrown here, DataError for
  // data; from then on every call throws it again. One caller at a time.
  std::optional<Batch> Next();

  // Of the calls of Next() that had to wait, whether most found nothing read yet: storage is slower than decoding.
  bool waits_for_storage() const;
  // Whether Next() would return a batch, and at once.
  bool IsReady() const;

 private:
  class Pipeline;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace dtrain::data
