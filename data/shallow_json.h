// JSON that comes from files. It is parsed without recursion, but copied, compared and written with it: what is nested
// a hundred thousand deep would end the process later, wherever that happens first.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dtrain {

// Throws nlohmann::json::exception where `text` is no JSON, or is nested deeper than anything that we write.
inline nlohmann::json ParseShallow(const std::string& text) {
  constexpr int kDeepest = 64;
  return nlohmann::json::parse(text, [](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    if (depth > kDeepest) throw nlohmann::json::other_error::create(502, "nested too deeply", nullptr);
    return true;
  });
}

}  // namespace dtrain
