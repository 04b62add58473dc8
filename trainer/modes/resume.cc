#include "trainer/modes/resume.h"

#include <utility>

#include "trainer/config/config_json.h"
#include "trainer/report/log.h"
#include "trainer/weights/inference_weights.h"
#include "trainer/weights/known_classes.h"

namespace dtrain::loop {
namespace {

void WarnOfInvalid(const std::filesystem::path& directory, const std::string& reason) {
  report::LogWarning("checkpoint " + directory.string() + " cannot be used: " + reason + "; trying the previous one");
}

}  // namespace

std::optional<checkpoint::Snapshot> FindCheckpoint(const std::string& resume, bool restarted,
                                                   const checkpoint::Store& store) {
  std::optional<checkpoint::Checkpoint> found;
  if (resume != "auto" && resume != "none") found = checkpoint::OpenCheckpoint(resume, WarnOfInvalid);
  if (resume == "auto" || restarted) {
    auto newest = store.FindNewestValid(WarnOfInvalid);
    if (newest && (!found || newest->step > found->step)) found = std::move(newest);
  }
  if (!found) return std::nullopt;
  report::LogInfo("resuming from " + found->directory.string());
  return checkpoint::Load(*found);
}

nlohmann::json KeptState(const config::Config& config, const nlohmann::json& identity, const DataSets& data) {
  nlohmann::json kept = {
      {"run", identity}, {"config", config::TrainingPart(config)}, {"classes", ToJson(data.classes)}};
  if (config.data.val_fraction > 0) kept[kHeldOutKey] = data.val->source->fingerprint();
  return kept;
}

Progress ProgressOf(const nlohmann::json& state, const nlohmann::json& kept, bool allow_dataset_change) {
  const auto part = [&state](const char* key) {
    return state.is_object() ? state.value(key, nlohmann::json()) : state;
  };
  RequireSameNames(ClassesFromJson(part("classes"), "the checkpoint"), ClassesFromJson(kept.at("classes"), "this run"));
  RequireSameRun(part("run"), kept.at("run"), allow_dataset_change);
  return ProgressFromJson(part("progress"));
}

}  // namespace dtrain::loop
