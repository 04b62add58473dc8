#include "models/weight_names.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>

namespace dtrain::models {
namespace {

constexpr char kNumber = '#', kNumberFrom1 = '@';

// Returns the name with the beginning that the first fitting row gives it; empty if none fits. `more` is by how much a
// number that is counted from 1 here is larger in the result.
std::string Renamed(std::string_view name, std::span<const NamePair> table, std::string_view NamePair::*from,
                    std::string_view NamePair::*to, int64_t more) {
  for (const NamePair& row : table) {
    std::string_view rest = name;
    std::vector<std::string> numbers;
    const bool fits = std::ranges::all_of(row.*from, [&](char c) {
      if (c != kNumber && c != kNumberFrom1) {
        if (!rest.starts_with(c)) return false;
        rest.remove_prefix(1);
        return true;
      }
      int64_t number = -1;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      if (error != std::errc() || number < 0) return false;
      if (c == kNumberFrom1) number += more;
      numbers.push_back(std::to_string(number));
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
      return number >= 0;
    });
    if (!fits) continue;
    std::string renamed;
    size_t next = 0;
    for (const char c : row.*to) {
      if (c == kNumber || c == kNumberFrom1) {
        renamed += numbers.at(next++);
      } else {
        renamed += c;
      }
    }
    return renamed.append(rest);
  }
  return "";
}

}  // namespace

WeightShapes ShapesOf(const NamedWeights& weights) {
  WeightShapes shapes;
  for (const auto& [name, tensor] : weights) shapes[name] = tensor.sizes().vec();
  return shapes;
}

int64_t RowsNamed(const WeightShapes& weights, std::string_view name) {
  const std::string in_module = "." + std::string(name);
  for (const auto& [own, shape] : weights) {
    if ((own == name || own.ends_with(in_module)) && shape.size() == 2) return shape[0];
  }
  return 0;
}

std::vector<int64_t> SizesIn(const WeightShapes& weights, const std::string& name) {
  const auto found = weights.find(name);
  return found == weights.end() ? std::vector<int64_t>() : found->second;
}

at::Tensor Find(const NamedWeights& weights, std::string_view name) {
  const auto found = std::ranges::find(weights, name, [](const auto& item) { return std::string_view(item.first); });
  return found == weights.end() ? at::Tensor() : found->second;
}

bool AnyBegins(const WeightShapes& weights, const std::string& start) {
  const auto found = weights.lower_bound(start);
  return found != weights.end() && found->first.starts_with(start);
}

bool ContainsWithin(const WeightShapes& weights, std::span<const std::string_view> prefixes, const std::string& name) {
  return weights.contains(name) || std::ranges::any_of(prefixes, [&](const std::string_view prefix) {
           return weights.contains(std::string(prefix) + name);
         });
}

int64_t CountBlocks(const WeightShapes& weights, const std::string& prefix) {
  int64_t count = 0;
  while (AnyBegins(weights, prefix + std::to_string(count) + ".")) ++count;
  return count;
}

bool HaveBlocks(const WeightShapes& weights, const StageNames& names, std::span<const int64_t> blocks) {
  int64_t stage = names.first;
  return std::ranges::all_of(blocks, [&](int64_t of_stage) {
    return CountBlocks(weights, names.before + std::to_string(stage++) + names.behind) == of_stage;
  });
}

NamedWeights WithOurNames(const NamedWeights& weights, std::span<const NamePair> table) {
  NamedWeights renamed = weights;
  for (auto& [name, tensor] : renamed) {
    if (std::string own = Renamed(name, table, &NamePair::theirs, &NamePair::ours, 1); !own.empty()) name = own;
  }
  return renamed;
}

NamedWeights WithTheirNames(const NamedWeights& weights, std::span<const NamePair> table, Unknown unknown) {
  NamedWeights renamed = weights;
  for (auto& [name, tensor] : renamed) {
    std::string theirs = Renamed(name, table, &NamePair::ours, &NamePair::theirs, -1);
    if (theirs.empty() && unknown == Unknown::kRefused) return {};
    if (!theirs.empty()) name = std::move(theirs);
  }
  return renamed;
}

void ReplaceStart(std::string& name, std::string_view start, std::string_view instead) {
  if (name.starts_with(start)) name.replace(0, start.size(), instead);
}

NamedWeights WithoutPrefixes(NamedWeights weights, std::span<const std::string_view> prefixes) {
  for (auto& [name, tensor] : weights) {
    for (const std::string_view prefix : prefixes) ReplaceStart(name, prefix, "");
  }
  return weights;
}

NamedWeights WithPrefix(NamedWeights weights, std::string_view prefix, std::string_view head) {
  for (auto& [name, tensor] : weights) {
    if (name.find(head) == std::string::npos) name.insert(0, prefix);
  }
  return weights;
}

NamedWeights WithSplit(const NamedWeights& weights, std::string_view whole, std::span<const std::string_view> parts) {
  NamedWeights split;
  const auto count = static_cast<int64_t>(parts.size());
  for (const auto& [name, tensor] : weights) {
    const size_t at = name.rfind(whole);
    if (at == std::string::npos || tensor.dim() == 0 || tensor.size(0) % count != 0) {
      split.emplace_back(name, tensor);
      continue;
    }
    const std::vector<at::Tensor> rows = tensor.chunk(count);
    for (size_t i = 0; i < parts.size(); ++i) {
      split.emplace_back(std::string(name).replace(at, whole.size(), parts[i]), rows.at(i).contiguous());
    }
  }
  return split;
}

NamedWeights WithJoined(const NamedWeights& weights, std::span<const std::string_view> parts, std::string_view whole) {
  std::map<std::string, std::vector<at::Tensor>> found;
  NamedWeights joined;
  for (const auto& [name, tensor] : weights) {
    const auto part = std::ranges::find_if(parts, [&](auto one) { return name.rfind(one) != std::string::npos; });
    if (part == parts.end()) {
      joined.emplace_back(name, tensor);
      continue;
    }
    auto& rows = found[std::string(name).replace(name.rfind(*part), part->size(), whole)];
    rows.resize(parts.size());
    rows[static_cast<size_t>(part - parts.begin())] = tensor;
  }
  for (const auto& [name, rows] : found) {
    if (std::ranges::all_of(rows, &at::Tensor::defined)) joined.emplace_back(name, at::cat(rows));
  }
  return joined;
}

bool MoveEpsilon(NamedWeights& weights, double more) {
  bool has_variances = false;
  for (auto& [name, tensor] : weights) {
    if (!name.ends_with(".running_var")) continue;
    has_variances = true;
    // In half precision a small variance is less than the last bit of the sum.
    if (more != 0) tensor = tensor.to(c10::promoteTypes(tensor.scalar_type(), at::kFloat)) + more;
  }
  return has_variances;
}

void LeaveOut(NamedWeights& weights, const std::function<bool(const std::string& name)>& is_out,
              std::vector<std::string>* left_out) {
  std::erase_if(weights, [&](const auto& item) {
    const bool is = is_out(item.first);
    if (is && left_out != nullptr) left_out->push_back(item.first);
    return is;
  });
}

}  // namespace dtrain::models
