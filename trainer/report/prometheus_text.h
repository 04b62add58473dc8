// Writes Prometheus' text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::report {

class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // `name` consists of letters, digits and underscores, and gets the prefix dtrain_. Values of one name must be added
  // one after the other.
  void Gauge(const std::string& name, std::string_view help, double value, const Labels& labels = {});
  // Adds nothing if `value` is empty.
  void Gauge(const std::string& name, std::string_view help, const std::optional<double>& value);
  void Counter(const std::string& name, std::string_view help, double value);

  std::string Take() { return std::move(text_); }

 private:
  void Add(std::string_view type, const std::string& name, std::string_view help, double value, const Labels& labels);

  std::string text_;
  std::string last_name_;  // HELP and TYPE are written only when the name changes
};

}  // namespace dtrain::report
