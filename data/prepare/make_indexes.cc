// dtrain_data index: rebuilds the indexes before a run of many ranks needs them.
#include <cstdio>

#include "data/error.h"
#include "data/prepare/commands.h"
#include "data/prepare/splits.h"
#include "data/shown.h"

namespace dtrain::data {

void MakeIndexes(const PrepareOptions& options) {
  const std::string format = FormatOf(options);
  if (format == "safetensors" || format == "tokens") {
    throw Error(ExitCode::kUsage, "data of the format " + format + " needs no index file: it has an index of its own",
                "leave this step out");
  }
  for (const OpenSplit& split : OpenSplits(options, true)) {
    std::printf("%s: %s, %lld records, %lld classes, fingerprint %s\n", Shown(split.name).c_str(), format.c_str(),
                static_cast<long long>(split.source->size()), static_cast<long long>(split.source->num_classes()),
                split.source->fingerprint().c_str());
  }
}

}  // namespace dtrain::data
