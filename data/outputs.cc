#include "data/outputs.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "data/error.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

// Returns an absolute path without links, "." and "..", as far as it exists, and without a slash at its end.
fs::path Real(const fs::path& path) {
  std::error_code unreadable;  // for example, a link to itself
  fs::path real = fs::weakly_canonical(path, unreadable);
  if (unreadable) real = path.lexically_normal();
  return real.has_filename() ? real : real.parent_path();
}

// The names that writing `path` may replace: the file's, and the temporary ones of written_file.h and durable_file.h.
std::array<fs::path, 3> ReplacedBy(const fs::path& path) {
  fs::path partial = path, hidden = path;
  partial += ".partial";
  hidden.replace_filename("." + path.filename().string() + ".tmp");
  return {path, partial, hidden};
}

// Returns the run that `path` is or is a part of. `path` may be any name in a run, but not one that no run uses.
std::optional<fs::path> RunOf(const fs::path& path) {
  constexpr std::array<std::string_view, 3> kAlso = {"lock", "logs", "tokenizer"};
  if (IsRun(path)) return path;
  for (fs::path part = path; part.has_relative_path(); part = part.parent_path()) {
    const fs::path folder = part.parent_path();
    if (!IsRun(folder)) continue;
    const std::string name = part.filename().string();
    const bool is_used = std::find(kAlso.begin(), kAlso.end(), name) != kAlso.end() || name.starts_with("aside-");
    if (IsCheckpoint(folder) || is_used || IsResultOfRun(name)) return folder;
  }
  return std::nullopt;
}

[[noreturn]] void Refuse(const std::string& what) {
  throw Error(ExitCode::kUsage, what, "choose another place to write to");
}

void RequireOutsideOfRuns(const std::string& output) {
  // The last part of the name may be a link, which would be replaced, and what it points to may be a run's.
  const fs::path named = fs::absolute(output);
  const fs::path entry = Real(named.parent_path()) / named.filename();
  for (const fs::path& path : {entry, Real(named)}) {
    if (const auto run = RunOf(path)) {
      Refuse(output + " belongs to the run in " + run->string() + ": it would be damaged");
    }
  }
}

void RequireFile(const std::string& file, const Output& output, const std::vector<std::string>& inputs) {
  for (const fs::path& replaced : ReplacedBy(file)) {
    if (!Exists(replaced)) continue;
    for (const std::string& input : inputs) {
      if (IsSameFile(replaced, input)) Refuse("writing " + file + " would replace " + input + ", which is read");
    }
  }
  std::error_code unreadable;
  const fs::file_status status = fs::status(file, unreadable);
  const std::string folder = Real(fs::absolute(file).parent_path()).string();
  const bool is_of_system = !output.in_folder && (folder == "/dev" || folder.starts_with("/proc/"));
  if ((fs::exists(status) && !fs::is_regular_file(status)) || is_of_system) {
    Refuse(file + " is no regular file, so it cannot be replaced");
  }
  RequireOutsideOfRuns(file);
  if (!fs::exists(status) || fs::file_size(file, unreadable) == 0 || HasMark(file, output.marks)) return;
  const bool was_run = output.in_folder && Exists(fs::path(output.path) / "attempts");
  throw Error(ExitCode::kUsage, file + " exists, and this command did not write it: it would be lost",
              was_run ? "the config.json of this run is missing: copy the last file of its attempts there"
                      : "choose another place to write to, or move the file away");
}

void RequireFolder(const Output& output, const std::vector<std::string>& inputs) {
  const std::string& path = output.path;
  std::error_code error;  // a folder that cannot be listed cannot be written, which its caller reports
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status)) Refuse(path + " is no folder");
  if (!output.is_own_folder) return;
  for (const std::string& input : inputs) {
    if (IsSameFile(path, input)) Refuse(path + " is read: nothing can be written into it");
  }
  RequireOutsideOfRuns(path);
  for (fs::directory_iterator entry(path, error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".") || name == "lost+found") continue;
    if (output.is_own_folder(path)) return;
    Refuse("the folder " + path + " has files of another origin, such as " + name);
  }
}

}  // namespace

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool HasMark(const std::string& file, const std::vector<Mark>& marks) {
  constexpr std::streamsize kMostBytes = 1 << 24;
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable)) return false;
  std::string start(kMostBytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(start.data(), kMostBytes);
  start.resize(static_cast<size_t>(stream.gcount()));
  const std::string_view text = WithoutByteOrderMark(start);
  return std::ranges::any_of(marks, [&](const Mark& mark) {
    return text.starts_with(mark.begins) && text.find(mark.has) != std::string_view::npos;
  });
}

bool IsCheckpoint(const std::string& folder) {
  return Exists(fs::path(folder) / "manifest.json") && Exists(fs::path(folder) / "state.json");
}

bool IsRun(const std::string& folder) {
  const auto has = [&](const char* name) { return Exists(fs::path(folder) / name); };
  return (has("config.json") && (has("attempts") || has("checkpoints") || has("metrics.jsonl"))) ||
         IsCheckpoint(folder);
}

bool IsResultOfRun(const std::string& name) {
  constexpr std::array<std::string_view, 15> kNames = {
      "config.json", "attempts",    "classes.txt",          "metrics.jsonl",          "times.jsonl",
      "result.json", "checkpoints", "model.safetensors",    "model_best.safetensors", "model_ema.safetensors",
      "latest",      "profile",     "confusion_matrix.csv", "class_accuracy.csv",     "spikes.jsonl"};
  constexpr std::array<std::string_view, 4> kBeginnings = {"quarantine.", "error.", "events.out.tfevents.", "eval-"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](auto start) { return name.starts_with(start); });
}

std::vector<std::string> Output::Files() const { return in_folder || !files.empty() ? files : std::vector{path}; }

void RequireOutsideOfSplits(const std::string& flag, const std::string& folder,
                            const std::vector<std::string>& splits) {
  for (fs::path part = Real(fs::absolute(folder)); part.has_relative_path(); part = part.parent_path()) {
    if (part.filename().string().starts_with(".")) return;
    for (const std::string& split : splits) {
      if (!IsSameFile(part.parent_path(), split)) continue;
      throw Error(ExitCode::kUsage,
                  flag + ": " + folder + " lies in the data of " + split + ", whose folders are classes",
                  "choose another place to write to");
    }
  }
}

void RequireOutputs(const std::vector<Output>& outputs, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& splits) {
  std::set<fs::path> written;
  for (const Output& output : outputs) {
    if (output.in_folder) RequireOutsideOfSplits(output.flag, output.path, splits);
    try {
      if (output.in_folder) RequireFolder(output, inputs);
      for (const std::string& file : output.Files()) {
        RequireFile(file, output, inputs);
        if (!written.insert(Real(fs::absolute(file))).second) Refuse(file + " is written for another flag, too");
      }
    } catch (const Error& error) {
      throw Error(error.code(), output.flag + ": " + error.what(), error.hint());
    }
  }
}

}  // namespace dtrain::data
