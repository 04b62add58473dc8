#include "trainer/loop/batch_feed.h"

#include <utility>

#include "trainer/report/log.h"

namespace dtrain::loop {

std::unique_ptr<data::Quarantine> MakeRunQuarantine(const tasks::DataSplit& split, const config::DataConfig& config,
                                                    const std::filesystem::path& path, const char* fate,
                                                    control::ControlPlane& control) {
  const int64_t size = split.source->size();
  data::QuarantineOptions options{
      .split = split.name, .max_bad_records = config.max_bad_records, .strict = config.strict, .path = path.string()};
  options.on_bad_record = [options, size, fate, &control](const data::BadRecord& bad) {
    report::LogWarning("bad record " + std::to_string(bad.index) + " of " + bad.split + " (" + ToText(bad.place) +
                       ") " + fate + ": " + bad.reason);
    control.NoteBadRecord(bad, size, options);
  };
  return std::make_unique<data::Quarantine>(size, std::move(options));
}

BatchFeed::BatchFeed(const tasks::DataSplit& split, const tasks::Task& task, const config::Config& config,
                     data::BatchProvider batches, data::BadRecordPolicy bad_records, int64_t first_batch,
                     data::Quarantine& quarantine)
    : loader_(*split.source, *split.decoder, std::move(batches),
              {.decode_threads = config.data.workers,
               .prefetch_batches = config.data.prefetch_batches,
               .pin_memory = !task.device().is_cpu(),
               .bad_records = bad_records,
               .seed = config.batch.seed,
               .first_batch = first_batch,
               .collate = split.collate},
              &quarantine),
      feed_(loader_, data::MakeTransport(task.device()),
            [&task](data::Batch batch) { return task.Prepared(std::move(batch)); }) {}

}  // namespace dtrain::loop
