// A walk over the table of flags: a flag that exists is in the JSON.
#include "trainer/config/config_json.h"

#include <string_view>

#include "trainer/config/flags.h"

namespace dtrain::config {
namespace {

constexpr std::string_view kSecretFlag = "run_token";  // not for files that others may read

struct JsonOf {
  nlohmann::ordered_json operator()(std::monostate) const { return nullptr; }
  template <typename T>
  nlohmann::ordered_json operator()(const T& value) const {
    return value;
  }
};

}  // namespace

nlohmann::ordered_json ToJson(const Config& config) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Flag& flag : Flags()) {
    json[flag.name] = flag.name == kSecretFlag ? "" : std::visit(JsonOf(), flag.get(config));
  }
  return json;
}

}  // namespace dtrain::config
