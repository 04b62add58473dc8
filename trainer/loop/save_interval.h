// --save_every_seconds: the time between the beginnings of two saves, given or chosen with auto. Auto takes Daly's
// interval, which saves more often the more often there are faults, and less often the longer a save stops the
// training; how long a restart takes does not matter for it. scripts/save_interval.py shows what is to be gained. J. T.
// Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006).
#pragma once

#include <optional>

#include "trainer/config/config.h"

namespace dtrain::loop {

// Returns the seconds of work between two saves with the least cost. `stall`: the seconds that a save stops the
// training; `written`: those until it is on the disk, the least that is returned; `between_faults`: the mean time
// between two faults, in seconds.
double DalyInterval(double stall, double written, double between_faults);

class SaveInterval {
 public:
  explicit SaveInterval(const config::RunConfig& config);

  // Takes what a save has cost, in seconds; `written` is empty as long as no save is on the disk. With auto the
  // interval follows the mean of all stalls, and the last time to write.
  void Note(double stall, std::optional<double> written);
  // Seconds from the beginning of a save to that of the next; empty if time is no reason to save. Auto saves for the
  // first time after kFirstSeconds, and knows then what a save costs.
  std::optional<double> seconds() const;

  static constexpr double kFirstSeconds = 30;

 private:
  std::optional<double> given_;  // empty: auto
  double between_faults_;
  double stalls_ = 0;
  int num_saves_ = 0;
  double written_ = 0;
};

}  // namespace dtrain::loop
