// Builds the bytes of TensorBoard's events: messages of tensorboard/compat/proto (event, summary, tensor) and of its
// plugin for hyperparameters. Each event is framed as a TFRecord.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/report/points.h"

namespace dtrain::report {

struct EventTime {
  double seconds = 0;  // when the event is written, since 1970
  int64_t step = 0;    // the step that it belongs to
};

// The first event of every file.
std::string FileVersionEvent(double seconds);
// Tells TensorBoard to forget the events of this step and later ones that it has read before.
std::string SessionStartEvent(const EventTime& time);

std::string ScalarsEvent(const EventTime& time, const std::vector<std::pair<std::string, double>>& values);
std::string ImageEvent(const EventTime& time, const std::string& tag, const Picture& picture);
// A text that TensorBoard renders as markdown.
std::string TextEvent(const EventTime& time, const std::string& tag, const std::string& markdown);

// Makes the run a session on the page of hyperparameters. `hyperparameters` is a flat object of numbers, booleans and
// texts; lists are shown as text, and null values are left out.
std::string SessionEvent(const EventTime& time, const nlohmann::json& hyperparameters);
// Marks that session as successfully finished.
std::string SessionEndEvent(const EventTime& time);

// Returns the content `file` of a file of events without the events of steps after `step`, and without a torn end.
std::string EventsUntil(std::string_view file, int64_t step);

}  // namespace dtrain::report
