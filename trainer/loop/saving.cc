#include "trainer/loop/saving.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "trainer/weights/module_state.h"

namespace dtrain::loop {
using report::Phase;
using report::SecondsSince;

double DalyInterval(double stall, double written, double between_faults) {
  if (stall >= 2 * between_faults) return std::max(between_faults, written);
  const double part = stall / (2 * between_faults);
  const double young = std::sqrt(2 * stall * between_faults);
  return std::max(young * (1 + std::sqrt(part) / 3 + part / 9) - stall, written);
}

SaveInterval::SaveInterval(const config::RunConfig& config)
    : between_faults_(3600 * config.expected_hours_between_faults) {
  if (config.save_every_seconds != "auto") given_ = std::strtod(config.save_every_seconds.c_str(), nullptr);
}

void SaveInterval::Note(double stall, std::optional<double> written) {
  stalls_ += stall;
  ++num_saves_;
  written_ = written.value_or(written_);
}

std::optional<double> SaveInterval::seconds() const {
  if (given_) return *given_ > 0 ? given_ : std::nullopt;
  if (num_saves_ == 0) return kFirstSeconds;
  const double stall = stalls_ / num_saves_;
  return DalyInterval(stall, written_, between_faults_) + stall;
}

bool Saving::IsDueByTime() const {
  const std::optional<double> every = interval_.seconds();
  return writer_ != nullptr && every && SecondsSince(last_) >= *every;
}

void Saving::Save(const Progress& progress, const optim::ParameterUpdate& update, const optim::WeightAverage* average) {
  phases_.Enter(Phase::kSaving);
  last_ = std::chrono::steady_clock::now();
  if (writer_ != nullptr) {
    nlohmann::json state = parts_.kept;
    state["progress"] = ToJson(progress);
    auto copies = checkpoint::CopyToHost({weights::StateOf(parts_.task.module()), update.State(),
                                          average != nullptr ? average->tensors() : checkpoint::NamedTensors()});
    writer_->Save({.step = progress.step,
                   .model = std::move(copies.sets[0]),
                   .optimizer = std::move(copies.sets[1]),
                   .average = std::move(copies.sets[2]),
                   .state = std::move(state),
                   .wait = std::move(copies.wait)});
    ReportSaved();  // the one before
    interval_.Note(SecondsSince(last_), writer_->last_save_seconds());
  }
  phases_.Enter(Phase::kOther);
}

void Saving::SaveBest(int64_t step, const optim::WeightAverage* average) {
  if (writer_ == nullptr) return;
  phases_.Enter(Phase::kSaving);  // waits if the previous best weights are still being written
  auto copies =
      checkpoint::CopyToHost({average != nullptr ? average->tensors() : weights::StateOf(parts_.task.module())});
  writer_->SaveBest(step, std::move(copies.sets[0]), std::move(copies.wait));
  phases_.Enter(Phase::kOther);
}

void Saving::Finish() {
  phases_.Enter(Phase::kSaving);
  if (writer_ != nullptr) writer_->Wait();
  ReportSaved();
  phases_.Enter(Phase::kOther);
}

void Saving::ReportSaved() {
  if (writer_ == nullptr) return;
  const std::optional<int64_t> step = writer_->last_saved_step();
  if (!step || step == std::exchange(reported_step_, step)) return;
  parts_.reporter.Checkpoint({*step, checkpoint::Store(parts_.files.root).DirectoryOf(*step).string()});
}

void Saving::AddTo(report::TrainPoint& point) const {
  if (writer_ == nullptr) return;
  point.checkpoint_age = writer_->seconds_since_last_success();
  point.checkpoint_seconds = writer_->last_save_seconds();
}

}  // namespace dtrain::loop
