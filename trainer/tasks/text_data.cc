#include "trainer/tasks/text_data.h"

#include <filesystem>
#include <sstream>
#include <utility>

#include "data/count_of.h"
#include "data/formats/open_source.h"
#include "data/text/text_split.h"
#include "trainer/config/resolve.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/open_text_splits.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {

void RequireShards(const config::Config& config, const std::string& format) {
  const std::string what = "--data_dir=" + config.data.dir + " names several folders, ";
  if (format != "tokens") throw UsageError(what + "and only token files may be spread over some", "name one folder");
  if (config.data.last_batch == "drop" || config.data.val_fraction > 0) {
    throw UsageError(what + "which goes with neither --last_batch=drop nor --val_fraction", "leave them out");
  }
}

std::string FormatOf(const config::Config& config) {
  const config::DataConfig& data = config.data;
  const std::string format = data.format == "auto"
                                 ? data::DetectFormat(data.dir, {data.train_split, config::ValSplits(data).front()})
                                 : data.format;
  if (format == "tokens" || format == "safetensors") return format;
  throw UsageError("--task=masked_lm learns from tokens, but " +
                       (data.format == "auto" ? data.dir + " holds none" : "--data_format=" + format + " has others"),
                   "name a folder of token files (dtrain_data tokenize), or a safetensors file with input_ids");
}

data::TextOptions OptionsOf(const config::Config& config, const std::string& format) {
  data::TextOptions options{.data_dir = config.data.dir,
                            .format = format,
                            .tokens_per_sample = config.text.tokens_per_sample,
                            .sample_break = data::SampleBreakFromName(config.text.sample_break),
                            .mask_prob = config.text.mask_prob,
                            .mask_whole_words = config.text.mask_whole_words,
                            .mask_special_tokens = config.text.mask_special_tokens,
                            .vocab_size = config.text.vocab_size,
                            .seed = config.batch.seed};
  if (options.vocab_size > 0 || data::HasDictionary(options.data_dir)) return options;
  if (config.model.config_file.empty() && config.model.init_weights.empty()) return options;  // OpenText will throw
  options.vocab_size = RobertaOptionsOf(config, /*vocabulary=*/0, ReadOutline(config.model.init_weights)).vocab_size;
  return options;
}

}  // namespace

std::vector<std::string> TextFolders(const std::string& data_dir) {
  std::error_code unreadable;
  const bool is_one = data_dir.find(':') == std::string::npos || std::filesystem::exists(data_dir, unreadable);
  std::vector<std::string> folders;
  std::istringstream parts(is_one ? "" : data_dir);
  for (std::string part; std::getline(parts, part, ':');) folders.push_back(part);
  return is_one ? std::vector{data_dir} : folders;
}

DataSets OpenTextSets(const config::Config& given) {
  const std::vector<std::string> folders = TextFolders(given.data.dir);
  config::Config config = given;
  config.data.dir = folders.front();  // has the dictionary and the validation sets
  const std::string format = FormatOf(config);
  if (folders.size() > 1) RequireShards(given, format);
  const data::TextOptions options = OptionsOf(config, format);
  DataSets sets;
  const auto open = [&](const std::string& name, bool is_again) -> DataSplit {
    const bool is_sharded = folders.size() > 1 && name == config.data.train_split;
    data::TextSplit text = is_sharded ? data::OpenShards(options, folders, name) : data::OpenText(options, name);
    if (text.too_long > 0 && !is_again) {
      report::LogWarning("left out: " + CountOf(text.too_long, "block") + " of " + name +
                         ", longer than --tokens_per_sample=" + std::to_string(options.tokens_per_sample));
    }
    sets.num_classes = sets.vocabulary = text.vocabulary;
    return {name,
            std::move(text.source),
            std::move(text.decoder),
            std::move(text.length),
            text.tokens_per_sample,
            std::move(text.shards)};
  };
  OpenTextSplits(config, format, open, sets);
  return sets;
}

}  // namespace dtrain::loop
