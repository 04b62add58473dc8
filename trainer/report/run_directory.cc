#include "trainer/report/run_directory.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "trainer/checkpoint/durable_file.h"

namespace dtrain::report {
namespace fs = std::filesystem;

RunDirectory::RunDirectory(fs::path run_directory)
    : root(std::move(run_directory)),
      config_json(root / "config.json"),
      metrics_jsonl(root / "metrics.jsonl"),
      result_json(root / "result.json"),
      error_json(root / "error.json"),
      model(root / "model.safetensors"),
      model_best(root / "model_best.safetensors"),
      model_ema(root / "model_ema.safetensors"),
      logs(root / "logs") {}

fs::path RunDirectory::log(int rank) const { return logs / ("rank-" + std::to_string(rank) + ".log"); }

fs::path RunDirectory::quarantine(int rank) const {
  return root / (rank == 0 ? "quarantine.jsonl" : "quarantine.rank" + std::to_string(rank) + ".jsonl");
}

fs::path DefaultRunDirectory(const std::string& model, std::time_t now) {
  std::tm local{};
  ::localtime_r(&now, &local);
  char when[32];
  std::strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &local);
  return fs::path("runs") / (model + "-" + when);
}

void PrepareRunDirectory(const RunDirectory& run_directory) {
  std::error_code error;
  fs::create_directories(run_directory.root, error);
  if (error) checkpoint::ThrowSystemError("create the run directory", run_directory.root, error.value());
  // Asking for permission is not enough: quotas and read-only mounts show only when a file is written.
  const fs::path probe = run_directory.root / (".probe." + std::to_string(::getpid()));
  try {
    checkpoint::DurableFile file(probe);
    file.Append("can this be written?\n");
    file.Finish();
  } catch (...) {
    fs::remove(probe, error);
    throw;
  }
  fs::remove(probe, error);
}

void WriteTextFile(const fs::path& path, const std::string& content) { checkpoint::WriteAtomically(path, content); }

}  // namespace dtrain::report
