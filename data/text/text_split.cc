#include "data/text/text_split.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "data/error.h"
#include "data/formats/open_source.h"
#include "data/formats/sentence_files.h"
#include "data/formats/tensor_file.h"
#include "data/sha256.h"
#include "data/storage.h"
#include "data/text/dictionary.h"
#include "data/text/token_rows.h"

namespace dtrain::data {
namespace {

// Several sources as one: the records of the first, then those of the second, and so on.
class JoinedSource : public RecordSource {
 public:
  // `parts` are of one kind, without classes, and at least one.
  explicit JoinedSource(std::vector<std::unique_ptr<RecordSource>> parts) : parts_(std::move(parts)) {
    Sha256 hash;
    for (const auto& part : parts_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
      hash.UpdateText(part->fingerprint());
    }
    fingerprint_ = hash.Hex();
  }

  int64_t size() const override { return ends_.back(); }
  RecordKind kind() const override { return parts_.front()->kind(); }
  std::vector<uint8_t> Read(int64_t index) const override {
    const auto [part, inside] = PartOf(index);
    return parts_[part]->Read(inside);
  }
  RecordPlace Place(int64_t index) const override {
    const auto [part, inside] = PartOf(index);
    return parts_[part]->Place(inside);
  }
  std::string fingerprint() const override { return fingerprint_; }

  // Returns the part that holds a record, and the record's index in it.
  std::pair<size_t, int64_t> PartOf(int64_t index) const {
    const auto part = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return {part, index - (part == 0 ? 0 : ends_[part - 1])};
  }

 private:
  std::vector<std::unique_ptr<RecordSource>> parts_;
  std::vector<int64_t> ends_;  // index behind the last record of each part
  std::string fingerprint_;
};

std::string DictionaryPath(const std::string& data_dir) { return FolderAt(data_dir) + "/dict.txt"; }

// What the ids of tokens mean, by a dict.txt or by the tokenizer whose ids they are.
struct Meaning {
  SpecialTokens special;
  int64_t stored = 0, vocabulary = 0;  // tokens in files are below the first, those of a model below the second
  std::string fingerprint;
  std::optional<Dictionary> dictionary;
  std::unique_ptr<const Tokenizer> tokenizer;  // with a dictionary only if words are masked whole
};

// Returns the tokenizer in a folder if its token files have no dict.txt, or, with `keeps_ids`, if it needs none; else
// null.
std::unique_ptr<const Tokenizer> TokenizerWithoutDictionary(const std::string& folder, bool keeps_ids = false) {
  const auto files = FindHuggingFaceTokenizer(folder);
  auto tokenizer = files ? OpenTokenizer(*files) : nullptr;
  const bool fits = tokenizer && (!tokenizer->has_dictionary() || (keeps_ids && tokenizer->keeps_ids()));
  return fits ? std::move(tokenizer) : nullptr;
}

std::optional<Meaning> FindMeaning(const std::string& data_dir, bool keeps_ids = false) {
  const std::string folder = FolderAt(data_dir);
  std::unique_ptr<const Tokenizer> tokenizer;
  if (Exists(DictionaryPath(data_dir))) {
    auto words = Dictionary::Load(DictionaryPath(data_dir));  // which says why a link leads nowhere
    if (keeps_ids) tokenizer = TokenizerWithoutDictionary(folder, keeps_ids);
    if (!tokenizer || tokenizer->GoesWith(words))
      return Meaning{{.mask = words.mask_token()}, words.size(),     words.vocabulary(),
                     words.fingerprint(),          std::move(words), nullptr};
  } else {
    tokenizer = TokenizerWithoutDictionary(folder, keeps_ids);
  }
  if (!tokenizer) return std::nullopt;
  if (tokenizer->special().mask < 0) {
    throw DataError("the tokenizer in " + folder + " has no token for masked words",
                    "take a tokenizer with <mask> or [MASK]");
  }
  const int64_t vocabulary = tokenizer->vocabulary();
  std::string fingerprint = HashOfFiles(AllFilesOf(*FindHuggingFaceTokenizer(folder)));
  return Meaning{tokenizer->special(),   vocabulary,   vocabulary,
                 std::move(fingerprint), std::nullopt, std::move(tokenizer)};
}

Meaning RequireMeaning(const std::string& folder) {
  if (auto meaning = FindMeaning(folder)) return std::move(*meaning);
  throw DataError("there is no " + folder + "/dict.txt, the dictionary of the tokens",
                  "--data_dir must name a folder written by dtrain_data tokenize or fairseq-preprocess");
}

// Returns for each id whether it begins a word.
std::vector<bool> WordsOf(const Meaning* meaning, const std::string& folder) {
  if (meaning != nullptr && meaning->tokenizer) {
    std::vector<bool> begins;
    for (int64_t id = 0; id < meaning->vocabulary; ++id) begins.push_back(meaning->tokenizer->BeginsWord(id));
    return begins;
  }
  const auto files = FindTokenizer(folder);
  if (!files || meaning == nullptr) {
    throw DataError(
        folder + " has no dict.txt or no tokenizer, which --mask_whole_words needs to find where words begin",
        "put GPT-2's encoder.json and vocab.bpe (or vocab.json and merges.txt) beside the data, as dtrain_data "
        "tokenize does, or leave --mask_whole_words out");
  }
  return OpenTokenizer(*files)->BeginsWord(*meaning->dictionary);
}

MaskingOptions MaskingOf(const TextOptions& options, const Meaning* meaning, const std::string& folder) {
  MaskingOptions masking{.mask_prob = options.mask_prob,
                         .special_tokens = options.mask_special_tokens,
                         .vocabulary = meaning ? meaning->vocabulary : options.vocab_size,
                         .special = meaning ? meaning->special : SpecialTokens{.mask = options.vocab_size - 1},
                         .seed = options.seed};
  if (options.mask_whole_words) {
    masking.begins_word = std::make_shared<const std::vector<bool>>(WordsOf(meaning, folder));
  }
  return masking;
}

// Returns the model's vocabulary: --vocab_size, which may exceed that of the data. The data's is masking.vocabulary,
// and all tables by id have its size.
int64_t Vocabulary(const TextOptions& options, const MaskingOptions& masking) {
  if (masking.vocabulary < kSmallestVocabulary) {
    throw Error(ExitCode::kUsage,
                "a vocabulary of " + std::to_string(masking.vocabulary) +
                    " tokens has no room for <s>, <pad>, </s>, <unk> and <mask>",
                "give --vocab_size=" + std::to_string(kSmallestVocabulary) + " or more");
  }
  if (options.vocab_size == 0) return masking.vocabulary;
  if (options.vocab_size >= masking.vocabulary) return options.vocab_size;
  throw Error(ExitCode::kUsage,
              "--vocab_size=" + std::to_string(options.vocab_size) +
                  " is smaller than the dictionary including <mask>: " + std::to_string(masking.vocabulary),
              "leave --vocab_size out: the size is then taken from the dictionary");
}

TextSplit BlocksOf(std::unique_ptr<const TokenStream> lines, const TextOptions& options, const Meaning& meaning,
                   const std::string& folder) {
  auto blocks = std::make_unique<TokenBlocks>(std::move(lines), options.sample_break, options.tokens_per_sample,
                                              meaning.fingerprint, meaning.special);
  TextSplit text;
  const MaskingOptions masking = MaskingOf(options, &meaning, folder);
  text.type = blocks->type();
  text.vocabulary = Vocabulary(options, masking);
  text.special = masking.special;
  text.decoder = MakeTokenRowDecoder({.type = blocks->type(),
                                      .tokens_per_sample = options.tokens_per_sample,
                                      .dictionary_size = meaning.stored,
                                      .adds_begin = blocks->front() > 0,
                                      .masking = masking});
  text.length = [source = blocks.get()](int64_t index) { return source->length(index); };
  text.tokens_per_sample = options.tokens_per_sample;
  text.too_long = blocks->too_long();
  text.source = std::move(blocks);
  return text;
}

TextSplit OpenTokens(const TextOptions& options, const std::string& split) {
  const std::string prefix = RequireTokenFiles(options.data_dir, split);
  const std::string& folder = options.dictionary_dir.empty() ? options.data_dir : options.dictionary_dir;
  const Meaning meaning = RequireMeaning(folder);
  const auto own = FindMeaning(options.data_dir);
  if (own && own->fingerprint != meaning.fingerprint) {
    throw DataError(options.data_dir + "/dict.txt is another dictionary than " + folder + "/dict.txt",
                    "tokenize the text of all folders with one dictionary (--dict)");
  }
  return BlocksOf(std::make_unique<TokenDataset>(prefix), options, meaning, folder);
}

TextSplit OpenTexts(const TextOptions& options, const std::string& split) {
  const auto path = FindTextFile(options.data_dir, split);
  if (!path) {
    throw DataError("there is no '" + split + "' split: looked for " + options.data_dir + "/" + split + ".txt",
                    "a split of raw text is a file NAME.txt");
  }
  const std::string& folder = options.dictionary_dir.empty() ? options.data_dir : options.dictionary_dir;
  const auto meaning = FindMeaning(folder, /*keeps_ids=*/true);
  const auto files = FindTokenizer(folder);
  if (!meaning || !files) {
    throw DataError("there is no tokenizer with the ids of a model in " + folder,
                    "put the tokenizer that came with the weights there, with its dict.txt if it has encoder.json");
  }
  RawTextOptions raw{.skips_blank = options.sample_break == SampleBreak::kLines};
  if (meaning->tokenizer) return BlocksOf(OpenRawText(*path, *meaning->tokenizer, raw), options, *meaning, folder);
  const std::unique_ptr<const Tokenizer> tokenizer = OpenTokenizer(*files);
  raw.ids = tokenizer->IdsIn(*meaning->dictionary);
  return BlocksOf(OpenRawText(*path, *tokenizer, raw), options, *meaning, folder);
}

TextSplit OpenTensors(const TextOptions& options, const std::string& split) {
  auto rows = std::make_unique<TokenTensorFile>(RequireTensorFile(options.data_dir, split));
  const TokenTensorFile::Layout layout = rows->layout();
  if (layout.tokens > options.tokens_per_sample) {
    throw Error(ExitCode::kUsage,
                rows->Place(0).file + " has rows of " + std::to_string(layout.tokens) +
                    " tokens, more than "
                    "--tokens_per_sample=" +
                    std::to_string(options.tokens_per_sample),
                "give --tokens_per_sample=" + std::to_string(layout.tokens) + " or more");
  }
  const std::string folder = FolderAt(options.data_dir);
  const std::string& said_by = options.dictionary_dir.empty() ? options.data_dir : options.dictionary_dir;
  const bool is_said = options.vocab_size > 0 && options.dictionary_dir.empty() && !Exists(DictionaryPath(said_by));
  const auto meaning = is_said ? std::nullopt : FindMeaning(said_by);
  if (!meaning && options.vocab_size == 0) {
    throw Error(ExitCode::kUsage, "the size of the vocabulary is unknown: there is no " + folder + "/dict.txt",
                "give --vocab_size");
  }
  TextSplit text;
  const MaskingOptions masking = MaskingOf(options, meaning ? &*meaning : nullptr, folder);
  text.vocabulary = Vocabulary(options, masking);
  text.special = masking.special;
  text.decoder = MakeTokenTensorDecoder(layout, masking);
  text.length = [tokens = layout.tokens](int64_t /*index*/) { return tokens; };
  text.tokens_per_sample = layout.tokens;
  text.source = std::move(rows);
  return text;
}

}  // namespace

bool HasDictionary(const std::string& data_dir) {
  if (Exists(DictionaryPath(data_dir))) return true;
  try {
    return TokenizerWithoutDictionary(FolderAt(data_dir)) != nullptr;
  } catch (const DataError&) {  // it is of another kind, and may be of something else
    return false;
  }
}

int64_t StoredVocabulary(const std::string& data_dir) { return RequireMeaning(data_dir).stored; }

TextSplit OpenShards(const TextOptions& options, const std::vector<std::string>& folders, const std::string& split) {
  TextSplit all;
  std::vector<std::unique_ptr<RecordSource>> sources;
  std::vector<std::function<int64_t(int64_t)>> lengths;
  for (const std::string& folder : folders) {
    TextOptions of_folder = options;
    of_folder.data_dir = folder;
    of_folder.dictionary_dir = folders.front();
    TextSplit text = OpenText(of_folder, split);
    if (!sources.empty() && text.type != all.type) {
      throw DataError("the tokens of " + folder + " and " + folders.front() + " have different sizes",
                      "tokenize the text of all folders in the same way");
    }
    const int64_t too_long = all.too_long + text.too_long;
    sources.push_back(std::move(text.source));
    lengths.push_back(std::move(text.length));
    std::vector<int64_t> shards = std::move(all.shards);
    shards.push_back(sources.back()->size());
    if (sources.size() == 1) all = std::move(text);
    all.shards = std::move(shards);
    all.too_long = too_long;
  }
  auto joined = std::make_unique<JoinedSource>(std::move(sources));
  all.length = [source = joined.get(), lengths](int64_t index) {
    const auto [part, inside] = source->PartOf(index);
    return lengths[part](inside);
  };
  all.source = std::move(joined);
  return all;
}

TextSplit OpenText(const TextOptions& options, const std::string& split) {
  if (options.format == kTextFormat) return OpenTexts(options, split);
  return options.format == kTensorFormat ? OpenTensors(options, split) : OpenTokens(options, split);
}

}  // namespace dtrain::data
