#include "trainer/config/foreign_command.h"

#include <algorithm>
#include <utility>

#include "trainer/config/flags.h"

namespace dtrain::config {

using command_line::Argument;

std::string FlagName(const Argument& argument) {
  const size_t dashes = argument.text.find_first_not_of('-');
  if (dashes != 1 && dashes != 2) return {};
  std::string name = argument.text.substr(dashes, argument.text.find('=') - dashes);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string FlagValue(const std::vector<Argument>& arguments, size_t place) {
  const size_t equals = arguments[place].text.find('=');
  if (equals != std::string::npos) return arguments[place].text.substr(equals + 1);
  return place + 1 < arguments.size() ? arguments[place + 1].text : "";
}

std::string WithoutBrackets(std::string value) {
  std::erase_if(value, [](char letter) {
    return letter == '(' || letter == ')' || letter == '[' || letter == ']' || letter == ' ';
  });
  return value;
}

std::string NumbersFrom(const std::vector<Argument>& arguments, size_t& place, std::string first) {
  std::string numbers = WithoutBrackets(std::move(first));
  while (place + 1 < arguments.size() && NumberFrom(arguments[place + 1].text)) {
    numbers += "," + arguments[++place].text;
  }
  return numbers;
}

std::optional<std::string> ForeignCommand::Find(const std::vector<std::string>& names) const {
  std::optional<std::string> value;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (std::find(names.begin(), names.end(), FlagName(arguments_[i])) != names.end()) value = FlagValue(arguments_, i);
  }
  return value;
}

std::string ForeignCommand::Value(const std::vector<std::string>& names, const std::string& otherwise) const {
  return Find(names).value_or(otherwise);
}

double ForeignCommand::Number(const std::vector<std::string>& names, double otherwise) const {
  return NumberFrom(Value(names, "")).value_or(otherwise);
}

std::string ForeignCommand::Numbers(const std::vector<std::string>& names, const std::string& otherwise) const {
  std::string numbers = otherwise;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (std::find(names.begin(), names.end(), FlagName(arguments_[i])) == names.end()) continue;
    size_t place = arguments_[i].text.find('=') == std::string::npos ? i + 1 : i;
    numbers = NumbersFrom(arguments_, place, FlagValue(arguments_, i));
  }
  return numbers;
}

}  // namespace dtrain::config
