#include "data/sentences/table_columns.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/shown.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

// The names that data sets use, in lower case.
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"sentence1", "sentence2"},   {"premise", "hypothesis"},     {"question1", "question2"}, {"question", "sentence"},
    {"question", "passage"},      {"text", "text_pair"},         {"text1", "text2"},         {"text_a", "text_b"},
    {"sentence_a", "sentence_b"}, {"sentence", "sentence_pair"}, {"#1 string", "#2 string"}};
constexpr std::pair<std::string_view, std::string_view> kAlike[] = {
    {"anchor", "positive"}, {"query", "positive"}, {"query", "pos"},       {"query", "passage"},
    {"query", "document"},  {"query", "answer"},   {"question", "answer"}, {"premise", "entailment"}};
constexpr std::string_view kNegatives[] = {"negative", "hard_negative", "neg", "contradiction"};  // and negative_1 …
constexpr std::string_view kScores[] = {
    "score", "scores", "label", "labels", "similarity", "similarity_score", "relatedness_score"};
constexpr std::string_view kTexts[] = {"text",    "sentence", "review",  "content", "comment",  "comment_text",
                                       "tweet",   "document", "message", "body",    "question", "sentence1",
                                       "premise", "headline", "query",   "input",   "anchor"};
constexpr std::string_view kLabels[] = {"label",      "labels", "gold_label", "score",    "is_duplicate",
                                        "quality",    "target", "class",      "category", "sentiment",
                                        "similarity", "rating", "stars",      "intent",   "topic"};
constexpr std::string_view kQqpHeader[] = {"id", "qid1", "qid2", "question1", "question2", "is_duplicate"};

std::string LowerCase(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20, kMostBytes = 60;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    list += (i > 0 ? ", '" : "'") + Shown(names[i], kMostBytes) + "'";
  return list + (names.size() > kMost ? ", …" : "");
}

// Finds columns of one table.
class Columns {
 public:
  explicit Columns(const TableReader& table) : table_(table) {
    for (const std::string& name : table.header()) lower_.push_back(LowerCase(name));
  }

  std::optional<size_t> Find(std::string_view known) const {
    const auto found = std::ranges::find(lower_, known);
    if (found == lower_.end()) return std::nullopt;
    return static_cast<size_t>(found - lower_.begin());
  }

  // The column that the user has named, or numbered from 0 if none has this name.
  size_t Named(const std::string& name, const std::string& flag) const {
    const auto& header = table_.header();
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) {
      const auto number = WholeNumber<size_t>(name);
      if (number && *number < header.size()) return *number;
      throw DataError(table_.name() + " has no column '" + name + "'; it has " + Listed(header),
                      "name one of these with " + flag);
    }
    if (std::find(found + 1, header.end(), name) != header.end()) {
      throw DataError(table_.name() + " has two columns '" + name + "'", "give each column a name of its own");
    }
    return static_cast<size_t>(found - header.begin());
  }

  // The columns that the user has named, with commas between the names.
  std::vector<size_t> AllNamed(const std::string& list, const std::string& flag) const {
    std::vector<size_t> found;
    std::istringstream names(list);
    for (std::string name; std::getline(names, name, ',');) found.push_back(Named(name, flag));
    return found;
  }

  // The columns with these names, and with the first of them and a number.
  std::vector<size_t> AllOf(std::span<const std::string_view> known) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < lower_.size(); ++i) {
      const std::string_view stem =
          std::string_view(lower_[i]).substr(0, lower_[i].find_last_not_of("0123456789_") + 1);
      if (std::ranges::find(known, lower_[i]) != known.end() || stem == known.front()) found.push_back(i);
    }
    return found;
  }

  // The only column with one of the known names, other than those in `taken`.
  size_t Only(std::span<const std::string_view> known, const std::vector<size_t>& taken, const std::string& what,
              const std::string& flag) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < lower_.size(); ++i) {
      if (std::ranges::find(taken, i) != taken.end()) continue;
      if (std::ranges::find(known, lower_[i]) != known.end()) found.push_back(i);
    }
    if (found.size() == 1) return found.front();
    if (found.empty()) {
      throw DataError(
          table_.name() + " has no column that is known to hold " + what + "; it has " + Listed(table_.header()),
          "name the column with " + flag + " (the first line must hold the names of the columns)");
    }
    std::vector<std::string> names;
    for (const size_t column : found) names.push_back(table_.header()[column]);
    throw DataError(table_.name() + " has several columns that may hold " + what + ": " + Listed(names),
                    "name the right one with " + flag);
  }

  // The columns of the only one of the pairs that are known.
  std::optional<std::pair<size_t, size_t>> KnownPair(
      std::span<const std::pair<std::string_view, std::string_view>> known = kPairs) const {
    std::optional<std::pair<size_t, size_t>> pair;
    for (const auto& [text, other] : known) {
      const auto first = Find(text), second = Find(other);
      if (!first || !second) continue;
      if (pair) {
        const auto& names = table_.header();
        throw DataError(table_.name() + " has several columns that may hold pairs: " +
                            Listed({names[pair->first], names[pair->second], names[*first], names[*second]}),
                        "name the right ones with --text_column and --text_pair_column");
      }
      pair = {*first, *second};
    }
    return pair;
  }

 private:
  const TableReader& table_;
  std::vector<std::string> lower_;
};

// A line of CoLA's train.tsv: source, 0 or 1, * or nothing, the sentence.
bool IsCola(const std::vector<std::string>& first) {
  return first.size() == 4 && (first[1] == "0" || first[1] == "1") && (first[2].empty() || first[2] == "*");
}

}  // namespace

TableColumns ChooseColumns(TableReader& table, const ColumnNames& names, bool wants_label) {
  if (IsCola(table.header())) table.FirstLineIsData({"source", "label", "mark", "sentence"});
  if (std::ranges::equal(table.header(), kQqpHeader)) table.LeaveOutRaggedRows();
  const Columns columns(table);
  TableColumns chosen;
  std::vector<size_t> taken;
  if (!names.label.empty() && wants_label) {
    if (names.several_labels) chosen.labels = columns.AllNamed(names.label, "--label_column");
    taken = chosen.labels;
    if (taken.empty()) taken.push_back(columns.Named(names.label, "--label_column"));
  }
  if (!names.pair.empty()) {
    chosen.pair = columns.Named(names.pair, "--text_pair_column");
    taken.push_back(*chosen.pair);
  }
  if (!names.text.empty()) {
    chosen.text = columns.Named(names.text, "--text_column");
  } else if (const auto pair = columns.KnownPair(); pair && (!chosen.pair || *chosen.pair == pair->second)) {
    chosen.text = pair->first;
    chosen.pair = pair->second;
  } else {
    chosen.text = columns.Only(kTexts, taken, "texts", "--text_column");
  }
  taken.push_back(chosen.text);
  if (chosen.pair) taken.push_back(*chosen.pair);
  if (wants_label) {
    chosen.label = names.label.empty() ? columns.Only(kLabels, taken, "labels", "--label_column") : taken.front();
    chosen.dash_is_no_label = chosen.labels.empty() && table.header()[*chosen.label] == "gold_label";
  }
  std::vector<size_t> all = chosen.labels;
  std::ranges::sort(all);
  const auto is_label = [&chosen](size_t column) { return std::ranges::count(chosen.labels, column) > 0; };
  if (std::ranges::adjacent_find(all) != all.end() || is_label(chosen.text) ||
      (chosen.pair && is_label(*chosen.pair)) || chosen.pair == chosen.text || chosen.label == chosen.text ||
      (chosen.label && chosen.label == chosen.pair)) {
    throw DataError(table.name() + ": one column is named as two of text, pair and label",
                    "name different ones with --text_column, --text_pair_column and --label_column");
  }
  return chosen;
}

TableColumns ChooseTextColumns(const TableReader& table, const ColumnNames& names, std::optional<bool> scored) {
  const Columns columns(table);
  TableColumns chosen;
  if (names.text.empty() != names.pair.empty()) {
    throw DataError(table.name() + ": one column of two texts that are alike is named",
                    "name the other, too: --text_column and --text_pair_column");
  }
  if (names.text.empty()) {
    const auto alike = columns.KnownPair(kAlike), pair = alike ? alike : columns.KnownPair();
    if (!pair) {
      throw DataError(table.name() + " has no columns that are known to hold two texts that are alike; it has " +
                          Listed(table.header()),
                      "name them with --text_column and --text_pair_column (the first line must hold the names)");
    }
    std::tie(chosen.text, chosen.pair) = *pair;
  } else {
    chosen.text = columns.Named(names.text, "--text_column");
    chosen.pair = columns.Named(names.pair, "--text_pair_column");
  }
  chosen.negatives =
      names.negatives.empty() ? columns.AllOf(kNegatives) : columns.AllNamed(names.negatives, "--negative_column");
  std::vector<size_t> taken = {chosen.text, *chosen.pair};
  taken.insert(taken.end(), chosen.negatives.begin(), chosen.negatives.end());
  if (scored == true && !chosen.negatives.empty()) {
    throw DataError(table.name() + " has negatives, of which a score of two texts says nothing",
                    "use --embedding_loss=contrastive, or leave the negatives out");
  }
  const auto has_score = [&] {
    return !names.label.empty() ||
           std::ranges::any_of(kScores, [&](auto name) { return columns.Find(name).has_value(); });
  };
  if (scored == true || (!scored && chosen.negatives.empty() && has_score())) {
    chosen.label = names.label.empty() ? columns.Only(kScores, taken, "scores", "--label_column")
                                       : columns.Named(names.label, "--label_column");
    taken.push_back(*chosen.label);
  }
  std::ranges::sort(taken);
  if (std::ranges::adjacent_find(taken) == taken.end()) return chosen;
  throw DataError(table.name() + ": one column is named as two of text, pair, negative and score",
                  "name different ones with --text_column, --text_pair_column, --negative_column and --label_column");
}

std::vector<size_t> ColumnsToKeep(const TableReader& table, const std::string& which, const std::vector<size_t>& read) {
  std::vector<size_t> kept;
  if (which == "none") return kept;
  if (which == "all") {
    for (size_t column = 0; column < table.header().size(); ++column) kept.push_back(column);
  } else {
    kept = Columns(table).AllNamed(which, "--keep_columns");
  }
  std::erase_if(kept, [&read](size_t column) { return std::ranges::find(read, column) != read.end(); });
  return kept;
}

std::string ToText(const TableColumns& columns, const TableReader& table) {
  const auto& header = table.header();
  std::string text = "text " + header[columns.text];
  if (columns.pair) text += ", pair " + header[*columns.pair];
  for (const size_t column : columns.negatives) text += ", negative " + header[column];
  if (columns.label && columns.labels.empty()) text += ", label " + header[*columns.label];
  for (const size_t column : columns.labels) text += ", label " + header[column];
  return text;
}

}  // namespace dtrain::data
