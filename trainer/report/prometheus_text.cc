#include "trainer/report/prometheus_text.h"

#include <charconv>
#include <cmath>

namespace dtrain::report {
namespace {

// Returns the shortest text that reads back as the same number.
std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof(digits), value).ptr};
}

std::string QuotedLabel(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? "\\n" : std::string(1, c);
  }
  return quoted + '"';
}

std::string InBraces(const PrometheusText::Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) text += (text.empty() ? "{" : ",") + name + "=" + QuotedLabel(value);
  return text.empty() ? text : text + "}";
}

}  // namespace

void PrometheusText::Gauge(const std::string& name, std::string_view help, double value, const Labels& labels) {
  Add("gauge", name, help, value, labels);
}

void PrometheusText::Gauge(const std::string& name, std::string_view help, const std::optional<double>& value) {
  if (value) Add("gauge", name, help, *value, {});
}

void PrometheusText::Counter(const std::string& name, std::string_view help, double value) {
  Add("counter", name, help, value, {});
}

void PrometheusText::Add(std::string_view type, const std::string& name, std::string_view help, double value,
                         const Labels& labels) {
  const std::string full = "dtrain_" + name;
  if (std::exchange(last_name_, full) != full) {
    text_.append("# HELP ").append(full).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(full).append(" ").append(type).append("\n");
  }
  text_ += full + InBraces(labels) + " " + Number(value) + "\n";
}

}  // namespace dtrain::report
