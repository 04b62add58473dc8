#include "trainer/weights/sentence_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/shown.h"
#include "data/storage.h"
#include "data/text/tokenizer.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/config/choices.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/weights/run_settings.h"
#include "trainer/weights/weight_files.h"

namespace dtrain::weights {
namespace {
namespace fs = std::filesystem;

constexpr char kModules[] = "modules.json", kPooling[] = "1_Pooling", kNormalize[] = "2_Normalize",
               kPrompts[] = "config_sentence_transformers.json";
// What the encoder's file is called; the others are of older classes, and the first that is there counts.
constexpr const char* kTransformer[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                        "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                        "sentence_xlnet_config.json"};
// Of 1_Pooling/config.json: the ways that are known here, and the beginning of all of them.
constexpr char kClsMode[] = "pooling_mode_cls_token", kMeanMode[] = "pooling_mode_mean_tokens",
               kMode[] = "pooling_mode";

nlohmann::json ParsedAt(const fs::path& path, nlohmann::json::value_t kind) {
  auto json = ParseFile<UsageError>(checkpoint::ReadTextFile(path, kMostConfigBytes), path.string(), /*advice=*/"");
  if (json.type() == kind) return json;
  throw UsageError(path.string() + " is not JSON of the kind that was expected");
}

[[noreturn]] void RefusePart(const fs::path& file, const std::string& what) {
  throw UsageError(file.string() + ": " + Shown(what, 100) + " is not known here",
                   "a model is an encoder, a pooling (mean or cls), and Normalize");
}

// Returns the pooling that a 1_Pooling/config.json says: the only way that is true, or, in newer files, by its name.
std::string PoolingIn(const fs::path& file) {
  const nlohmann::json json = ParsedAt(file, nlohmann::json::value_t::object);
  std::string pooling;
  for (const auto& [key, value] : json.items()) {
    if (!key.starts_with(kMode) || value == false) continue;
    const std::string name = key == kMode && value.is_string() ? value.get<std::string>()
                             : value != true                   ? value.dump()
                             : key == kClsMode                 ? "cls"
                             : key == kMeanMode                ? "mean"
                                                               : key;
    if (!pooling.empty() || (name != "cls" && name != "mean"))
      RefusePart(file, pooling + (pooling.empty() ? "" : " + ") + name);
    pooling = name;
  }
  return pooling.empty() ? "mean" : pooling;
}

// SentenceTransformer.encode puts the prompt of this name in front of each text for which none is named.
void RefusePrompt(const fs::path& file) {
  if (!data::IsFile(file)) return;
  const nlohmann::json json = ParsedAt(file, nlohmann::json::value_t::object);
  const std::string name = TextIn(json, "default_prompt_name");
  const std::string prompt = TextIn(json.value("prompts", nlohmann::json()), name.c_str());
  if (name.empty() || prompt.empty()) return;
  throw UsageError(file.string() + ": default_prompt_name = " + Shown(name, 100) + " would put '" + Shown(prompt, 100) +
                       "' in front of each text, which is not done here",
                   "take default_prompt_name out of the file, and put the prompt in front of the texts yourself");
}

// Whether a tokenizer makes lower-case letters by itself.
bool LowersLetters(const fs::path& folder) {
  const auto files = data::FindHuggingFaceTokenizer(folder.string());
  if (!files) return false;
  const auto tokenizer = data::OpenTokenizer(*files);
  const auto encoder = tokenizer->MakeEncoder();
  std::vector<uint32_t> upper, lower;
  encoder->Encode("THE ÄPFEL OF Q", upper);
  encoder->Encode("the äpfel of q", lower);
  return upper == lower;
}

}  // namespace

bool IsSentenceFolder(const std::string& path) { return !path.empty() && data::IsFile(fs::path(path) / kModules); }

std::string TakeSentenceFolder(config::Config& config) {
  if (!config::TaskHas(config.run.task, config::kVectors)) return "";
  config::TextConfig& text = config.text;
  const fs::path folder = GivenWeights(config);
  std::string pooling = "mean", note;
  if (IsSentenceFolder(folder)) {
    bool normalizes = false;
    for (const nlohmann::json& part : ParsedAt(folder / kModules, nlohmann::json::value_t::array)) {
      const auto field = [&](const char* name) { return TextIn(part, name); };
      const std::string type = field("type"), name = type.substr(type.rfind('.') + 1);
      if (name == "Pooling") {
        pooling = PoolingIn(folder / field("path") / "config.json");
      } else if (name == "Normalize") {
        normalizes = true;
      } else if (name != "Transformer" || !field("path").empty()) {
        RefusePart(folder / kModules, type + (name == "Transformer" ? " in " + field("path") : ""));
      }
    }
    if (!config::WasGiven(config, "normalize_vectors")) text.normalize_vectors = normalizes;
    if (config.run.mode != "export") RefusePrompt(folder / kPrompts);
    const auto has = [&folder](const char* name) { return data::IsFile(folder / name); };
    const auto* const encoder = std::ranges::find_if(kTransformer, has);
    if (encoder != std::end(kTransformer)) {
      const nlohmann::json json = ParsedAt(folder / *encoder, nlohmann::json::value_t::object);
      if (json.value("do_lower_case", nlohmann::json(false)) == true && !LowersLetters(folder))
        RefusePart(folder / *encoder, "do_lower_case = true");
      const auto most = json.value("max_seq_length", nlohmann::json());
      const bool says = most.is_number_integer() && most.get<int64_t>() > 2;
      if (says && !config::WasGiven(config, "tokens_per_sample")) text.tokens_per_sample = most.get<int64_t>();
    }
    if (text.pooling == "auto") text.pooling = pooling;
    note = "from " + folder.string() + ": --pooling=" + text.pooling +
           " --normalize_vectors=" + (text.normalize_vectors ? "true" : "false") +
           " --tokens_per_sample=" + std::to_string(text.tokens_per_sample);
  }
  if (text.pooling == "auto") text.pooling = pooling;
  return note;
}

std::vector<std::pair<std::string, std::string>> SentenceFolderFiles(const config::Config& config,
                                                                     const models::TextShape& shape) {
  using nlohmann::ordered_json;
  const config::TextConfig& text = config.text;
  ordered_json modules, pooling = {{"word_embedding_dimension", shape.hidden_size}};
  const auto add = [&modules](const char* path, const char* type) {
    const size_t number = modules.size();
    modules.push_back({{"idx", number},
                       {"name", std::to_string(number)},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + type}});
  };
  add("", "Transformer");
  add(kPooling, "Pooling");
  if (text.normalize_vectors) add(kNormalize, "Normalize");
  for (const char* mode : {kClsMode, kMeanMode, "pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                           "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"}) {
    pooling[mode] = mode == (text.pooling == "cls" ? kClsMode : kMeanMode);
  }
  pooling["include_prompt"] = true;
  const ordered_json encoder = {{"max_seq_length", std::min(text.tokens_per_sample, shape.longest_sequence)},
                                {"do_lower_case", false}};
  std::vector<std::pair<std::string, std::string>> files = {
      {kModules, modules.dump(2) + "\n"},
      {std::string(kPooling) + "/config.json", pooling.dump(4) + "\n"},
      {kTransformer[0], encoder.dump(4) + "\n"}};
  const fs::path prompts = fs::path(config.run.input) / kPrompts;
  if (data::IsFile(prompts)) files.emplace_back(kPrompts, checkpoint::ReadTextFile(prompts, kMostConfigBytes));
  return files;
}

}  // namespace dtrain::weights
