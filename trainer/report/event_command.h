// --on_event: a command of the user that hears of the run as it goes, such as scripts/events_to_wandb.py. It must not
// be able to slow or end a training: lines for which its pipe has no room are dropped.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trainer/report/points.h"

namespace dtrain::report {

// Writes a JSON object a line to the command's standard input: {"kind":"start",…}, the lines of metrics.jsonl,
// {"kind":"checkpoint",…} and {"kind":"end",…} (docs/metrics.md). The command's standard output goes to standard error,
// so that the last line of the run's own output stays the last.
class EventCommand : public LogSink {
 public:
  struct Facts {
    std::filesystem::path run_directory;
    nlohmann::ordered_json config = {};  // the resolved configuration
  };

  // Starts `command` in a shell, in a process group of its own, which Ctrl-C does not reach. Throws UsageError if that
  // fails.
  EventCommand(const std::string& command, Facts facts);
  // Reports the end, waits a few seconds until the command has ended, and then ends it.
  ~EventCommand() override;
  EventCommand(const EventCommand&) = delete;
  EventCommand& operator=(const EventCommand&) = delete;

  void Resume(int64_t step, double epochs_done) override;
  void Spike(const SpikePoint& point) override { Send(JsonLine(point)); }
  void Train(const TrainPoint& point) override { Send(JsonLine(point)); }
  void Validation(const ValPoint& point) override { Send(JsonLine(point)); }
  void Epoch(const EpochPoint& point) override { Send(JsonLine(point)); }
  void Checkpoint(const CheckpointPoint& point) override { Send(JsonLine(point)); }
  void Finish(const RunResult& result) override { result_ = JsonLine(result); }

 private:
  void Send(const std::string& json);
  // Writes what the pipe has room for. Returns false if something is left of `rest_`.
  bool Flush();
  // Returns whether the command has ended by now.
  bool HasEnded();

  const Facts facts_;
  int pipe_ = -1;        // -1 after the command has closed its end
  pid_t process_ = 0;    // 0 after it has ended
  std::string rest_;     // of a line that was written in part
  int64_t dropped_ = 0;  // lines
  std::optional<std::string> result_;
};

}  // namespace dtrain::report
