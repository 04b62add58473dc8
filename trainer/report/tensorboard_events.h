// TensorBoard's events as bytes: messages of tensorboard/compat/proto (event, summary, tensor) and of its plugin for
// hyperparameters, each framed as a TFRecord.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/report/points.h"

namespace dtrain::report {

// When it is said, in seconds since 1970, and of which step.
struct EventTime {
  double seconds = 0;
  int64_t step = 0;
};

// What every file of events begins with.
std::string FileVersionEvent(double seconds);
// The events of this step and later ones that were read before are void.
std::string SessionStartEvent(const EventTime& time);

std::string ScalarsEvent(const EventTime& time, const std::vector<std::pair<std::string, double>>& values);
std::string ImageEvent(const EventTime& time, const std::string& tag, const Picture& picture);
// `markdown` is shown as such.
std::string TextEvent(const EventTime& time, const std::string& tag, const std::string& markdown);

// The run as a session of the hyperparameters' page. `hyperparameters` is a flat object of numbers, truths and texts;
// lists are shown as text, what is null is left out.
std::string SessionEvent(const EventTime& time, const nlohmann::json& hyperparameters);
// It is done.
std::string SessionEndEvent(const EventTime& time);

// What is left of a file of such events without those that come after `step`, and without a torn end.
std::string EventsUntil(std::string_view file, int64_t step);

}  // namespace dtrain::report
