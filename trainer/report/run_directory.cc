#include "trainer/report/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "data/outputs.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/log.h"

namespace dtrain::report {
namespace fs = std::filesystem;

fs::path RunDirectory::log(int rank) const { return logs / ("rank-" + std::to_string(rank) + ".log"); }

fs::path RunDirectory::quarantine(int rank) const {
  return root / (rank == 0 ? "quarantine.jsonl" : "quarantine.rank" + std::to_string(rank) + ".jsonl");
}

fs::path MakeDefaultRunDirectory(const fs::path& runs, const std::string& model, std::time_t now) {
  checkpoint::MakeFolder(runs);
  std::tm local{};
  ::localtime_r(&now, &local);
  char when[32];
  std::strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &local);
  for (int number = 1;; ++number) {
    fs::path directory = runs / (model + "-" + when + (number > 1 ? "-" + std::to_string(number) : ""));
    if (::mkdir(directory.c_str(), 0777) == 0) return directory;
    if (errno != EEXIST) checkpoint::ThrowSystemError("create the run directory", directory, errno);
  }
}

std::optional<fs::path> NewestRun(const fs::path& runs, const std::function<bool(const RunDirectory&)>& accepts) {
  std::optional<std::pair<fs::file_time_type, fs::path>> newest;
  std::error_code error;
  for (fs::directory_iterator entry(runs, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code no_run;
    const auto started = fs::last_write_time(RunDirectory(entry->path()).config_json, no_run);
    if (no_run || !accepts(RunDirectory(entry->path()))) continue;
    if (!newest || std::pair(started, entry->path()) > *newest) newest = {started, entry->path()};
  }
  if (!newest) return std::nullopt;
  return newest->second;
}

std::optional<fs::path> MoveRunAside(const RunDirectory& run_directory) {
  std::vector<std::string> found = checkpoint::NamesIn(run_directory.root);
  std::erase_if(found, [](const std::string& name) { return !data::IsResultOfRun(name); });
  if (found.empty()) return std::nullopt;
  fs::path aside;
  for (int number = 1; aside.empty() || fs::exists(aside); ++number) {
    aside = run_directory.root / ("aside-" + std::to_string(number));
  }
  checkpoint::MakeFolder(aside);
  for (const std::string& name : found) checkpoint::RenameDurably(run_directory.root / name, aside / name);
  return aside;
}

void WriteConfig(const RunDirectory& run_directory, const std::string& content, int64_t first_step, bool trains) {
  checkpoint::MakeFolder(run_directory.attempts);
  std::error_code error;
  const long long number =
      1 + std::distance(fs::directory_iterator(run_directory.attempts, error), fs::directory_iterator());
  const std::string name = Format("%03lld-from-step-%09lld.json", number, static_cast<long long>(first_step));
  checkpoint::WriteAtomically(run_directory.attempts / name, content);
  if (trains || !fs::exists(run_directory.config_json)) {
    checkpoint::WriteAtomically(run_directory.config_json, content);
  }
}

void PrepareRunDirectory(const RunDirectory& run_directory) {
  checkpoint::MakeFolder(run_directory.root, "the run directory");
  ProbeFile(run_directory.config_json);
}

void ProbeRunDirectory(const RunDirectory& run_directory) {
  const MadeFolders made(run_directory.root);
  PrepareRunDirectory(run_directory);
}

// Checking permissions is not enough, because quotas and read-only mounts show only when a file is written.
void ProbeFile(const fs::path& file) {
  const fs::path probe = file.parent_path() / (".probe." + std::to_string(::getpid()));
  std::error_code gone;
  try {
    checkpoint::DurableFile written(probe);
    written.Append("can this be written?\n");
    written.Finish();
  } catch (...) {
    fs::remove(probe, gone);
    throw;
  }
  fs::remove(probe, gone);
}

fs::path NearestFolder(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = fs::absolute(path, ignored);
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

MadeFolders::MadeFolders(const fs::path& path) {
  std::error_code ignored;
  for (fs::path folder = fs::absolute(path, ignored);
       fs::symlink_status(folder, ignored).type() == fs::file_type::not_found && folder.has_relative_path();
       folder = folder.parent_path()) {
    if (folder.has_filename()) made_.push_back(folder);
  }
}

MadeFolders::~MadeFolders() {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);  // only if it is empty
}

}  // namespace dtrain::report
