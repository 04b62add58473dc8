// The lines that fairseq-train prints with --log-format=json, which people's scripts parse: its keys in its order, and
// its rounding. All but epoch and update are strings. The loss is in bits a masked token, ppl is 2 to its power.
#pragma once

#include <string>

#include "trainer/report/points.h"

namespace dtrain::report {

// Points of text, which have counts. As in fairseq, clip is there with clipping, loss_scale with fp16, gb_free on a
// GPU, and valid_best_loss from the second evaluation on.
std::string FairseqLine(const TrainPoint& point);
std::string FairseqLine(const ValPoint& point);

}  // namespace dtrain::report
