#include "data/pipeline/size_schedule.h"

#include <string_view>

#include "data/whole_number.h"

namespace dtrain::data {
namespace {

constexpr int64_t kLargestSize = 8192;  // pixels

}  // namespace

std::optional<SizeSchedule> ParseSizeSchedule(const std::string& text) {
  SizeSchedule schedule;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view change = rest.substr(0, comma);
    const size_t colon = change.find(':');
    if (colon == std::string_view::npos || comma == rest.size() - 1) return std::nullopt;
    const auto epoch = WholeNumber(change.substr(0, colon)), size = WholeNumber(change.substr(colon + 1));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (!epoch || !size || *size < 1 || *size > kLargestSize) return std::nullopt;
    if (schedule.empty() ? *epoch != 0 : *epoch <= schedule.back().epoch) return std::nullopt;
    schedule.push_back({*epoch, *size});
  }
  return schedule;
}

int64_t SizeAt(const SizeSchedule& schedule, int64_t epoch) {
  int64_t size = 0;
  for (const SizeChange& change : schedule) {
    if (change.epoch <= epoch) size = change.size;
  }
  return size;
}

}  // namespace dtrain::data
