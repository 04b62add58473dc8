// Reads the rows of a split from each of the layouts of sentence_files.h.
#pragma once

#include <string>

#include "data/formats/sentence_files.h"
#include "data/sentences/sentence_set.h"

namespace dtrain::data {

// Reads a table. Throws DataError, which names file and line; also if options.is_pair says other than the columns.
SentenceSet ReadTable(const std::string& path, const SentenceOptions& options, const SentenceTokenizer& tokenizer);

// Reads sentences whose words have labels (kOfWords):
//   columns  a word in each line, its columns between tabs or spaces: the word is the first one, the label the last one
//            unless label_column says otherwise; a blank line, or one that begins with -DOCSTART-, ends a sentence
//   .jsonl   an object for each sentence, with the lists `tokens` and `tags` (or `ner_tags`)
//   .txt     without labels: a text in each line, whose tokens count as words
// A word's label is that of its first token. Sentences that are too long become several rows, which overlap; each word
// has its label in the row that has most of the text around it. Throws DataError, which names file and line.
SentenceSet ReadWords(const std::string& path, const SentenceOptions& options, const SentenceTokenizer& tokenizer);

// Whether the first object of a .jsonl has such lists. False for other files.
bool HasLists(const std::string& path, const SentenceOptions& options);

// Reads the texts of SPLIT/CLASS/*.txt, sorted by class and name, without a line end at their end. A class folder named
// unsup is left out, as in aclImdb, whose texts in it have no label.
SentenceSet ReadClassFolders(const std::string& split_dir, const SentenceOptions& options,
                             const SentenceTokenizer& tokenizer);

// Reads fairseq's binarised folders. The special tokens are those of its recipes (--init-token 0 --separator-token 2).
struct BinarisedRows {
  SentenceSet set;
  int64_t vocabulary = 0;   // that of input0/dict.txt, with <mask>
  std::string fingerprint;  // of input0/dict.txt
};
BinarisedRows ReadBinarised(const SentenceFiles& files, const SentenceOptions& options);

// The distinct labels of a table, as they are written.
std::vector<std::string> LabelsOfTable(const std::string& path, const SentenceOptions& options);

// Whether the labels of binarised folders are numbers to predict: label/SPLIT.label and no label/SPLIT.bin.
bool HasNumberLabels(const SentenceFiles& files);

}  // namespace dtrain::data
