// When this process began. The time before main(), mostly for loading libraries, counts as part of a run's start.
#pragma once

namespace dtrain::report {

// Returns the seconds since then according to /proc, or 0 if /proc does not tell.
double SecondsSinceProcessStart();

}  // namespace dtrain::report
