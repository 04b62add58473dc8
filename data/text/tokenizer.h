// What all tokenizers have in common: text becomes ids, and an id has a name in a vocabulary. The kinds are rows of one
// table (tokenizer.cc), found by the files of a folder, or of that in tokenizer_json.cc, found by what tokenizer.json
// says: byte-level BPE (GPT-2, RoBERTa, ModernBERT), WordPiece (BERT) and sentencepiece (XLM-R, CamemBERT).
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/joined.h"
#include "data/storage.h"
#include "data/text/dictionary.h"

namespace dtrain::data {

// The ids of special tokens, by default fairseq's. `begin` is <s> or [CLS], `end` is </s> or [SEP].
struct SpecialTokens {
  int64_t begin = kBeginToken, pad = kPadToken, end = kEndToken, unknown = kUnknownToken;
  int64_t mask = -1;  // -1: unknown, or there is none

  // Whether an id is one of these, except <mask>.
  bool Contains(int64_t id) const { return id == begin || id == pad || id == end || id == unknown; }
  bool operator==(const SpecialTokens&) const = default;
};

// How rows are made of texts: begin a end, and for pairs begin a end b end (BERT), or begin a end end b end (RoBERTa).
struct RowFormat {
  SpecialTokens special;
  int ends_between = 2;    // end tokens between the texts of a pair
  bool has_types = false;  // whether the second text of a pair and the end behind it have token type 1 (BERT)
  bool operator==(const RowFormat&) const = default;
};

// The rows that a tokenizer makes.
struct CheckedFormat {
  RowFormat format = {};
  std::string problem = {};  // why they are none of these; empty: they are
};

// The characters [begin, end) of a text, counted in code points as Python does.
struct CharacterSpan {
  int64_t begin = 0, end = 0;
  bool operator==(const CharacterSpan&) const = default;
};

// A token that is looked for in a text before anything else is done with it: a special one, or one that was added to a
// finished vocabulary, such as ModernBERT's runs of spaces.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool takes_spaces_before = false, takes_spaces_behind = false;  // lstrip, rstrip
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);  // contents are not empty

  bool empty() const { return tokens_.empty(); }

  // Calls `token` with an added token's id and its place in the text, and `part` with each part between them that is
  // not empty, in their order. Of the tokens that begin at a place, the longest counts. White space that one takes may
  // begin the next.
  void Split(std::string_view text, const std::function<void(std::string_view)>& part,
             const std::function<void(int32_t, std::string_view)>& token) const;

 private:
  const AddedToken* FindAt(std::string_view text) const;

  std::vector<AddedToken> tokens_;       // the longest first
  std::bitset<1 << 16> may_begin_ = {};  // by the first two bytes
};

// The ids of a text so far and, if they are asked for, the bytes of it that each stands for.
struct EncodedText {
  std::vector<uint32_t>& ids;
  std::vector<CharacterSpan>* spans = nullptr;

  void Append(int32_t id, CharacterSpan span) {
    ids.push_back(static_cast<uint32_t>(id));
    if (spans != nullptr) spans->push_back(span);
  }
};

// Encodes texts. Not thread-safe, because it may cache words: each thread needs its own. Invalid UTF-8 is replaced
// (ReplaceInvalidUtf8) and counted.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of a text, without the special tokens around it.
  void Encode(std::string_view text, std::vector<uint32_t>& ids);
  // Appends the ids of one word of a sentence that has been split into words, as transformers' is_split_into_words
  // does: byte-level BPE puts a space before each word (add_prefix_space=True).
  void EncodeWord(std::string_view word, std::vector<uint32_t>& ids);
  // As Encode, and appends for each id the characters that it stands for (transformers' offset_mapping). Slower.
  void EncodeSpans(std::string_view text, std::vector<uint32_t>& ids, std::vector<CharacterSpan>& spans);

  int64_t replaced() const { return replaced_; }  // pieces of invalid UTF-8

  // From now on, ids are those in `ids` (of a model) at the tokenizer's own. They must outlive the encoder; if there
  // are none, the tokenizer's are kept.
  void Renumber(std::span<const uint32_t> ids) { renumbered_ = ids; }

 protected:
  explicit TextEncoder(const AddedTokens& added) : added_(added) {}  // which must outlive the encoder

  // Encodes a part without added tokens of a text, from its byte `at` on; valid UTF-8, and not empty.
  virtual void EncodePart(std::string_view part, int64_t at, bool is_word, EncodedText& out) = 0;

 private:
  void EncodeAny(std::string_view text, bool is_word, std::vector<uint32_t>& ids, std::vector<CharacterSpan>* spans);

  const AddedTokens& added_;
  int64_t replaced_ = 0;
  std::span<const uint32_t> renumbered_;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<TextEncoder> MakeEncoder() const = 0;  // the tokenizer must outlive it

  // The tokens by id, as the vocabulary writes them. Empty if no token has this id.
  virtual const std::vector<std::string>& tokens() const = 0;
  int64_t vocabulary() const { return static_cast<int64_t>(tokens().size()); }
  // Returns the id of a token; -1 if there is none.
  virtual int64_t IdOf(std::string_view token) const = 0;
  // Whether token `id` begins a word. Special tokens do.
  virtual bool BeginsWord(int64_t id) const = 0;

  // False if a dict.txt gives the tokens new ids, those of a model (encoder.json).
  bool keeps_ids() const { return keeps_ids_; }
  // Whether token files have a dict.txt, because the special tokens are fairseq's. Otherwise the tokenizer's own files
  // lie beside them.
  bool has_dictionary() const { return has_dictionary_; }
  // Whether a dict.txt that lies beside the tokenizer is of its tokens. The one beside published RoBERTas' vocab.json
  // is not: its symbols are the ids of GPT-2's encoder.json.
  bool GoesWith(const Dictionary& dictionary) const;
  // The class of transformers that reads the files as they are meant, whatever the model is.
  virtual const char* transformers_class() const = 0;
  // Whether files beside the vocabulary change the tokens of a text.
  virtual bool follows_settings() const { return true; }
  const SpecialTokens& special() const { return rows_.format.special; }
  bool has_types() const { return rows_.format.has_types; }
  // The rows of sentences and pairs. Throws DataError, which does not name a file, if they are others than these.
  const RowFormat& format() const;

  // The functions from here on need has_dictionary(). Returns the symbol of token `id` in a dictionary.
  std::string Symbol(int64_t id) const;
  // Makes the dictionary of a text, given the count of each id (vocabulary() numbers): in fairseq's order, or in the
  // order of the vocabulary if ids are kept.
  Dictionary CountedDictionary(const std::vector<int64_t>& counts) const;
  // Returns each token's id in the dictionary; kUnknownToken for a token that is not in it. Throws DataError if ids are
  // kept and the dictionary has other ids.
  std::vector<uint32_t> IdsIn(const Dictionary& dictionary) const;
  // Returns for each id in the dictionary's vocabulary whether it begins a word. Symbols that are not tokens do.
  std::vector<bool> BeginsWord(const Dictionary& dictionary) const;

 protected:
  Tokenizer(bool keeps_ids, bool has_dictionary, CheckedFormat format)
      : keeps_ids_(keeps_ids), has_dictionary_(has_dictionary), rows_(std::move(format)) {}

 private:
  // If ids are kept: whether token `id` has its id without a line in dict.txt. So has <mask> if it is the last token,
  // because readers of a dictionary without it append it.
  bool DictionaryLeavesOut(int64_t id) const;

  const bool keeps_ids_, has_dictionary_;
  const CheckedFormat rows_;
};

// A kind of tokenizer: the files by which it is found in a folder, and what makes it of them.
struct TokenizerKind {
  std::vector<const char*> names;  // all must be there; the kinds are tried in the order of the table
  bool keeps_ids;
  // Takes the contents of the files, and the folder, which may have others that change it. Throws DataError for what
  // would give other tokens than the peers' programs, which names none of the files, but those others.
  std::unique_ptr<const Tokenizer> (*make)(const std::vector<std::string>& contents, const std::string& folder);
};

// The files of a tokenizer: paths in the order of the kind's names.
struct TokenizerFiles {
  const TokenizerKind* kind = nullptr;
  std::vector<std::string> paths;
};

// Returns the tokenizer in a folder: encoder.json and vocab.bpe, else Hugging Face's. Empty if there is none.
std::optional<TokenizerFiles> FindTokenizer(const std::string& folder);
// The same without encoder.json and vocab.bpe.
std::optional<TokenizerFiles> FindHuggingFaceTokenizer(const std::string& folder);
TokenizerFiles Gpt2Tokenizer(const std::string& encoder_json, const std::string& vocab_bpe);
// Returns the names of the files that FindTokenizer looks for, for messages.
std::string TokenizerNames();

// Throws DataError, which names a file.
std::unique_ptr<const Tokenizer> OpenTokenizer(const TokenizerFiles& files);

// The parts of a byte-level BPE: the contents of vocab.json (or encoder.json) and of merges.txt (or vocab.bpe).
struct TokenizerParts {
  std::string vocabulary, merges;
};
// Returns those of a tokenizer that has_dictionary(). Throws DataError.
TokenizerParts PartsOf(const TokenizerFiles& files);

// Returns the paths of all files in a tokenizer's folder that belong to it: its own, and those that programs of Hugging
// Face read beside them.
std::vector<std::string> AllFilesOf(const TokenizerFiles& files);
// Returns the content of a file of at most 256 MiB. Throws DataError.
std::string ReadTokenizerFile(const std::string& path);
// Returns a hash of the contents of files.
std::string HashOfFiles(const std::vector<std::string>& paths);

// Returns what `make` returns. A DataError that it throws gets the names of these files of one folder in front, unless
// it names a file of that folder.
template <typename Make>
auto NamingFiles(const std::vector<std::string>& paths, const Make& make) {
  try {
    return make();
  } catch (const DataError& error) {
    const std::string what = error.what();
    if (what.starts_with(FolderOf(paths.front()) + "/")) throw;
    throw DataError(Joined(paths, " and ") + ": " + what, error.hint());
  }
}

}  // namespace dtrain::data
