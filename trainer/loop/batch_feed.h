// The batches of a split on the way to their task: the loader reads and decodes the samples, the task prepares the
// batch on the host, and the feed copies it to the device, ahead of the step that computes on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "data/pipeline/device_feed.h"
#include "data/pipeline/loader.h"
#include "data/pipeline/quarantine.h"
#include "trainer/config/config.h"
#include "trainer/control/control_plane.h"
#include "trainer/tasks/data_sets.h"
#include "trainer/tasks/task.h"

namespace dtrain::loop {

// Lists the bad records of a split in the run directory, logs them, and counts them over all ranks. The budget is that
// of the whole run: if all ranks together exceed it, the control plane ends them all with exit code 3; the rank that
// met the last record may throw DataError before that. `path` is QuarantineOptions::path. `fate` says in the log what
// happens to a bad record ("replaced"). `fate` and `control` must outlive the quarantine.
std::unique_ptr<data::Quarantine> MakeRunQuarantine(const tasks::DataSplit& split, const config::DataConfig& config,
                                                    const std::filesystem::path& path, const char* fate,
                                                    control::ControlPlane& control);

class BatchFeed {
 public:
  // Begins loading with batch `first_batch` of `batches`. Everything referred to must outlive this object.
  BatchFeed(const tasks::DataSplit& split, const tasks::Task& task, const config::Config& config,
            data::BatchProvider batches, data::BadRecordPolicy bad_records, int64_t first_batch,
            data::Quarantine& quarantine);

  // Returns the next batch once it is loaded; work that the device gets from now on waits for its copy. Empty after the
  // last one. Throws DataError if too many records are bad.
  std::optional<data::Batch> Next() { return feed_.Next(); }

  // Whether loading has waited for storage more than for decoding.
  bool waits_for_storage() const { return loader_.waits_for_storage(); }

 private:
  data::Loader loader_;
  data::DeviceFeed feed_;
};

}  // namespace dtrain::loop
