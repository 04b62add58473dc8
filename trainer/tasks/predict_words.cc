// The predictions of words are gathered first: the rows of a long sentence share its words.
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/checkpoint/durable_file.h"
#include "trainer/report/csv.h"
#include "trainer/report/log.h"
#include "trainer/tasks/likeliest_classes.h"
#include "trainer/tasks/predict_sentences.h"

namespace dtrain::tasks {
namespace {

struct TaggedWord {
  std::string tag;
  double probability = 0;
};

// An entity in a line of text; its place is in characters.
struct FoundEntity {
  std::string type;
  double score = 0;  // the mean of its tokens
  int64_t begin = 0, end = 0;
};

std::vector<TaggedWord> TagWords(const config::Config& config, const data::SentenceSplit& split,
                                 const std::vector<std::string>& labels, SentencePredictor& predictor) {
  std::vector<TaggedWord> tagged(static_cast<size_t>(split.words->words()));
  ForBatches(split, config, [&](const data::Batch& rows) {
    const auto [logits, words] = predictor.Of(rows);
    const at::Tensor best = LikeliestClasses(logits, 1), probability = at::softmax(logits, 1).gather(1, best);
    for (int64_t i = 0; i < words.numel(); ++i) {
      tagged[static_cast<size_t>(words[i].item<int64_t>())] = {labels[static_cast<size_t>(best[i].item<int64_t>())],
                                                               probability[i].item<double>()};
    }
  });
  return tagged;
}

// Splits a tag as transformers does when it groups entities: what begins with neither B- nor I- goes on.
std::pair<bool, std::string> BeginAndType(const std::string& tag) {
  const bool begins = tag.starts_with("B-");
  return {begins, begins || tag.starts_with("I-") ? tag.substr(2) : tag};
}

// `first` and `end` are numbers of words.
std::vector<FoundEntity> EntitiesOf(const std::vector<TaggedWord>& words, const std::vector<data::WordPlace>& places,
                                    size_t first, size_t end) {
  std::vector<FoundEntity> entities;
  while (first < end) {
    const std::string type = BeginAndType(words[first].tag).second;
    size_t last = first;
    double sum = words[first].probability;
    while (last + 1 < end && BeginAndType(words[last + 1].tag) == std::pair(false, type))
      sum += words[++last].probability;
    const size_t dash = words[first].tag.find('-');
    const std::string name = dash == std::string::npos ? words[first].tag : words[first].tag.substr(dash + 1);
    if (type != "O")
      entities.push_back({name, sum / static_cast<double>(last + 1 - first), places[first].begin, places[last].end});
    first = last + 1;
  }
  return entities;
}

// Returns characters [begin, end) of UTF-8 text.
std::string Characters(const std::string& text, int64_t begin, int64_t end) {
  std::string part;
  int64_t character = -1;
  for (const char byte : text) {
    if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) ++character;
    if (character >= begin && character < end) part += byte;
  }
  return part;
}

double JsonNumber(double value) { return std::stod(report::ShortestText(value)); }

std::string JsonText(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string LinesOfWords(const std::vector<TaggedWord>& tagged, const data::SplitWords& words, bool is_csv) {
  std::string lines = is_csv ? "sentence,line,word,prediction,probability\n" : "";
  size_t sentence = 0;
  for (size_t word = 0; word < tagged.size(); ++word) {
    while (words.ends[sentence] <= static_cast<int64_t>(word)) ++sentence;
    const auto& [tag, probability] = tagged[word];
    if (is_csv) {
      lines += std::to_string(sentence + 1) + "," + std::to_string(words.places[word].line) + "," +
               report::CsvField(words.texts[word]) + "," + report::CsvField(tag) + "," +
               report::ShortestText(probability) + "\n";
    } else {
      lines += JsonText({{"sentence", sentence + 1},
                         {"line", words.places[word].line},
                         {"word", words.texts[word]},
                         {"prediction", tag},
                         {"probability", JsonNumber(probability)}});
    }
  }
  return lines;
}

std::string LinesOfEntities(const std::vector<TaggedWord>& tagged, const data::SplitWords& words, bool is_csv) {
  std::string lines = is_csv ? "line,entity_group,score,word,start,end\n" : "";
  size_t first = 0;
  for (size_t number = 0; number < words.lines.size(); ++number) {
    const std::string& text = words.lines[number];
    const auto end = static_cast<size_t>(words.ends[number]);
    nlohmann::ordered_json found = nlohmann::ordered_json::array();
    for (const FoundEntity& entity : EntitiesOf(tagged, words.places, first, end)) {
      const std::string part = Characters(text, entity.begin, entity.end);
      found.push_back({{"entity_group", entity.type},
                       {"score", JsonNumber(entity.score)},
                       {"word", part},
                       {"start", entity.begin},
                       {"end", entity.end}});
      if (!is_csv) continue;
      lines += std::to_string(number + 1) + "," + report::CsvField(entity.type) + "," +
               report::ShortestText(entity.score) + "," + report::CsvField(part) + "," + std::to_string(entity.begin) +
               "," + std::to_string(entity.end) + "\n";
    }
    if (!is_csv) lines += JsonText({{"text", text}, {"entities", found}});
    first = end;
  }
  return lines;
}

}  // namespace

void PredictWords(const config::Config& config, const weights::TrainedWeights& weights, at::Device device) {
  SentencePredictor predictor(config, weights, device);
  const data::SentenceSplit split = OpenTexts(config, weights, /*pairs=*/std::nullopt, data::SentenceTarget::kOfWords);
  const std::vector<TaggedWord> tagged = TagWords(config, split, LabelsOf(config, weights), predictor);
  const bool is_csv = config.run.output.ends_with(".csv");
  const auto lines = split.words->lines.empty() ? &LinesOfWords : &LinesOfEntities;
  checkpoint::WriteAtomically(config.run.output, [&](checkpoint::DurableFile& file) {
    if (is_csv && config.run.csv_bom) file.Append(report::kByteOrderMark);
    file.Append(lines(tagged, *split.words, is_csv));
  });
  PrintCount(config, split);
}

}  // namespace dtrain::tasks
