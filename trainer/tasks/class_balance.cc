#include "trainer/tasks/class_balance.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "data/joined.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/utf8.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"

namespace dtrain::tasks {
namespace {

std::string NameOf(size_t label, const std::vector<std::string>& names) {
  return label < names.size() ? Shown(names[label]) : std::to_string(label);
}

// Returns "3 classes have <what>: a, b, c"; an empty string if `counts` has no class for which `is_one` holds.
template <typename Predicate>
std::string ClassesThat(const std::string& what, const std::vector<int64_t>& counts,
                        const std::vector<std::string>& names, Predicate is_one) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> found;
  for (size_t label = 0; label < counts.size(); ++label) {
    if (is_one(label)) found.push_back(NameOf(label, names));
  }
  if (found.empty()) return "";
  return CountOf(static_cast<int64_t>(found.size()), "class") + (found.size() == 1 ? " has " : " have ") + what + ": " +
         FirstOf(found, kMostNamed);
}

void WarnUnlessEmpty(const std::string& sentence) {
  if (!sentence.empty()) report::LogWarning(sentence);
}

double WeightOf(const std::string& choice, int64_t samples) {
  if (samples == 0) return 0;
  const auto count = static_cast<double>(samples);
  if (choice == "inverse") return 1 / count;
  if (choice == "sqrt") return 1 / std::sqrt(count);
  constexpr double kBeta = 0.999;
  return (1 - kBeta) / (1 - std::pow(kBeta, count));
}

// Returns what a cell of CSV in quotation marks says, and others as they are.
std::string Unquoted(const std::string& cell) {
  if (cell.size() < 2 || !cell.starts_with('"') || !cell.ends_with('"')) return cell;
  std::string text;
  for (size_t i = 1; i + 1 < cell.size(); ++i) {
    text += cell[i];
    if (cell[i] == '"' && cell[i + 1] == '"') ++i;  // written twice
  }
  return text;
}

std::vector<double> WeightsFromFile(const std::string& file, size_t classes, const std::vector<std::string>& names) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  if (!data::IsFile(file)) {
    throw UsageError("--class_weights=" + file + " is neither none, inverse, sqrt or effective nor a file",
                     "a file has a line NAME,WEIGHT for each class");
  }
  const auto refuse = [&file](int64_t line, const std::string& why) {
    throw UsageError(file + ", line " + std::to_string(line) + ": " + why,
                     "each class has one line, NAME,WEIGHT, or WEIGHT in the order of the labels");
  };
  std::vector<double> weights(classes, -1);
  std::istringstream text(std::string(data::WithoutByteOrderMark(checkpoint::ReadTextFile(file, kMostBytes))));
  int64_t number = 0;
  size_t next = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const size_t comma = line.rfind(',');
    size_t label = next++;
    if (comma != std::string::npos) {
      const std::string name = line.substr(0, comma);
      auto found = std::ranges::find(names, name);
      if (found == names.end()) found = std::ranges::find(names, Unquoted(name));
      label = static_cast<size_t>(found - names.begin());
      if (label >= names.size()) refuse(number, "'" + Shown(name, 80) + "' is not a class of the data");
    }
    if (label >= classes) refuse(number, "there are only " + CountOf(static_cast<int64_t>(classes), "class"));
    const auto weight = config::NumberFrom(Unquoted(comma == std::string::npos ? line : line.substr(comma + 1)));
    if (!weight || !(*weight >= 0) || std::isinf(*weight)) refuse(number, "expected a finite weight, 0 or more");
    if (weights[label] >= 0) refuse(number, "class " + NameOf(label, names) + " has a weight already");
    weights[label] = *weight;
  }
  const auto missing = std::ranges::find(weights, -1.0);
  if (missing != weights.end()) {
    refuse(number, "class " + NameOf(static_cast<size_t>(missing - weights.begin()), names) + " has no weight");
  }
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) {
    refuse(number, "all weights are 0");
  }
  return weights;
}

// Returns the number of samples of each class, or of each of several labels. Samples without a label are not counted.
std::vector<int64_t> CountClasses(const data::RecordSource& source, int64_t num_classes) {
  std::vector<int64_t> counts(static_cast<size_t>(std::max<int64_t>(num_classes, 0)));
  std::vector<float> targets(static_cast<size_t>(source.num_targets()));
  for (int64_t i = 0; i < source.size(); ++i) {
    if (!source.HasTargets(i)) continue;
    source.Targets(i, targets);
    for (size_t label = 0; label < std::min(targets.size(), counts.size()); ++label)
      counts[label] += targets[label] > 0;
    const int64_t label = source.Label(i);
    if (label >= 0 && label < num_classes) ++counts[static_cast<size_t>(label)];
  }
  return counts;
}

}  // namespace

void SayClassBalance(const DataSets& sets) {
  if (!sets.train || sets.classes.count == 0 || !sets.scale.means.empty()) return;
  if (sets.classes.count == 1 && sets.train->source->Label(0) == 0) {
    report::LogWarning(sets.train->name + ": all samples are of one class, so that nothing is learned");
    return;
  }
  const std::vector<std::string>& names = sets.classes.names;
  const std::vector<int64_t> counts = CountClasses(*sets.train->source, sets.classes.count);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*most == 0) return;  // the format has no labels
  if (*most >= 2 * *least) {
    const auto of = [&](auto place) {
      return std::to_string(*place) + " (" + NameOf(static_cast<size_t>(place - counts.begin()), names) + ")";
    };
    report::LogInfo(sets.train->name + ": the " + CountOf(sets.classes.count, "class") + " have " + of(least) + " to " +
                    of(most) + " samples");
  }
  const auto has = [](const std::vector<int64_t>& of, int64_t count) {
    return [&of, count](size_t label) { return of[label] == count; };
  };
  WarnUnlessEmpty(ClassesThat("no training sample", counts, names, has(counts, 0)));
  WarnUnlessEmpty(ClassesThat("a single training sample", counts, names, has(counts, 1)));
  if (!sets.val) return;
  const std::vector<int64_t> of_val = CountClasses(*sets.val->source, sets.classes.count);
  WarnUnlessEmpty(ClassesThat("no validation sample, so that nothing tells how well it is learned", of_val, names,
                              [&](size_t label) { return of_val[label] == 0 && counts[label] > 0; }));
}

std::vector<double> ClassWeights(const std::string& choice, const std::vector<int64_t>& counts,
                                 const std::vector<std::string>& names) {
  if (choice == "none") return {};
  if (choice != "inverse" && choice != "sqrt" && choice != "effective") {
    return WeightsFromFile(choice, counts.size(), names);
  }
  std::vector<double> weights;
  double sum = 0, samples = 0;
  for (const int64_t count : counts) {
    weights.push_back(WeightOf(choice, count));
    sum += weights.back() * static_cast<double>(count);
    samples += static_cast<double>(count);
  }
  for (double& weight : weights) weight *= samples / sum;
  return weights;
}

std::vector<double> LabelWeights(const std::string& choice, const std::vector<int64_t>& counts, int64_t samples,
                                 const std::vector<std::string>& names) {
  if (choice != "inverse" && choice != "sqrt" && choice != "effective") return ClassWeights(choice, counts, names);
  std::vector<double> weights;
  for (const int64_t count : counts) {
    const bool are_all_alike = count == 0 || count == samples;
    weights.push_back(are_all_alike ? 1 : WeightOf(choice, count) / WeightOf(choice, samples - count));
  }
  return weights;
}

std::vector<double> ClassWeights(const std::string& choice, const DataSets& sets) {
  if (choice == "none") return {};
  const data::RecordSource& source = *sets.train->source;
  const std::vector<int64_t> counts = CountClasses(source, sets.num_classes);
  return source.num_targets() > 0 ? LabelWeights(choice, counts, source.size(), sets.classes.names)
                                  : ClassWeights(choice, counts, sets.classes.names);
}

}  // namespace dtrain::tasks
