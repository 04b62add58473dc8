// The door that every path passes which a flag names for writing: nothing is written over what is read, over a run,
// over what is no file, nor over a file of others. Programs call it once, before they begin. Files are compared by
// device and inode, so that another spelling of a name, a symbolic link and a hard link are recognised.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dtrain::data {

// What the value of a flag is, as the flag's row says: no path, or one that is read or written.
enum class PathUse { kNone, kRead, kWritten };

// How a file that an earlier call of the same command wrote is known again: it begins with `begins`, and `has` is in
// its first 16 MiB. Both may be empty.
struct Mark {
  std::string begins;
  std::string has = {};
};

// Where a command is going to write, because of a flag.
struct Output {
  std::string flag;                     // with its dashes, for messages
  std::string path;                     // the flag's value
  std::vector<Mark> marks = {};         // an existing file that is not empty may be replaced if it has one of them
  std::vector<std::string> files = {};  // that are replaced; empty: `path` is the only one
  bool in_folder = false;               // `path` is a folder, and `files` lie in it
  // Not empty: the folder is for this command alone, so all files in it must be of an earlier call, which this tells.
  std::function<bool(const std::string& folder)> is_own_folder = {};

  std::vector<std::string> Files() const;  // all that are replaced
};

// Throws Error (exit code 2) if one of the outputs would replace or fill one of `inputs`, a run, something that is
// neither a regular file nor, for a folder, a folder, another output, or a file that no earlier call wrote, or if a
// folder lies in one of `splits`. Neither outputs nor inputs need exist.
void RequireOutputs(const std::vector<Output>& outputs, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& splits = {});

// Throws Error (exit code 2) if a flag's folder lies in one of `splits`, folders of data, whose folders are classes. It
// may be one of them, or hidden.
void RequireOutsideOfSplits(const std::string& flag, const std::string& folder, const std::vector<std::string>& splits);

// Whether `file` is a regular file that has one of the marks.
bool HasMark(const std::string& file, const std::vector<Mark>& marks);

// Whether both exist and are the same file or folder.
bool IsSameFile(const std::string& a, const std::string& b);

// Whether `folder` is a checkpoint, RUN/checkpoints/step-….
bool IsCheckpoint(const std::string& folder);

// Whether `folder` is a run directory or a checkpoint.
bool IsRun(const std::string& folder);

// Whether a file or folder of this name in a run directory is a result of the run. False for its lock and its logs, for
// aside-N with an earlier run, and for unknown files.
bool IsResultOfRun(const std::string& name);

}  // namespace dtrain::data
