// fairseq's folders for sentence tasks (sentence_set.h), as fairseq-preprocess and its GLUE script write them: input0
// and input1 hold the tokens of the two texts, label a class as one token or, for regression, a text file of numbers.
#include <memory>
#include <span>

#include "data/error.h"
#include "data/formats/token_dataset.h"
#include "data/sentences/sentence_set.h"
#include "data/storage.h"
#include "data/text/dictionary.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMostLabelBytes = uint64_t{1} << 30;
constexpr char kWrittenBy[] = "write the folders again with fairseq-preprocess, all with the same number of lines";

// The items of one of the folders.
class Items {
 public:
  explicit Items(const std::string& prefix) : prefix_(prefix), data_(prefix) {}
  const std::string& prefix() const { return prefix_; }
  int64_t size() const { return data_.size(); }
  int64_t Offset(int64_t item) const { return data_.Place(item).offset.value_or(0); }
  std::string Where(int64_t item) const { return prefix_ + ".bin item " + std::to_string(item); }

  // Returns the tokens of an item without the </s> at its end. Throws DataError if one is not below `vocabulary`.
  std::vector<uint32_t> Read(int64_t item, int64_t vocabulary) const {
    std::vector<int64_t> wide = WideTokens(data_.type(), data_.Read(item));
    if (!wide.empty() && wide.back() == kEndToken) wide.pop_back();
    for (const int64_t token : wide) {
      if (token >= 0 && token < vocabulary) continue;
      throw DataError(Where(item) + " has the token " + std::to_string(token) + ", but the dictionary ends at " +
                          std::to_string(vocabulary - 1),
                      "dict.txt belongs to other files, or these are damaged");
    }
    return {wide.begin(), wide.end()};
  }

 private:
  const std::string prefix_;
  const TokenDataset data_;
};

std::string LabelPrefix(const SentenceFiles& files) { return files.path + "/label/" + files.split; }

std::vector<std::string> ClassNames(const Dictionary& dictionary) {
  std::vector<std::string> names;
  auto entries = std::span(dictionary.entries());
  while (!entries.empty() && entries.back().is_filler()) entries = entries.first(entries.size() - 1);
  for (const Dictionary::Entry& entry : entries) names.push_back(entry.symbol);
  return names;
}

// Returns the label of each row as text, with which it enters the collector.
class Labels {
 public:
  Labels(const SentenceFiles& files, const SentenceTarget& target) {
    const std::string prefix = LabelPrefix(files);
    if (target.has(LabelKind::kClass)) {
      items_ = std::make_unique<Items>(prefix);
      names_ = ClassNames(Dictionary::Load(files.path + "/label/dict.txt"));
      size_ = items_->size();
    } else if (target.has(LabelKind::kNumbers)) {
      const std::string text = ReadWholeText(prefix + ".label", kMostLabelBytes);
      std::string_view rest = text;
      while (!rest.empty()) lines_.emplace_back(Stripped(TakeLine(rest)));
      size_ = static_cast<int64_t>(lines_.size());
    }
  }

  int64_t size() const { return size_; }
  const std::vector<std::string>& names() const { return names_; }

  std::string Of(int64_t row) const {
    if (!lines_.empty()) return lines_[static_cast<size_t>(row)];
    if (!items_) return "";
    const std::vector<uint32_t> tokens = items_->Read(row, kSpecialTokens + static_cast<int64_t>(names_.size()));
    if (tokens.size() != 1 || tokens[0] < kSpecialTokens) {
      throw DataError(items_->Where(row) + " is not one class", kWrittenBy);
    }
    return names_[tokens[0] - kSpecialTokens];
  }

 private:
  std::unique_ptr<Items> items_;
  std::vector<std::string> names_, lines_;
  int64_t size_ = -1;  // there are no labels
};

void RequireSameSize(const Items& inputs, const std::string& other, int64_t size) {
  if (size == inputs.size()) return;
  throw DataError(inputs.prefix() + ".bin has " + std::to_string(inputs.size()) + " items, but " + other + " has " +
                      std::to_string(size),
                  kWrittenBy);
}

// All tokens have the ids of input0's dictionary, which is the model's.
void RequireSameTokens(const std::string& path, const Dictionary& dictionary) {
  if (!Exists(path) || Dictionary::Load(path).fingerprint() == dictionary.fingerprint()) return;
  throw DataError(path + " has other tokens than that of input0, so that ids of its texts mean others",
                  "write the folders again with fairseq-preprocess, both with the model's dictionary (--srcdict)");
}

}  // namespace

bool HasNumberLabels(const SentenceFiles& files) {
  return Exists(LabelPrefix(files) + ".label") && !Exists(LabelPrefix(files) + ".bin");
}

SentenceRows ReadBinarised(const SentenceFiles& files, const SentenceOptions& options) {
  if (options.target.has(LabelKind::kClass) && HasNumberLabels(files)) {
    throw DataError(LabelPrefix(files) + ".label holds numbers to predict, and there are no classes",
                    "use --task=text_regression");
  }
  const Dictionary dictionary = Dictionary::Load(files.path + "/input0/dict.txt");
  const int64_t vocabulary = dictionary.vocabulary();
  const Items first(files.path + "/input0/" + files.split);
  std::unique_ptr<Items> second;
  const bool is_pair = Exists(files.path + "/input1");
  if (is_pair) {
    second = std::make_unique<Items>(files.path + "/input1/" + files.split);
    RequireSameSize(first, second->prefix() + ".bin", second->size());
    RequireSameTokens(files.path + "/input1/dict.txt", dictionary);
  }
  if (options.is_pair.value_or(is_pair) != is_pair) {
    throw DataError(files.path + (is_pair ? " has input1, hence pairs" : " has no input1, hence single texts") +
                    ", but the model and the training data have " + (is_pair ? "single texts" : "pairs"));
  }
  const Labels labels(files, options.target);
  if (labels.size() >= 0) RequireSameSize(first, LabelPrefix(files), labels.size());

  SentenceCollector collector(options, nullptr, is_pair);
  const std::string path = first.prefix() + ".bin";
  const uint32_t file = collector.AddFile(path, Stat(path).bytes);
  if (second) collector.AddFile(second->prefix() + ".bin", Stat(second->prefix() + ".bin").bytes);
  for (int64_t row = 0; row < first.size(); ++row) {
    const std::vector<uint32_t> a = first.Read(row, vocabulary);
    const std::vector<uint32_t> b = second ? second->Read(row, vocabulary) : std::vector<uint32_t>();
    collector.AddTokens(a, b, labels.Of(row), {file, first.Offset(row)}, first.Where(row));
  }
  SentenceRows rows{.set = collector.Take(), .vocabulary = vocabulary, .meaning = dictionary.fingerprint()};
  if (options.target.has(LabelKind::kClass)) rows.set.names = labels.names();
  rows.set.columns = is_pair ? "text input0, pair input1, label label" : "text input0, label label";
  return rows;
}

}  // namespace dtrain::data
