// The lines that fairseq-train prints with --log-format=json, for scripts that parse them: the same keys in the same
// order with the same rounding. All values but epoch and update are strings. The loss is in bits per masked token, and
// ppl is 2^loss.
#pragma once

#include <string>

#include "trainer/report/points.h"

namespace dtrain::report {

// For points of text, which have TextCounts. As in fairseq, clip is written only with clipping, loss_scale with fp16,
// gb_free on a GPU, and valid_best_loss from the second evaluation on.
std::string FairseqLine(const TrainPoint& point);
std::string FairseqLine(const ValPoint& point);

}  // namespace dtrain::report
