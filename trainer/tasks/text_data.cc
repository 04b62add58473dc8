#include "trainer/tasks/text_data.h"

#include <filesystem>
#include <utility>

#include "data/count_of.h"
#include "data/formats/open_source.h"
#include "data/text/text_split.h"
#include "trainer/config/flags.h"
#include "trainer/errors.h"
#include "trainer/report/log.h"
#include "trainer/tasks/val_fraction.h"
#include "trainer/weights/roberta_model.h"

namespace dtrain::loop {
namespace {

std::string FormatOf(const config::Config& config) {
  const config::DataConfig& data = config.data;
  const std::string format =
      data.format == "auto" ? data::DetectFormat(data.dir, {data.train_split, data.val_split}) : data.format;
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

// `train` and `val` both have the whole training split; each is reduced to its part.
void KeepParts(DataSplit& train, DataSplit& val, const config::Config& config) {
  SplitSources parts = HoldOutValidation(std::move(train.source), config);
  const auto keep = [of_whole = train.length](DataSplit& split, std::unique_ptr<data::Subset> part) {
    split.length = [of_whole, part = part.get()](int64_t index) { return of_whole(part->PositionOf(index)); };
    split.source = std::move(part);
  };
  keep(train, std::move(parts.train));
  keep(val, std::move(parts.val));
  val.name = NameOfHeldOut(train.name);
}

}  // namespace

DataSets OpenTextSets(const config::Config& config) {
  const std::string format = FormatOf(config);
  const data::TextOptions options = OptionsOf(config, format);
  DataSets sets;
  const auto open = [&](const std::string& name, bool is_again = false) -> DataSplit {
    data::TextSplit text = data::OpenText(options, name);
    if (text.too_long > 0 && !is_again) {
      report::LogWarning("left out: " + CountOf(text.too_long, "block") + " of " + name +
                         ", longer than --tokens_per_sample=" + std::to_string(options.tokens_per_sample));
    }
    sets.num_classes = text.vocabulary;
    return {name, std::move(text.source), std::move(text.decoder), std::move(text.length), text.tokens_per_sample};
  };
  const bool training = config.run.mode == "train";
  std::error_code unreadable;
  const bool is_file = std::filesystem::is_regular_file(config.data.dir, unreadable);  // the file is the split
  const bool has_val = data::HasSplit(format, config.data.dir, config.data.val_split);
  const bool holds_out = HoldsOut(config, has_val);
  if (training || holds_out) sets.train = open(config.data.train_split);
  if (holds_out) {
    sets.val = open(config.data.train_split, /*is_again=*/true);  // for its decoder and lengths
    KeepParts(*sets.train, *sets.val, config);
    if (!training) sets.train.reset();
  } else if (!training && is_file) {
    sets.val = open(config.data.train_split);
  } else if (!training || has_val || config::WasGiven(config, "val_split")) {
    sets.val = open(config.data.val_split);
  } else if (!is_file) {
    report::LogWarning(
        "there is no '" + config.data.val_split + "' split in " + config.data.dir +
        ": the run goes on without validation; --val_split names another one, --val_fraction=0.1 makes one");
  }
  return sets;
}

}  // namespace dtrain::loop
