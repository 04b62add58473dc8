// --mode=eval: the weights of --init_weights, or of a run directory's newest checkpoint, on the validation split.
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "trainer/checkpoint/store.h"
#include "trainer/errors.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/run_quarantine.h"
#include "trainer/modes/run.h"
#include "trainer/modes/session.h"
#include "trainer/report/log.h"
#include "trainer/report/run_directory.h"
#include "trainer/tasks/make_task.h"
#include "trainer/weights/inference_weights.h"

namespace dtrain::loop {

void EvaluateOnly(const RunContext& context) {
  const config::Config& config = context.config;
  const auto start = std::chrono::steady_clock::now();
  Session session(context);
  const TrainedWeights weights = ReadInferenceWeights(config);
  if (context.launch.rank == 0) report::LogInfo("evaluating " + weights.origin);
  const DataSets data = session.OpenData(ClassesOf(config, weights));
  session.Connect({{"data_fingerprint", data.val->source->fingerprint()}});
  const auto task = MakeInferenceTask(config, weights, session.device);

  const auto quarantine = MakeRunQuarantine(*data.val, config.data, /*path=*/"", "left out", *session.control);
  report::RunResult result;
  result.validation = Evaluate(*task, *data.val, config, *session.communicator, *session.control,
                               /*steps_done=*/0, *quarantine);
  if (!result.validation) throw Preempted("stopped in the middle of the evaluation", "run the same command again");
  session.Leave();
  if (context.launch.rank != 0) return;

  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.samples_seen = result.validation->samples;
  result.world_size = context.launch.world_size;
  result.speed_unit = task->speed_unit();
  result.speed = static_cast<double>(result.validation->units) / result.seconds;
  std::error_code unreadable;
  // A training run keeps its own result.
  const report::RunDirectory files(session.run_directory);
  if (!session.run_directory.empty() && !std::filesystem::exists(files.root / "checkpoints", unreadable)) {
    report::PrepareRunDirectory(files);
    report::WriteTextFile(files.result_json, report::ResultJson(result));
  }
  if (config.report.log_format == "json") {
    std::printf("%s\n%s\n", report::JsonLine(*result.validation).c_str(), report::JsonLine(result).c_str());
  } else {
    std::printf("%s\n", report::FinalLine(result).c_str());
  }
}

}  // namespace dtrain::loop
