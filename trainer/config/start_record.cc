#include "trainer/config/start_record.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>

namespace dtrain::config {
namespace {

constexpr char kSecret[] = "run_token";

// Replaces the value of "--run-token=x" and "--run_token x" by "…".
std::vector<std::string> WithoutSecret(const std::vector<std::string>& command) {
  std::vector<std::string> shown;
  bool follows = false;
  for (const std::string& word : command) {
    std::string name = word.substr(0, word.find('='));
    name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
    std::replace(name.begin(), name.end(), '-', '_');
    const bool is_secret = word.starts_with('-') && name == kSecret;
    if (follows) {
      shown.emplace_back("…");
    } else if (is_secret && word.find('=') != std::string::npos) {
      shown.push_back(word.substr(0, word.find('=') + 1) + "…");
    } else {
      shown.push_back(word);
    }
    follows = is_secret && word.find('=') == std::string::npos;
  }
  return shown;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

nlohmann::ordered_json StartRecord(const Start& start, const Config& config) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::error_code ignored;
  std::set<std::string> given(config.given.begin(), config.given.end());
  given.erase(kSecret);
  return {{"version", start.version},
          {"commit", start.commit},
          {"host", host},
          {"directory", std::filesystem::current_path(ignored).string()},
          {"command", WithoutSecret(start.command)},
          {"time", Now()},
          {"given", given}};
}

}  // namespace dtrain::config
