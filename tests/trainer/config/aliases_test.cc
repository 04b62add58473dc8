// What holds for the commands of all other programs.
#include "trainer/config/aliases.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/config/foreign_commands.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The rows that programs share, and those of each.
std::vector<const std::vector<Alias>*> Tables() {
  std::vector<const std::vector<Alias>*> tables = {&SharedAliases()};
  for (const ForeignProgram* program : ForeignPrograms()) tables.push_back(&program->rows);
  return tables;
}

TEST(Aliases, WhatHappensAnywayIsNeverRefused) {
  ExpectSame(
      "--arch=roberta_large --encoder-layers=24 --encoder-embed-dim 1024 --encoder-ffn-embed-dim=4096 "
      "--encoder-attention-heads=16 --tokens-per-sample=256 --max-positions=256 --quant-noise-pq=0.0",
      "--arch=roberta_large --tokens-per-sample=256");
}

// A run's configuration has our flags, also those that a program's defaults were.
TEST(Aliases, AFlagfileHasOurMeaning) {
  const TemporaryFolder folder;
  const CommandLine first = Pasted("--sched=cosine --defaults_of=timm");
  nlohmann::ordered_json json = ToJson(first.config);
  json["start"] = {{"given", first.config.given}};
  const std::string file = folder.Write("config.json", json.dump());
  EXPECT_EQ(ToJson(ParseCommandLine({"--flagfile=" + file}).config), ToJson(first.config));
  EXPECT_THAT(ParseCommandLine({"--flagfile=" + folder.Write("a.flags", "--smoothing=0.2")}).notes, IsEmpty());
}

TEST(Aliases, OfTwoProgramsOneMustBeNamed) {
  EXPECT_THROW(Pasted("--sched=cosine --data-path=d"), UsageError);
  EXPECT_THROW(Pasted("--criterion=masked_lm --smoothing=0.1"), UsageError);
  EXPECT_EQ(Pasted("--sched=cosine --data-path=d --defaults_of=timm").config.batch.batch_size, 128);
  EXPECT_EQ(Pasted("--sched=cosine --data-path=d --defaults_of=torchvision").config.batch.batch_size, 32);
  EXPECT_FALSE(Pasted("--sched=cosine --data-path=d --defaults_of=none").config.batch.batch_size);
  EXPECT_EQ(Pasted("--defaults_of=timm").config.optimizer.label_smoothing, 0.1);
}

TEST(Aliases, EveryRowLeadsToFlagsOfOurs) {
  std::set<std::string_view> names;
  for (const auto* table : Tables()) {
    const bool is_shared = table == &SharedAliases();
    for (const Alias& alias : *table) {
      SCOPED_TRACE(alias.name);
      EXPECT_TRUE(!is_shared || names.insert(alias.name).second) << "the row stands twice";
      EXPECT_TRUE(alias.flag.empty() || FindFlag(std::string(alias.flag)) != nullptr) << alias.flag;
      EXPECT_TRUE(!is_shared || FindFlag(std::string(alias.name)) == nullptr || alias.other_words_pass)
          << "a flag of ours loses its own meaning";
      EXPECT_FALSE(alias.flag.empty() && alias.words.empty() && alias.implied.empty() && alias.reason.empty() &&
                   alias.refused.empty() && alias.translate == nullptr)
          << "it is dropped without a word";
      std::vector<std::string> implied;
      AddFlags(alias.implied, implied);
      for (const Word& word : alias.words) AddFlags(word.implied, implied);
      EXPECT_NO_THROW(ParseCommandLine(implied));
    }
  }
}

// docs/coming-from.md has a table of the flags that have no effect.
TEST(Aliases, TheManualListsWhatHasNoEffect) {
  const std::string page = ReadAll(TESTDATA_DIR "/../../docs/coming-from.md");
  const size_t begin = page.find("|---|---|"), end = page.find("\n\n", begin);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  std::set<std::string> listed, expected;
  for (size_t at = page.find("`-", begin); at < end; at = page.find("`-", at + 2)) {
    const size_t from = page.find_first_not_of("`-", at);
    std::string name = page.substr(from, page.find('`', from) - from);
    std::replace(name.begin(), name.end(), '-', '_');
    listed.insert(name);
  }
  for (const auto* table : Tables()) {
    for (const Alias& alias : *table) {
      if (!alias.reason.empty()) expected.insert(std::string(alias.name));
    }
  }
  expected.insert("ddp_backend");  // its words have reasons of their own
  EXPECT_EQ(listed, expected);
}

// A flag that is given explicitly overrides one that a foreign flag implies.
TEST(Aliases, OurFlagsWin) {
  EXPECT_EQ(Pasted("--poly_power=2 --lr-scheduler=polynomial_decay").config.schedule.poly_power, 2);
  EXPECT_FALSE(Pasted("--nomask_special_tokens --task=masked_lm --arch=roberta_base").config.text.mask_special_tokens);
}

// As in argparse, also for what a value implies.
TEST(Aliases, TheLastOfAFlagCounts) {
  ExpectSame("--data-path=d --lr-scheduler exponentiallr --lr-scheduler steplr", "--data-path=d --lr-scheduler=steplr");
  ExpectSame("--sched=cosine -j8 --opt sgd -j=4 --opt momentum", "--sched=cosine -j4 --opt=momentum");
  ExpectSame("--learning_rate=1 --optim adamw_torch --fp16 True --fp16 False --defaults_of=transformers",
             "--lr=1 --optimizer=adamw --defaults_of=transformers");
}

TEST(Aliases, MistakesAreNamed) {
  const auto mistake = [](const std::string& command) { return MessageOf([&] { Pasted(command); }); };
  EXPECT_THAT(
      mistake("--data-path=d --sched=cosine"),
      HasSubstr("--sched is a flag of timm's train.py, --data-path one of torchvision's train.py: --defaults_of="));
  EXPECT_THAT(mistake("--aa=rand-m9-q5"),
              HasSubstr("--aa=rand-m9-q5 cannot be translated: 'rand-m9-q5': timm's rand has"));
  EXPECT_THAT(mistake("--scale 0.5 1 --vflip=0.5"), HasSubstr("--vflip=0.5 has no equivalent"));
  EXPECT_THAT(mistake("--model=resnet101 --data_dir=d --variable_update=horovod"),
              HasSubstr("--data_dir=d has no equivalent: it distorts images otherwise"));
  EXPECT_THAT(mistake("--sched=cosine --amp=False"), HasSubstr("--amp=False: it takes no value; leave it out"));
  EXPECT_THAT(mistake("--gpus=2"), HasSubstr("--nproc_per_node"));
  EXPECT_THAT(mistake("--lr-scheduler=no_such_schedule"),
              HasSubstr("--lr_scheduler=no_such_schedule: expected polynomial_decay | "));
  EXPECT_THAT(mistake("--task no_such_task --arch=roberta_base"),
              HasSubstr("--task=no_such_task: expected masked_lm | sentence_prediction"));
  EXPECT_THAT(mistake("--distributed-init-method file:///tmp/x"), HasSubstr("expected tcp://HOST:PORT"));
  EXPECT_THAT(mistake("--arch=roberta_base --encoder-layers=2"),
              HasSubstr("--encoder_layers=2 cannot be translated: the shape follows from --arch; --model=roberta"));
  EXPECT_THAT(mistake("here --sched=cosine --data-dir=there"), HasSubstr("given twice: 'here' and --data_dir"));
  EXPECT_THAT(mistake("--data-dir im --sched=cosine --no-such 0.2 0.8 --another x"), Not(HasSubstr("folder")));
  EXPECT_THAT(mistake("--max-sentences"), HasSubstr("--max_sentences: a value is missing"));
  EXPECT_THAT(mistake("--max-sentences=many"), HasSubstr("--max-sentences means --batch_size=many: expected"));
  EXPECT_THAT(mistake("--update-freq 1,2"), HasSubstr("--update-freq means --grad_accum_steps=1,2: expected"));
}

}  // namespace
}  // namespace dtrain::config
