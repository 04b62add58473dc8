#include "trainer/checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

Manifest FromJson(const Json& json) {
  Manifest manifest;
  const int format = json.at("format").get<int>();
  if (format != kFormat) {
    throw StorageError("manifest.json has format " + std::to_string(format) + "; this program knows " +
                       std::to_string(kFormat));
  }
  manifest.step = json.at("step").get<int64_t>();
  if (manifest.step < 0) throw StorageError("manifest.json has step " + std::to_string(manifest.step));
  for (const auto& [name, file] : json.at("files").items()) {
    manifest.files[name] = {file.at("bytes").get<uint64_t>(), file.at("sha256").get<std::string>()};
  }
  return manifest;
}

}  // namespace

std::string ManifestText(const Manifest& manifest) {
  Json json = {{"format", kFormat}, {"step", manifest.step}, {"files", Json::object()}};
  for (const auto& [name, digest] : manifest.files) {
    json["files"][name] = {{"bytes", digest.bytes}, {"sha256", digest.sha256}};
  }
  constexpr auto kReplace = Json::error_handler_t::replace;  // dump() would throw on names that are not UTF-8
  json["sha256"] = data::Sha256Of(json.dump(2, ' ', false, kReplace));
  return json.dump(2, ' ', false, kReplace) + "\n";
}

Manifest ParseManifest(const std::string& text) {
  Manifest manifest;
  try {
    // Deep nesting does no harm: only three levels are read, and nothing recurses into deeper ones.
    manifest = FromJson(Json::parse(text));
  } catch (const nlohmann::json::exception&) {
    throw StorageError("manifest.json is damaged (not the JSON of a manifest)");
  }
  if (ManifestText(manifest) != text) throw StorageError("manifest.json is damaged (its checksum does not match)");
  return manifest;
}

}  // namespace dtrain::checkpoint
