// manifest.json of a checkpoint: what its files must look like. It also carries the SHA-256 of its own content, and is
// accepted only if it is byte for byte the text that this program writes: no bit of it can change unnoticed.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trainer/checkpoint/durable_file.h"

namespace dtrain::checkpoint {

struct Manifest {
  int64_t step = 0;
  std::map<std::string, FileDigest> files;  // by name inside the folder
};

std::string ManifestText(const Manifest& manifest);

// Throws StorageError saying what is wrong with the text.
Manifest ParseManifest(const std::string& text);

}  // namespace dtrain::checkpoint
