// manifest.json of a checkpoint: the sizes and checksums of its files. It also holds the SHA-256 of its own content and
// is accepted only if it is byte for byte the text that this program writes, so that no bit of it can change unnoticed.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trainer/checkpoint/durable_file.h"

namespace dtrain::checkpoint {

struct Manifest {
  int64_t step = 0;
  std::map<std::string, FileDigest> files;  // by file name in the checkpoint's folder
};

// Returns the content of manifest.json.
std::string ManifestText(const Manifest& manifest);

// Parses the content of manifest.json. Throws StorageError naming what is wrong with it.
Manifest ParseManifest(const std::string& text);

}  // namespace dtrain::checkpoint
