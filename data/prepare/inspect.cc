// dtrain_data inspect: prints the content of a data set in a form that is the same for all formats.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/formats/token_dataset.h"
#include "data/image/decode.h"
#include "data/prepare/commands.h"
#include "data/prepare/splits.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

constexpr int64_t kRecordsAtOnce = 512;  // lines are made in parallel, then printed in order

using Json = nlohmann::ordered_json;

void AddImage(const std::vector<uint8_t>& bytes, Json& line) {
  const cv::Mat image = DecodeImage(bytes);
  const cv::Scalar mean = cv::mean(image);
  line["width"] = image.cols;
  line["height"] = image.rows;
  line["mean_rgb"] = {mean[0], mean[1], mean[2]};
}

// Hashes the tokens of a line as int64, so that the result does not depend on their stored type.
void AddTokens(const TokenDataset& tokens, const std::vector<uint8_t>& bytes, Json& line) {
  std::vector<int64_t> ids(bytes.size() / static_cast<size_t>(TokenBytes(tokens.type())));
  WidenTokens(tokens.type(), bytes, ids.data());
  line["length"] = ids.size();
  line["sha256"] = Sha256Of({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int64_t)});
}

std::string Dump(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string Line(const OpenSplit& split, bool with_split, int64_t index, bool decode) {
  const int64_t label = split.source->Label(index);
  const auto& names = split.source->class_names();
  Json line;
  if (with_split) line["split"] = split.name;
  line["index"] = index;
  if (const auto* tokens = dynamic_cast<const TokenDataset*>(split.source.get())) {
    AddTokens(*tokens, tokens->Read(index), line);
    return Dump(line);
  }
  line["label"] = label >= 0 ? Json(label) : Json();
  line["class"] =
      label >= 0 && label < static_cast<int64_t>(names.size()) ? Json(names[static_cast<size_t>(label)]) : Json();
  try {
    const std::vector<uint8_t> bytes = split.source->Read(index);
    line["bytes"] = bytes.size();
    line["sha256"] = Sha256Of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (decode) AddImage(bytes, line);
  } catch (const DataError& error) {
    line["error"] = error.what();
  }
  return Dump(line);
}

}  // namespace

void Inspect(const PrepareOptions& options) {
  const std::string format = FormatOf(options);
  if (options.decode && (format == "safetensors" || format == "tokens")) {
    throw Error(ExitCode::kUsage, "--decode: records of the format " + format + " are not encoded images",
                "leave --decode out");
  }
  const std::vector<OpenSplit> splits = OpenSplits(options, false);
  for (const OpenSplit& split : splits) {
    int64_t count = split.source->size();
    if (options.limit > 0) count = std::min(count, options.limit);
    for (int64_t begin = 0; begin < count; begin += kRecordsAtOnce) {
      std::vector<std::string> lines(static_cast<size_t>(std::min(kRecordsAtOnce, count - begin)));
      const auto make = [&](size_t i) {
        lines[i] = Line(split, splits.size() > 1, begin + static_cast<int64_t>(i), options.decode);
      };
      InParallel(lines.size(), make, 1, Threads(options));
      for (const std::string& line : lines) std::printf("%s\n", line.c_str());
    }
  }
}

}  // namespace dtrain::data
