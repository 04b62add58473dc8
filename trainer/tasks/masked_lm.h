// --task=masked_lm.
#pragma once

#include "trainer/tasks/task_kind.h"

namespace dtrain::loop {

const TaskKind& MaskedLm();

}  // namespace dtrain::loop
