// --task=token_classification: the tag of each word, told by its first token. Metrics: the loss and the accuracy of
// words, and the precision, recall and F1 of entities, such as the names of persons, as seqeval counts them.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "data/text/masking.h"
#include "data/text/utf8.h"
#include "trainer/tasks/metric_formulas.h"
#include "trainer/tasks/text_kinds.h"
#include "trainer/tasks/text_task.h"

namespace dtrain::tasks {
namespace {

// A tag in its two parts: `B-PER` is B and PER, O is O and _.
struct Tag {
  char prefix = 'O';
  std::string type = "_";
};

using Entity = std::tuple<std::string, size_t, size_t>;  // its type, its first and its last word

bool IsOneOf(char prefix, std::string_view prefixes) { return prefixes.find(prefix) != std::string_view::npos; }

bool IsInside(char prefix) { return prefix != 'O' && prefix != '.'; }

bool EndsBetween(const Tag& before, const Tag& tag) {
  if (IsOneOf(before.prefix, "ES")) return true;
  if (IsOneOf(before.prefix, "BI") && IsOneOf(tag.prefix, "BSO")) return true;
  return IsInside(before.prefix) && before.type != tag.type;
}

bool BeginsBetween(const Tag& before, const Tag& tag) {
  if (IsOneOf(tag.prefix, "BS")) return true;
  if (IsOneOf(before.prefix, "ESO") && IsOneOf(tag.prefix, "EI")) return true;
  return IsInside(tag.prefix) && before.type != tag.type;
}

Tag TagFrom(const std::string& name) {
  const size_t first = std::max<size_t>(data::ValidCharacterBytes(name), 1), dash = name.find('-', first);
  const std::string type = name.substr(dash == std::string::npos ? first : dash + 1);
  return {first == 1 ? name.front() : '?', type.empty() ? "_" : type};
}

// Returns the entities of a sentence as seqeval's get_entities does, in any scheme: an entity begins with B or S, with
// a tag of another type than the one before, or with an I or E behind what ends one. So an I without a B counts.
std::set<Entity> EntitiesIn(std::span<const Tag> tags) {
  std::set<Entity> entities;
  Tag before;
  size_t first = 0;
  for (size_t i = 0; i <= tags.size(); ++i) {
    const Tag tag = i < tags.size() ? tags[i] : Tag();
    if (EndsBetween(before, tag)) entities.emplace(before.type, first, i - 1);
    if (BeginsBetween(before, tag)) first = i;
    before = tag;
  }
  return entities;
}

// Returns those that seqeval counts with mode="strict": B-PER I-PER* and nothing else (IOB2), or with `has_ends` also
// S-PER, and B-PER I-PER* E-PER alone (IOBES).
std::set<Entity> StrictEntitiesIn(std::span<const Tag> tags, bool has_ends) {
  std::set<Entity> entities;
  for (size_t first = 0; first < tags.size();) {
    const Tag& tag = tags[first];
    size_t end = first + 1;
    if (has_ends && tag.prefix == 'S') entities.emplace(tag.type, first, first);
    if (tag.prefix == 'B') {
      const std::string_view inner = has_ends ? "IE" : "I";
      while (end < tags.size() && IsOneOf(tags[end].prefix, inner) && tags[end].type == tag.type &&
             tags[end - 1].prefix != 'E')
        ++end;
      if (!has_ends || tags[end - 1].prefix == 'E') entities.emplace(tag.type, first, end - 1);
    }
    first = end;
  }
  return entities;
}

// The sums of an evaluation are a place for each word of the split, which holds 1 + its predicted tag + the number of
// tags × its tag. Tokens without a label have no place.
class TokenClassificationTask : public TextTask {
 public:
  using TextTask::TextTask;

  std::string best_metric() const override { return "f1"; }
  double NominalWeight(int64_t samples) const override {
    constexpr double kWordsOfSentence = 20;
    return static_cast<double>(samples) * kWordsOfSentence;
  }
  models::ForwardCost CostOfSample() const override { return model().Cost(longest(), longest(), longest()); }

  report::Metrics TrainingMetrics(double hits, double weight) const override {
    return {Percent("accuracy", 100 * hits / weight)};
  }
  void BeginEvaluation(const DataSplit& split) override;
  void CountConfusions() override { counts_confusions_ = NumConfusions(outputs()) > 0; }
  std::vector<int64_t> ConfusionsOf(const at::Tensor& sums) const override;
  std::vector<report::ClassScores> ScoresOf(const at::Tensor& sums) const override;

 protected:
  data::Batch PreparedTensors(data::Batch batch) const override;
  at::Tensor Hidden(const models::Sequences& sequences) override { return model().Encode(sequences); }
  at::Tensor LossSum(const at::Tensor& logits_SC, const data::Batch& batch, bool /*training*/) const override {
    return CrossEntropySum(logits_SC, batch[target_name()]);
  }
  at::Tensor Hits(const at::Tensor& logits_SC, const data::Batch& batch) const override {
    return logits_SC.argmax(1).eq(batch[target_name()]).sum();
  }
  const char* target_name() const override { return data::kSentenceLabels; }
  void AddRandomLabels(data::Batch& batch, int64_t samples) const override {
    batch.tensors[data::kSentenceLabels] = at::randint(outputs(), {samples, longest()}, at::kLong);
    batch.tensors[data::kFirstWords] = at::zeros({samples}, at::kLong);
  }
  SampleOutputs Observed(const at::Tensor& logits_SC, const data::Batch& batch) const override {
    const at::Tensor scored = batch[target_name()].ne(data::kNoLoss).nonzero().squeeze(1);
    const auto of_scored = [&scored](const at::Tensor& all) { return all.index_select(0, scored); };
    return {of_scored(batch[kWordPlaces]), of_scored(logits_SC), of_scored(batch[target_name()])};
  }
  int64_t num_own_sums() const override { return places_.num_sums(); }
  void AddTo(at::Tensor own, const at::Tensor& logits_SC, const data::Batch& batch) const override {
    const at::Tensor &labels = batch[target_name()], has_label = labels.ne(data::kNoLoss);
    const at::Tensor said = 1 + logits_SC.argmax(1) + outputs() * labels;
    places_.Fill(own, at::where(has_label, batch[kWordPlaces], words_->words()), said.unsqueeze(1));
  }
  report::Metrics OwnMetrics(const double* own, double words) const override;

 private:
  // Calls `visit` with the true and the predicted tags of each sentence, of the words that were evaluated.
  template <typename Visit>
  void ForSentences(const double* own, const Visit& visit) const;

  std::shared_ptr<const data::SplitWords> words_ = std::make_shared<data::SplitWords>();
  SamplePlaces places_;
  std::vector<Tag> tags_;  // by label
  bool counts_confusions_ = false;
};

data::Batch TokenClassificationTask::PreparedTensors(data::Batch batch) const {
  at::Tensor labels_NT = batch[data::kSentenceLabels], kept;
  const at::Tensor has_label_NT = labels_NT.ne(data::kNoLoss);
  const at::Tensor places_NT = batch[data::kFirstWords].unsqueeze(1) + has_label_NT.cumsum(1) - 1;
  data::Batch prepared = PreparedSequences(batch, model().shape(), layout(), has_label_NT.sum().item<int64_t>(), &kept);
  const int64_t places = prepared[kPreparedIds].numel();
  const auto listed = [&](const at::Tensor& all_NT, int64_t filler) {
    const at::Tensor all = layout().unpad ? all_NT.flatten().index_select(0, kept) : all_NT.flatten();
    return at::constant_pad_nd(all, {0, places - all.numel()}, filler);
  };
  prepared.tensors[data::kSentenceLabels] = listed(labels_NT, data::kNoLoss);
  prepared.tensors[kWordPlaces] = listed(places_NT, 0);
  return prepared;
}

void TokenClassificationTask::BeginEvaluation(const DataSplit& split) {
  words_ = split.words;
  places_ = {words_->words(), 1};
  tags_.clear();
  for (const std::string& name : split.source->class_names()) tags_.push_back(TagFrom(name));
}

template <typename Visit>
void TokenClassificationTask::ForSentences(const double* own, const Visit& visit) const {
  size_t word = 0;
  std::vector<int64_t> actual, predicted;
  for (const int64_t end : words_->ends) {
    actual.clear();
    predicted.clear();
    for (; word < static_cast<size_t>(end); ++word) {
      if (own[word] == 0) continue;
      const auto said = static_cast<int64_t>(own[word]) - 1;
      actual.push_back(said / outputs());
      predicted.push_back(said % outputs());
    }
    visit(actual, predicted);
  }
}

std::vector<int64_t> TokenClassificationTask::ConfusionsOf(const at::Tensor& sums) const {
  if (!counts_confusions_) return {};
  std::vector<int64_t> counts(static_cast<size_t>(outputs() * outputs()));
  ForSentences(sums.const_data_ptr<double>(), [&](const auto& actual, const auto& predicted) {
    for (size_t i = 0; i < actual.size(); ++i) ++counts[static_cast<size_t>(actual[i] * outputs() + predicted[i])];
  });
  return counts;
}

// Adds up the entities of sentences.
class EntityCounts {
 public:
  void Add(const std::set<Entity>& actual, const std::set<Entity>& predicted) {
    for (const Entity& entity : actual) {
      ++Of(entity).samples;
      if (predicted.contains(entity)) ++Of(entity).correct;
    }
    for (const Entity& entity : predicted) ++Of(entity).taken;
  }

  report::ClassScores All() const {
    report::ClassScores all;
    for (const auto& [type, scores] : by_type_) {
      all.samples += scores.samples;
      all.correct += scores.correct;
      all.taken += scores.taken;
    }
    return all;
  }
  std::vector<report::ClassScores> ByType() const {
    std::vector<report::ClassScores> all;
    for (const auto& [type, scores] : by_type_) all.push_back(scores);
    return all;
  }

 private:
  report::ClassScores& Of(const Entity& entity) {
    const std::string& type = std::get<0>(entity);
    return by_type_.try_emplace(type, report::ClassScores{.name = type}).first->second;
  }

  std::map<std::string, report::ClassScores> by_type_;
};

std::vector<Tag> TagsOf(const std::vector<int64_t>& labels, const std::vector<Tag>& tags) {
  std::vector<Tag> of_words;
  for (const int64_t label : labels) of_words.push_back(tags[static_cast<size_t>(label)]);
  return of_words;
}

std::vector<report::ClassScores> TokenClassificationTask::ScoresOf(const at::Tensor& sums) const {
  EntityCounts counts;
  ForSentences(sums.const_data_ptr<double>(), [&](const auto& actual, const auto& predicted) {
    counts.Add(EntitiesIn(TagsOf(actual, tags_)), EntitiesIn(TagsOf(predicted, tags_)));
  });
  return counts.ByType();
}

report::Metrics TokenClassificationTask::OwnMetrics(const double* own, double words) const {
  double correct = 0;
  bool has_ends = false;  // whether tags are of IOBES
  ForSentences(own, [&](const auto& actual, const auto& predicted) {
    for (size_t i = 0; i < actual.size(); ++i) {
      const char prefix = tags_[static_cast<size_t>(actual[i])].prefix;
      has_ends |= prefix == 'E' || prefix == 'S';
      correct += actual[i] == predicted[i] ? 1 : 0;
    }
  });
  EntityCounts counts, strict;
  ForSentences(own, [&](const auto& actual, const auto& predicted) {
    const std::vector<Tag> actual_tags = TagsOf(actual, tags_), predicted_tags = TagsOf(predicted, tags_);
    counts.Add(EntitiesIn(actual_tags), EntitiesIn(predicted_tags));
    strict.Add(StrictEntitiesIn(actual_tags, has_ends), StrictEntitiesIn(predicted_tags, has_ends));
  });
  const auto none_is_zero = [](double value) { return std::isnan(value) ? 0 : value; };
  const report::ClassScores all = counts.All();
  return {Percent("accuracy", 100 * correct / words), Percent("precision", none_is_zero(all.precision())),
          Percent("recall", none_is_zero(all.recall())), Percent("f1", none_is_zero(all.f1())),
          Percent("strict_f1", none_is_zero(strict.All().f1()))};
}

}  // namespace

const TaskKind& TokenClassification() {
  return SentenceKindOf<TokenClassificationTask>("token_classification", data::kWordTarget, models::HeadKind::kTokens);
}

}  // namespace dtrain::tasks
