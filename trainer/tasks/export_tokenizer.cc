// encoder.json gives tokens GPT-2's ids, and the dictionary maps these to the model's ids. The exported vocab.json has
// the model's ids directly.
#include "trainer/tasks/export_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/sentences/sentence_tokenizer.h"
#include "data/storage.h"
#include "data/text/dictionary.h"
#include "data/text/tokenizer.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/errors.h"

namespace dtrain::tasks {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The subfolder of a run directory that holds the tokenizer's files and the dictionary of the data, and its name there.
constexpr const char *kTokenizerFolder = "tokenizer", *kDictionary = "dict.txt";

constexpr const char *kSettings = "tokenizer_config.json", *kClass = "tokenizer_class", *kWhole = "tokenizer.json",
                     *kPrefixSpace = "add_prefix_space";

// Whether the folder has a tokenizer and the dictionary that goes with it.
bool HasDictionary(const fs::path& folder) {
  const std::string dictionary = (folder / kDictionary).string();
  const auto files = data::FindTokenizer(folder.string());
  if (!files || !data::IsFile(dictionary)) return false;
  if (!files->kind->keeps_ids) return true;
  const auto tokenizer = data::OpenTokenizer(*files);
  return tokenizer->has_dictionary() && tokenizer->GoesWith(data::Dictionary::Load(dictionary));
}

// Whether the folder has a tokenizer that gives tokens the ids of a model.
bool IsComplete(const fs::path& folder) {
  const auto files = data::FindTokenizer(folder.string());
  return files && (files->kind->keeps_ids || HasDictionary(folder));
}

// Returns the content of what belongs to the tokenizer in a folder, by name.
std::map<std::string, std::string> FilesOf(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::path path : data::AllFilesOf(*data::FindTokenizer(folder.string()))) {
    files[path.filename().string()] = data::ReadTokenizerFile(path.string());
  }
  return files;
}

void Keep(const fs::path& folder, const fs::path& run_directory) {
  const fs::path kept = run_directory / kTokenizerFolder;
  checkpoint::MakeFolder(kept);
  std::map<std::string, std::string> files = FilesOf(folder);
  if (HasDictionary(folder)) files[kDictionary] = data::ReadTokenizerFile(folder / kDictionary);
  for (const auto& [name, content] : files) checkpoint::WriteAtomically(kept / name, content);
}

void RequireFits(int64_t tokens, const fs::path& tokenizer, const models::TextShape& model) {
  if (tokens <= model.vocab_size) return;
  throw DataError(tokenizer.string() + " has " + std::to_string(tokens) + " tokens, more than the model's " +
                      std::to_string(model.vocab_size),
                  "it belongs to another model: name the right folder with --data_dir");
}

Json ObjectIn(const std::map<std::string, std::string>& files, const char* name) {
  const auto file = files.find(name);
  auto json = Json::parse(file == files.end() ? "{}" : file->second, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

// Writes into the settings what they leave to the class, which transformers else takes from the model's family,
// whatever the files are: that class itself, what it does to a text in place of a tokenizer.json, and what it gives the
// model.
void CompleteSettings(const data::TokenizerKind& kind, const data::Tokenizer& tokenizer, const models::TextShape& model,
                      std::map<std::string, std::string>& files) {
  Json settings = ObjectIn(files, kSettings);
  const Json named = ObjectIn(files, "special_tokens_map.json");
  const Json whole =
      std::ranges::count(kind.names, std::string_view(kWhole)) > 0 ? ObjectIn(files, kWhole) : Json::object();
  const auto add = [&](const std::string& name, const Json& value) {
    if (!settings.contains(name) && !named.contains(name)) settings[name] = value;
  };
  if (!settings.value(kClass, Json()).is_string()) settings[kClass] = tokenizer.transformers_class();
  const Json normal = whole.value("normalizer", Json()), before = whole.value("pre_tokenizer", Json());
  const auto class_name = settings[kClass].get<std::string>();
  if (class_name.find("Bert") != std::string::npos && normal.is_object()) {
    add("do_lower_case", normal.value("lowercase", true));
    add("strip_accents", normal.value("strip_accents", Json()));
    add("tokenize_chinese_chars", normal.value("handle_chinese_chars", true));
  }
  if (class_name.starts_with("Roberta") && before.is_object()) add(kPrefixSpace, before.value(kPrefixSpace, false));
  const data::SpecialTokens& special = tokenizer.special();
  for (const auto& [name, id] : {std::pair{"cls_token", special.begin},
                                 {"pad_token", special.pad},
                                 {"sep_token", special.end},
                                 {"unk_token", special.unknown},
                                 {"mask_token", special.mask}}) {
    if (id >= 0) add(name, tokenizer.tokens()[static_cast<size_t>(id)]);
  }
  Json inputs = {"input_ids", "attention_mask"};
  if (tokenizer.has_types() && model.token_types > 1) inputs.insert(inputs.begin() + 1, "token_type_ids");
  add("model_input_names", inputs);
  files[kSettings] = settings.dump(2) + "\n";
}

// A tokenizer whose ids are the model's already is exported as it is.
ExportedTokenizer Copied(const fs::path& folder, const models::TextShape& model) {
  const auto tokenizer = data::OpenTokenizer(*data::FindTokenizer(folder.string()));
  const int64_t tokens = tokenizer->vocabulary();
  RequireFits(tokens, folder, model);
  std::map<std::string, std::string> files = FilesOf(folder);
  files.erase("config.json");  // the model writes its own
  CompleteSettings(*data::FindTokenizer(folder.string())->kind, *tokenizer, model, files);
  return {.known = tokens, .all = tokens, .files = std::move(files)};
}

// Returns the tokens in the order of their ids. They must contain every token that a merge can make, each with an id of
// its own, because the fast tokenizers of transformers merge ids and not texts. Those that the dictionary lacks come
// last.
std::vector<std::string> NamesInOrder(const data::Tokenizer& tokenizer, const data::Dictionary& dictionary) {
  const std::map<std::string, int64_t> specials = {{"<s>", data::kBeginToken},
                                                   {"<pad>", data::kPadToken},
                                                   {"</s>", data::kEndToken},
                                                   {"<unk>", data::kUnknownToken},
                                                   {data::kMaskSymbol, dictionary.mask_token()}};
  std::vector<std::string> names(static_cast<size_t>(dictionary.vocabulary()));
  for (size_t i = 0; i < dictionary.entries().size(); ++i) {
    names[data::kSpecialTokens + i] = dictionary.entries()[i].symbol;
  }
  for (const auto& [special, id] : specials) names[static_cast<size_t>(id)] = special;
  const std::vector<std::string>& tokens = tokenizer.tokens();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty() || specials.contains(tokens[i])) continue;
    const int64_t id = dictionary.IdOf(tokenizer.Symbol(static_cast<int64_t>(i)));
    if (id == data::kUnknownToken) {
      names.push_back(tokens[i]);
    } else {
      names[static_cast<size_t>(id)] = tokens[i];
    }
  }
  return names;
}

}  // namespace

void KeepTokenizer(const std::string& data_dir, const fs::path& run_directory) {
  const fs::path folder = data::FolderAt(data_dir);
  if (IsComplete(folder)) Keep(folder, run_directory);
}

void KeepSentenceTokenizer(const std::vector<std::string>& paths, const fs::path& run_directory) {
  const std::optional<std::string> folder = data::SentenceTokenizerFolder(paths);
  std::error_code ignored;
  if (folder && IsComplete(*folder) && !fs::equivalent(*folder, run_directory / kTokenizerFolder, ignored))
    Keep(*folder, run_directory);
}

std::optional<fs::path> FindTokenizerToExport(const std::vector<std::string>& paths) {
  for (const fs::path path : paths) {
    if (path.empty()) continue;
    // RUN_DIR, RUN_DIR/model.safetensors, RUN_DIR/checkpoints/STEP
    const fs::path whole = fs::absolute(path), above = whole.parent_path();
    for (const fs::path& folder :
         {whole, whole / kTokenizerFolder, above, above / kTokenizerFolder, above.parent_path() / kTokenizerFolder}) {
      if (IsComplete(folder)) return folder;
    }
  }
  return std::nullopt;
}

void PutSpacesBeforeWords(ExportedTokenizer& tokenizer) {
  bool is_byte_level = tokenizer.files.contains("merges.txt");
  if (tokenizer.files.contains(kWhole)) {  // which transformers 5 reads alone, and earlier ones beside the settings
    Json whole = ObjectIn(tokenizer.files, kWhole);
    if (whole.value(Json::json_pointer("/pre_tokenizer/type"), "") == "ByteLevel") {
      is_byte_level = whole["pre_tokenizer"][kPrefixSpace] = true;
      tokenizer.files[kWhole] = whole.dump();
    }
  }
  if (!is_byte_level) return;
  Json settings = ObjectIn(tokenizer.files, kSettings);
  settings[kPrefixSpace] = true;
  tokenizer.files[kSettings] = settings.dump(2) + "\n";
}

ExportedTokenizer ExportTokenizer(const fs::path& tokenizer_folder, const models::TextShape& model) {
  if (!HasDictionary(tokenizer_folder)) return Copied(tokenizer_folder, model);
  const data::TokenizerFiles files = *data::FindTokenizer(tokenizer_folder.string());
  const std::unique_ptr<const data::Tokenizer> tokenizer = data::OpenTokenizer(files);
  const auto dictionary = data::Dictionary::Load((tokenizer_folder / kDictionary).string());
  RequireFits(dictionary.vocabulary(), tokenizer_folder, model);
  const std::vector<std::string> names = NamesInOrder(*tokenizer, dictionary);
  Json vocabulary = Json::object();
  for (size_t id = 0; id < names.size(); ++id) vocabulary[names[id]] = id;
  const Json special = {
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"unk_token", "<unk>"},
      {"sep_token", "</s>"},
      {"pad_token", "<pad>"},
      {"cls_token", "<s>"},
      {"mask_token",
       {{"content", "<mask>"}, {"lstrip", true}, {"normalized", false}, {"rstrip", false}, {"single_word", false}}}};
  const Json settings = {
      {kClass, "RobertaTokenizer"}, {"model_max_length", model.longest_sequence}, {"add_prefix_space", false}};
  return {.known = dictionary.vocabulary(),
          .all = static_cast<int64_t>(names.size()),
          .files = {{"vocab.json", vocabulary.dump() + "\n"},
                    {"merges.txt", data::PartsOf(files).merges},
                    {"special_tokens_map.json", special.dump(2) + "\n"},
                    {"tokenizer_config.json", settings.dump(2) + "\n"}}};
}

}  // namespace dtrain::tasks
