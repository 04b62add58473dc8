#include "trainer/doctor/finding.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/shown.h"
#include "trainer/report/log.h"

namespace dtrain::doctor {
namespace {

const char* NameOf(Verdict verdict) {
  if (verdict == Verdict::kOk) return "ok";
  return verdict == Verdict::kWarning ? "warning" : "failed";
}

std::string AsText(const Finding& finding) {
  char start[64];
  std::snprintf(start, sizeof start, "%-8s %-14s ", NameOf(finding.verdict), finding.check.c_str());
  return start + Shown(finding.what + (finding.remedy.empty() ? "" : "; " + finding.remedy));
}

std::string AsJson(const Finding& finding, int rank) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  nlohmann::ordered_json json = {{"check", finding.check}, {"verdict", NameOf(finding.verdict)},
                                 {"what", finding.what},   {"remedy", finding.remedy},
                                 {"rank", rank},           {"host", host}};
  if (finding.verdict == Verdict::kFailed) json["exit_code"] = static_cast<int>(finding.code);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Finding Ok(const std::string& check, const std::string& what) { return {.check = check, .what = what}; }

Finding Warning(const std::string& check, const std::string& what, const std::string& remedy) {
  return {.check = check, .verdict = Verdict::kWarning, .what = what, .remedy = remedy};
}

Finding Failed(const std::string& check, ExitCode code, const std::string& what, const std::string& remedy) {
  return {.check = check, .verdict = Verdict::kFailed, .what = what, .remedy = remedy, .code = code};
}

Finding Tried(const std::string& check, const std::function<Finding()>& look) {
  try {
    return look();
  } catch (const Error& error) {
    return Failed(check, error.code(), error.what(), error.hint());
  }
}

void Findings::Say(const Finding& finding) {
  if (finding.verdict == Verdict::kFailed && code_ == ExitCode::kDone) code_ = finding.code;
  const std::string prefix = world_size_ > 1 ? "[rank " + std::to_string(rank_) + "] " : "";
  report::PrintAnswer(as_json_ ? AsJson(finding, rank_) : prefix + AsText(finding));
}

}  // namespace dtrain::doctor
