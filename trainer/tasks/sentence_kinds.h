// The kinds of task text_classification and text_regression.
#pragma once

#include "trainer/tasks/task_kind.h"

namespace dtrain::loop {

const TaskKind& TextClassification();
const TaskKind& TextRegression();

}  // namespace dtrain::loop
