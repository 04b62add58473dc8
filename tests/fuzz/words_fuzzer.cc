// Sentences whose words have tags. The first byte chooses the kind of file, and whether it has tags; the second one the
// length of rows. What is read has each word's label once, however its sentence was cut.
#include <algorithm>
#include <string>

#include "data/error.h"
#include "data/sentences/sentence_set.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/temporary_folder.h"

using namespace dtrain;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const TemporaryFolder folder;
  static const data::SentenceTokenizer tokenizer = [] {
    WriteAll(folder.path() / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\nEU\n,\n");
    return data::SentenceTokenizer(folder.path().string());
  }();
  constexpr const char* kNames[] = {"x.conll", "x.jsonl", "x.txt"};
  fuzz::FuzzInput input(bytes, size);
  const uint8_t kind = input.TakeByte();
  data::SentenceOptions options{.data_dir = "", .target = data::kWordTarget};
  options.is_unlabelled = kind >= 128;
  options.keep_texts = true;
  options.tokens_per_sample = 3 + input.TakeByte() % 16;
  const std::string path = (folder.path() / kNames[kind % 3]).string();
  WriteAll(path, input.text());
  try {
    data::HasLists(path, options);
    const data::SentenceSet set = ReadWords(path, options, tokenizer);
    fuzz::Require(set.targets.labels.size() == set.tokens.size() && set.ends.back() == set.tokens.size(),
                  "a token without a place for its label");
    for (int64_t row = 0; row < set.size(); ++row) {
      fuzz::Require(set.length(row) >= 2 && set.length(row) <= options.tokens_per_sample, "a row that is too long");
    }
    const auto labels = std::ranges::count_if(set.targets.labels, [](int32_t label) { return label >= 0; });
    fuzz::Require(labels == set.words->words(), "a word without a label, or with two");
  } catch (const DataError&) {
  }
  return 0;
}
