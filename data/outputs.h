// Nothing is written over what is read, nor over a run: commands check here where they are going to write, before they
// begin. Files are compared by device and inode, so that another spelling of a name, a symbolic link and a hard link
// are recognised.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dtrain::data {

// Whether both exist and are the same file or folder.
bool IsSameFile(const std::string& a, const std::string& b);

// Whether `folder` is a checkpoint, RUN/checkpoints/step-….
bool IsCheckpoint(const std::string& folder);

// Whether `folder` is a run directory or a checkpoint.
bool IsRun(const std::string& folder);

// Whether a file or folder of this name in a run directory is a result of the run. False for its lock and its logs, for
// aside-N with an earlier run, and for unknown files.
bool IsResultOfRun(const std::string& name);

// Throws Error (exit code 2) if writing the file `output` would replace one of the files `inputs`, a file of a run, or
// something that is no regular file. Neither `output` nor the inputs need exist.
void RequireOtherFile(const std::string& output, const std::vector<std::string>& inputs);

// Throws Error (exit code 2) if the folder `output` is one of `inputs`, a run, or a part of one, or if it has files
// (hidden ones do not count) and `is_own` does not know it as an earlier output of this command.
void RequireOwnFolder(const std::string& output, const std::vector<std::string>& inputs,
                      const std::function<bool(const std::string& folder)>& is_own);

}  // namespace dtrain::data
