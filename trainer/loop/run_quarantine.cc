#include "trainer/loop/run_quarantine.h"

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

}  // namespace dtrain::loop
