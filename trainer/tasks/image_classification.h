// --task=image_classification.
#pragma once

#include "trainer/tasks/task_kind.h"

namespace dtrain::loop {

const TaskKind& ImageClassification();

}  // namespace dtrain::loop
