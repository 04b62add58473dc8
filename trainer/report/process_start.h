// When this process began: what it does before main, loading libraries above all, is part of a run's start.
#pragma once

namespace dtrain::report {

// By /proc; 0 where it does not say.
double SecondsSinceProcessStart();

}  // namespace dtrain::report
