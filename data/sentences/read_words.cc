// Sentences whose words have labels (sentence_set.h). A file is read as a whole, then tokenized by all cores.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/error.h"
#include "data/formats/in_parallel.h"
#include "data/joined.h"
#include "data/machine/limits.h"
#include "data/sentences/sentence_set.h"
#include "data/shallow_json.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/utf8.h"
#include "data/whole_number.h"

namespace dtrain::data {
namespace {

using Words = std::vector<std::string>;

// A sentence as it is read.
struct WordsOfSentence {
  Words words, tags;                    // as many; no tags in a prediction
  std::vector<int64_t> lines;           // of the words
  std::string text = {};                // of a line of text, which has no words yet
  uint64_t offset = 0;                  // bytes, where it begins
  std::vector<UnreadWord> unread = {};  // `before` counts the words of the sentence
};

// The tokens of a sentence: those of each word, without special ones.
struct TokensOfWords {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> ends;        // by word: in `tokens`
  std::vector<CharacterSpan> spans;  // by word: of a line of text
};

// Words [first, end) of a sentence are a row, in which those in [own, own_end) have their labels.
struct Window {
  size_t first, end, own, own_end;
};

// Reads one file.
class WordReader {
 public:
  WordReader(const std::string& path, const SentenceOptions& options)
      : path_(path), options_(options), content_(ReadIntoMemory(path)) {}

  std::vector<WordsOfSentence> Read() {
    std::string_view text = Text();
    const bool is_json = TableFormatOf(path_) == TableFormat::kJsonLines;
    is_text_ = TableFormatOf(path_) == TableFormat::kLines && !LooksLikeColumns(text);
    if (TableFormatOf(path_) == TableFormat::kCsv) {
      throw DataError(
          path_ + " is a table, which has no columns of words",
          "write texts as the lines of FILE.txt, words as those of FILE.conll, or lists of tokens as FILE.jsonl");
    }
    if (is_text_ && !options_.is_unlabelled) {
      throw DataError(path_ + " has no columns of words", "write a word and its tag in each line");
    }
    const char* const begin = text.data();
    while (!text.empty()) {
      ++line_;
      offset_ = static_cast<uint64_t>(text.data() - begin);
      const std::string_view line = TakeLine(text);
      const bool has_nul = line.find('\0') != line.npos, is_text = IsUtf8(line) && !has_nul;
      try {
        if (has_nul) Fail("this holds a NUL character", "remove it: the file is probably damaged or in UTF-16");
        if (!is_text) Fail("this is not UTF-8 text", "convert the file to UTF-8 with iconv");
        if (is_text_) {
          sentences_.push_back({.words = {}, .tags = {}, .lines = {}, .text = std::string(line), .offset = offset_});
        } else if (is_json) {
          if (!Stripped(line).empty()) AddObject(line);
        } else {
          AddColumns(line);
        }
      } catch (const DataError& error) {
        // A first line that has no columns says that the file has none.
        if (!options_.keeps_going || (is_text && !is_text_ && columns_.empty())) throw;
        if (is_json) sentence_ = {};
        AddUnread(error.what());
        if (is_json || is_text_) EndSentence();
      }
    }
    EndSentence();
    return std::move(sentences_);
  }

  std::string_view FirstLine() const {
    std::string_view text = Text(), line;
    while (!text.empty() && Stripped(line).empty()) line = TakeLine(text);
    return line;
  }

  // Returns the keys of words and tags in the first object of a .jsonl; empty where there is no list.
  std::pair<std::string, std::string> KeysOfLists(std::string_view first) const {
    const nlohmann::json object = ParseObject(InPlainJson(first));
    const auto key = [&object](const std::string& said, std::initializer_list<const char*> known) -> std::string {
      if (!said.empty()) return said;
      for (const char* name : known) {
        if (object.contains(name) && object.at(name).is_array()) return name;
      }
      return "";
    };
    return {key(options_.text_column, {"tokens", "words"}), key(options_.label_column, {"tags", "ner_tags", "labels"})};
  }

  uint64_t bytes() const { return content_.size(); }
  std::string columns() const { return columns_; }
  bool is_text() const { return is_text_; }

 private:
  std::string_view Text() const { return WithoutByteOrderMark(content_); }

  [[noreturn]] void Fail(const std::string& what, const std::string& hint = "") const {
    throw DataError(path_ + " line " + std::to_string(line_) + ": " + what, hint);
  }

  void AddUnread(const std::string& error) {
    sentence_.unread.push_back({.before = static_cast<int64_t>(sentence_.words.size()), .line = line_, .error = error});
  }

  void EndSentence() {
    if (!sentence_.words.empty() || !sentence_.unread.empty()) sentences_.push_back(std::exchange(sentence_, {}));
  }

  // The number of a column that a flag names, else `otherwise`.
  size_t ColumnOf(const std::string& said, const char* flag, size_t columns, size_t otherwise) const {
    if (said.empty()) return otherwise;
    const auto number = WholeNumber<size_t>(said);
    if (number && *number < columns) return *number;
    Fail("the line has " + CountOf(columns, "column") + ", but " + flag + " is '" + Shown(said, 60) + "'",
         "columns of words are numbered from 0");
  }

  void AddColumns(std::string_view line) {
    const std::vector<std::string_view> cells = ColumnsIn(line);
    if (cells.empty() || cells.front() == kDocumentStart) return EndSentence();
    if (num_columns_ == 0) {
      num_columns_ = cells.size();
      if (num_columns_ < 2 && !options_.is_unlabelled) Fail("the word has no tag", "write it in the last column");
      word_ = ColumnOf(options_.text_column, "--text_column", num_columns_, 0);
      tag_ = ColumnOf(options_.is_unlabelled ? "" : options_.label_column, "--label_column", num_columns_,
                      num_columns_ - 1);
      columns_ = "words in column " + std::to_string(word_) + ", tags in column " + std::to_string(tag_);
    }
    if (cells.size() != num_columns_) {
      Fail(CountOf(cells.size(), "column") + ", but the first word has " + std::to_string(num_columns_),
           "each word has a line with the same columns, and a blank line ends a sentence");
    }
    if (sentence_.words.empty()) sentence_.offset = offset_;
    AddWord(std::string(cells[word_]));
    if (!options_.is_unlabelled) AddTag(std::string(cells[tag_]));
  }

  void AddObject(std::string_view line) {
    if (words_key_.empty()) {
      std::tie(words_key_, tags_key_) = KeysOfLists(line);
      if (words_key_.empty() || (tags_key_.empty() && !options_.is_unlabelled)) {
        Fail("there is no list of words and one of their tags",
             "call them tokens and tags, or name them with --text_column and --label_column");
      }
      columns_ = "words " + words_key_ + ", tags " + tags_key_;
    }
    const nlohmann::json object = ParseObject(InPlainJson(line));
    if (!object.is_object()) Fail("this is not a JSON object", "a .jsonl file holds one object in each line");
    sentence_.offset = offset_;
    for (std::string& word : ListOf(object, words_key_)) AddWord(std::move(word));
    if (sentence_.words.empty() && options_.keeps_going) Fail("there are no words");
    if (!options_.is_unlabelled) {
      for (std::string& tag : ListOf(object, tags_key_)) AddTag(std::move(tag));
      if (const size_t words = sentence_.words.size(), tags = sentence_.tags.size(); words != tags) {
        Fail(CountOf(tags, "tag") + " for " + CountOf(words, "word"), "each word needs one tag");
      }
    }
    EndSentence();
  }

  Words ListOf(const nlohmann::json& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array()) Fail("'" + Shown(key, 60) + "' is not a list");
    Words list;
    for (const nlohmann::json& item : *found) {
      if (!item.is_string()) {
        Fail("'" + Shown(key, 60) + "' holds " + Shown(item.dump(), 60) + ", which is not a text",
             "write words, and names of tags such as B-PER");
      }
      list.push_back(item.get<std::string>());
    }
    return list;
  }

  void AddWord(std::string word) {
    if (Stripped(word).empty()) Fail("a word is empty", "leave it out, with its tag");
    if (word.size() > kMostCellBytes) Fail("a word is longer than 1 MiB");
    sentence_.words.push_back(std::move(word));
    sentence_.lines.push_back(line_);
  }

  void AddTag(std::string tag) {
    if (Stripped(tag).empty()) Fail("a tag is empty", "write O for words of no kind");
    sentence_.tags.push_back(std::move(tag));
  }

  const std::string path_;
  const SentenceOptions& options_;
  const std::string content_;
  bool is_text_ = false;
  int64_t line_ = 0;
  uint64_t offset_ = 0;
  size_t num_columns_ = 0, word_ = 0, tag_ = 0;
  std::string words_key_, tags_key_, columns_;
  WordsOfSentence sentence_;  // that is being read
  std::vector<WordsOfSentence> sentences_;
};

// Takes the tokens of a line of text for its words. As in a list of words, the first one is encoded with a space in
// front.
void EncodeText(const std::string& text, TextEncoder& encoder, TokensOfWords& done) {
  if (Stripped(text).empty()) return;
  const int64_t added = text.starts_with(' ') ? 0 : 1;
  encoder.EncodeSpans(added == 0 ? text : " " + text, done.tokens, done.spans);
  for (CharacterSpan& span : done.spans) {
    span = {std::max<int64_t>(0, span.begin - added), std::max<int64_t>(0, span.end - added)};
    done.ends.push_back(static_cast<uint32_t>(done.ends.size() + 1));
  }
}

// Encodes words. Of one that has more tokens than `room`, the first ones are kept.
void EncodeWords(const Words& words, size_t room, TextEncoder& encoder, TokensOfWords& done) {
  for (const std::string& word : words) {
    const size_t before = done.tokens.size();
    encoder.EncodeWord(word, done.tokens);
    done.tokens.resize(std::min(done.tokens.size(), before + room));
    done.ends.push_back(static_cast<uint32_t>(done.tokens.size()));
  }
}

// Takes away words that have no token, such as the invisible ones behind emoji, as tokenizers themselves do.
void LeaveOutWithoutTokens(WordsOfSentence& sentence, std::vector<uint32_t>& ends, const std::string& path) {
  if (sentence.words.empty() || (ends.front() > 0 && std::ranges::adjacent_find(ends) == ends.end())) return;
  std::vector<int64_t> kept_before;  // by word
  std::vector<UnreadWord> without;
  size_t kept = 0;
  uint32_t before = 0;
  for (size_t word = 0; word < sentence.words.size(); ++word) {
    kept_before.push_back(static_cast<int64_t>(kept));
    const uint32_t end = ends[word];
    const int64_t line = sentence.lines[word];
    if (end == std::exchange(before, end)) {
      without.push_back(
          {.before = static_cast<int64_t>(kept),
           .line = line,
           .word = std::move(sentence.words[word]),
           .error = path + " line " + std::to_string(line) + ": the tokenizer has no token for the word"});
      continue;
    }
    if (kept != word) sentence.words[kept] = std::move(sentence.words[word]);
    if (kept != word && !sentence.tags.empty()) sentence.tags[kept] = std::move(sentence.tags[word]);
    sentence.lines[kept] = line;
    ends[kept++] = end;
  }
  kept_before.push_back(static_cast<int64_t>(kept));
  for (UnreadWord& one : sentence.unread) one.before = kept_before[static_cast<size_t>(one.before)];
  std::ranges::move(without, std::back_inserter(sentence.unread));
  std::ranges::stable_sort(sentence.unread, {}, &UnreadWord::line);
  sentence.words.resize(kept);
  if (!sentence.tags.empty()) sentence.tags.resize(kept);
  sentence.lines.resize(kept);
  ends.resize(kept);
}

std::vector<TokensOfWords> Encoded(const std::vector<WordsOfSentence>& sentences, size_t room,
                                   const SentenceTokenizer& tokenizer) {
  const auto parts = static_cast<size_t>(AvailableCores());
  std::vector<TokensOfWords> done(sentences.size());
  const auto encode = [&](size_t part) {
    const std::unique_ptr<TextEncoder> encoder = tokenizer.MakeEncoder();
    for (size_t i = part; i < sentences.size(); i += parts) {
      sentences[i].words.empty() ? EncodeText(sentences[i].text, *encoder, done[i])
                                 : EncodeWords(sentences[i].words, room, *encoder, done[i]);
    }
  };
  InParallel(parts, encode, 1, parts);
  return done;
}

// Cuts a sentence into rows of at most `room` tokens. Neighbours share up to a quarter of that, of which each has the
// labels of the half that is farther from its end.
std::vector<Window> WindowsOf(const std::vector<uint32_t>& ends, size_t room) {
  const size_t words = ends.size();
  const auto tokens = [&ends](size_t first, size_t end) {
    return end == 0 ? 0 : ends[end - 1] - (first == 0 ? 0 : ends[first - 1]);
  };
  std::vector<Window> windows;
  for (size_t first = 0, end = 0; end < words;) {
    while (end < words && tokens(first, end + 1) <= room) ++end;
    windows.push_back({first, end, first, end});
    if (windows.size() > 1) {
      Window& before = windows[windows.size() - 2];
      before.own_end = windows.back().own = (first + before.end) / 2;
    }
    const size_t last = first;
    first = end;
    while (first > last + 1 && tokens(first - 1, end) <= room / 4) --first;
    while (end < words && tokens(first, end + 1) > room) ++first;  // the next word must fit in
  }
  return windows;
}

}  // namespace

SentenceSet ReadWords(const std::string& path, const SentenceOptions& options, const SentenceTokenizer& tokenizer) {
  constexpr char kNoTag[] = "O";
  std::vector<uint32_t> special;
  AppendSentenceRow(tokenizer.format(), {}, options.tokens_per_sample, special);
  const size_t room = static_cast<size_t>(options.tokens_per_sample) - special.size();
  WordReader reader(path, options);
  std::vector<WordsOfSentence> sentences = reader.Read();
  std::vector<TokensOfWords> encoded = Encoded(sentences, room, tokenizer);
  SentenceSet set;
  set.files.push_back({path, reader.bytes()});
  set.columns = reader.columns();
  auto words = std::make_shared<SplitWords>();
  for (size_t number = 0; number < sentences.size(); ++number) {
    WordsOfSentence& sentence = sentences[number];
    TokensOfWords& tokens = encoded[number];
    LeaveOutWithoutTokens(sentence, tokens.ends, path);
    const int64_t first_word = words->words();
    const auto begin = [&tokens](size_t word) { return word == 0 ? 0 : tokens.ends[word - 1]; };
    const auto where = [&](size_t word) { return path + " line " + std::to_string(sentence.lines[word]); };
    const std::vector<Window> windows = WindowsOf(tokens.ends, room);
    for (const Window& window : windows) {
      const size_t row = set.tokens.size(), base = begin(window.first);
      AppendSentenceRow(tokenizer.format(), std::span(tokens.tokens).subspan(base, begin(window.end) - base),
                        options.tokens_per_sample, set.tokens);
      set.ends.push_back(set.tokens.size());
      set.places.push_back({0, static_cast<int64_t>(sentence.offset)});
      set.groups.push_back(std::to_string(number));
      set.targets.labels.resize(set.tokens.size(), -1);
      set.targets.first_words.push_back(first_word + static_cast<int64_t>(window.own));
      for (size_t word = window.own; word < window.own_end; ++word) {
        const bool has_tags = !sentence.tags.empty();
        const size_t place = row + special.size() / 2 + begin(word) - base;
        set.targets.labels[place] =
            set.targets.NumberOf(has_tags ? sentence.tags[word] : kNoTag, has_tags ? where(word) : path);
      }
    }
    if (windows.size() > 1) ++set.cut_sentences;
    words->ends.push_back(first_word + static_cast<int64_t>(tokens.ends.size()));
    if (!options.keeps_going) words->left_out += static_cast<int64_t>(sentence.unread.size());
    if (!options.keep_texts) continue;
    words->texts.insert(words->texts.end(), sentence.words.begin(), sentence.words.end());
    for (const int64_t line : sentence.lines) words->places.push_back({.line = line});
    for (const CharacterSpan& span : tokens.spans) words->places.push_back({.begin = span.begin, .end = span.end});
    if (reader.is_text()) words->lines.push_back(sentence.text);
    for (UnreadWord& one : sentence.unread) {
      if (!options.keeps_going) break;
      one.sentence = static_cast<int64_t>(number);
      one.before += first_word;
      words->unread.push_back(std::move(one));
    }
  }
  if (set.ends.empty() && !words->unread.empty()) throw DataError(words->unread.front().error);
  if (set.ends.empty()) throw DataError(path + " has no words", "write a word and its tag in each line");
  if (set.cut_sentences == 0) set.groups.clear();
  set.words = std::move(words);
  return set;
}

bool HasLists(const std::string& path, const SentenceOptions& options) {
  if (TableFormatOf(path) != TableFormat::kJsonLines) return false;
  const WordReader reader(path, options);
  const auto [words, tags] = reader.KeysOfLists(reader.FirstLine());
  return options.text_column.empty() && !words.empty() && !tags.empty();
}

}  // namespace dtrain::data
