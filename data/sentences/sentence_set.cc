#include "data/sentences/sentence_set.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/joined.h"
#include "data/machine/limits.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr double kMostScore = 5;  // of STS benchmarks

// The rows that one thread tokenizes, before they are appended to the set.
struct TokenizedRows {
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> ends;
  int64_t truncated = 0;
};

// Appends the tokens of several texts, each by itself, without spaces around it, as sentence-transformers does.
bool AppendTexts(const RawSentence& row, int64_t most, const RowFormat& format, TextEncoder& encoder,
                 std::vector<uint32_t>& tokens) {
  bool is_cut = false;
  const auto append = [&](const std::string& text, uint32_t mark) {
    std::vector<uint32_t> of_text;
    encoder.Encode(Stripped(text), of_text);
    const size_t first = tokens.size();
    is_cut |= AppendSentenceRow(format, of_text, most, tokens);
    tokens[first] |= mark;
  };
  append(row.text.text, 0);
  if (!row.text.pair.empty()) append(row.text.pair, kOfSecondText);
  for (const std::string& negative : row.negatives) append(negative, kOfSecondText);
  return is_cut;
}

TokenizedRows Tokenize(std::span<const RawSentence> rows, bool is_pair, bool by_text, int64_t most,
                       const RowFormat& format, TextEncoder& encoder) {
  TokenizedRows done;
  std::vector<uint32_t> a, b;
  for (const RawSentence& row : rows) {
    if (by_text) {
      done.truncated += AppendTexts(row, most, format, encoder, done.tokens);
      done.ends.push_back(done.tokens.size());
      continue;
    }
    a.clear();
    b.clear();
    encoder.Encode(row.text.text, a);
    if (is_pair) encoder.Encode(row.text.pair, b);
    done.truncated +=
        is_pair ? AppendPairRow(format, a, b, most, done.tokens) : AppendSentenceRow(format, a, most, done.tokens);
    done.ends.push_back(done.tokens.size());
  }
  return done;
}

}  // namespace

SentenceCollector::SentenceCollector(const SentenceOptions& options, const SentenceTokenizer* tokenizer, bool is_pair)
    : target_(options.target),
      has_scores_(options.has_scores),
      score_scale_(options.score_scale),
      label_separator_(options.label_separator.empty() ? kLabelSeparator : options.label_separator),
      most_tokens_(options.tokens_per_sample),
      keeps_texts_(options.keep_texts),
      keeps_going_(options.keeps_going),
      tokenizer_(tokenizer) {
  set_.is_pair = is_pair;
  set_.texts_per_row = options.texts_per_row;
}

uint32_t SentenceCollector::AddFile(const std::string& path, uint64_t bytes) {
  set_.files.push_back({path, bytes});
  return static_cast<uint32_t>(set_.files.size() - 1);
}

std::string SentenceCollector::WhereIs(const RawSentence& row) const {
  const std::string& path = set_.files[row.place.file].path;
  return row.line > 0 ? path + " line " + std::to_string(row.line) : path;
}

void SentenceCollector::NoteEmpty(RawSentence& row) {
  if (!Stripped(row.text.text).empty() || !Stripped(row.text.pair).empty()) return;
  if (keeps_going_ && row.text.error.empty()) row.text.error = WhereIs(row) + ": the text is empty";
  if (keeps_going_) return;
  if (empty_++ == 0) first_empty_ = WhereIs(row);
}

void SentenceCollector::RequireScore(double score, const std::string& where) const {
  const double most = score_scale_ > 0 ? score_scale_ : kMostScore;
  if (std::abs(score) <= most) return;
  throw DataError(
      where + ": the score " + nlohmann::json(score).dump() + " is not within ±" + nlohmann::json(most).dump(),
      "say with --score_scale what scores are divided by to be cosines");
}

void SentenceCollector::AddLabel(const std::string& label, const std::string& where) {
  if (!target_.labels && !has_scores_) return;
  if (target_.has(LabelKind::kSeveral)) return set_.targets.AddSeveral(label, label_separator_, where);
  if (label.empty()) throw DataError(where + ": the label is empty", "every row needs a label");
  if (target_.has(LabelKind::kClass)) return set_.targets.Add(label, where);
  set_.targets.AddNumber(label, where);
  if (has_scores_) RequireScore(set_.targets.numbers.back(), where);
}

void SentenceCollector::Add(std::vector<RawSentence> rows) {
  if (encoders_.empty()) {
    for (int64_t i = 0; i < AvailableCores(); ++i) encoders_.push_back(tokenizer_->MakeEncoder());
  }
  const size_t parts = encoders_.size();
  std::vector<TokenizedRows> tokenized(parts);
  const auto tokenize = [&](size_t part) {
    const size_t begin = rows.size() * part / parts, end = rows.size() * (part + 1) / parts;
    tokenized[part] = Tokenize(std::span(rows).subspan(begin, end - begin), set_.is_pair, target_.of_texts,
                               most_tokens_, tokenizer_->format(), *encoders_[part]);
  };
  InParallel(parts, tokenize, 1, parts);
  for (const TokenizedRows& part : tokenized) {
    const uint64_t before = set_.tokens.size();
    set_.tokens.insert(set_.tokens.end(), part.tokens.begin(), part.tokens.end());
    for (const uint64_t end : part.ends) set_.ends.push_back(before + end);
    set_.truncated += part.truncated;
  }
  for (RawSentence& row : rows) {
    NoteEmpty(row);
    AddLabel(std::string(Stripped(row.label)), WhereIs(row));
    set_.places.push_back(row.place);
    if (keeps_texts_) set_.texts.push_back(std::move(row.text));
  }
}

void SentenceCollector::AddTokens(std::span<const uint32_t> a, std::span<const uint32_t> b, const std::string& label,
                                  SentenceSet::Place place, const std::string& where) {
  if (a.empty() && b.empty() && empty_++ == 0) first_empty_ = where;
  set_.truncated += set_.is_pair ? AppendPairRow({}, a, b, most_tokens_, set_.tokens)
                                 : AppendSentenceRow({}, a, most_tokens_, set_.tokens);
  set_.ends.push_back(set_.tokens.size());
  set_.places.push_back(place);
  AddLabel(label, where);
}

SentenceSet SentenceCollector::Take() {
  if (empty_ > 0) {
    throw DataError(
        first_empty_ + ": the text is empty" + (empty_ > 1 ? " (" + CountOf(empty_, "row") + " have no text)" : ""),
        "remove rows without text: they say nothing");
  }
  if (set_.ends.empty()) throw DataError(set_.files.front().path + " has no rows");
  if (has_scores_) {
    std::vector<float>& scores = set_.targets.numbers;
    const bool is_sts = std::ranges::any_of(scores, [](float score) { return std::abs(score) > 1; });
    set_.score_scale = score_scale_ > 0 ? score_scale_ : is_sts ? kMostScore : 1;
    for (float& score : scores) score /= static_cast<float>(set_.score_scale);
  }
  return std::move(set_);
}

}  // namespace dtrain::data
