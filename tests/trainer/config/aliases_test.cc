// Commands of other programs, as published on the pages from which people copy them.
#include "trainer/config/aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/temporary_folder.h"
#include "trainer/config/alias_table.h"
#include "trainer/config/command_line.h"
#include "trainer/config/config_json.h"
#include "trainer/config/flags.h"
#include "trainer/config/foreign_programs.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using Arguments = std::vector<std::string>;

// Expects that a foreign command means the same as `ours`.
void ExpectSame(const Arguments& theirs, const Arguments& ours) {
  EXPECT_EQ(ToJson(ParseCommandLine(theirs).config), ToJson(ParseCommandLine(ours).config));
}

// fairseq's flag names a folder; here events always lie in the run directory.
TEST(Aliases, TensorboardOfFairseq) {
  ExpectSame({"--tensorboard-logdir", "logs/tb", "--lr=1"}, {"--tensorboard", "--lr=1"});
  EXPECT_THAT(ParseCommandLine({"--tensorboard-logdir=logs/tb"}).notes,
              ElementsAre(HasSubstr("--tensorboard_logdir=logs/tb: events are written to the run directory")));
}

// What other pages add, and what goes without saying here.
TEST(Aliases, MoreOfFairseqTrain) {
  ExpectSame(
      {"--dataset-impl", "mmap", "--distributed-init-method", "env://", "--mask-multiple-length", "1",
       "--zero-sharding=none", "--activation-fn=gelu", "--heartbeat-timeout", "-1", "--no-last-checkpoints", "--lr=1"},
      {"--lr=1"});
  EXPECT_THROW(ParseCommandLine({"--dataset-impl", "lazy"}), UsageError);
}

// The AWS walk-through of RoBERTa-large with fairseq.
TEST(Aliases, FairseqTrain) {
  const Arguments theirs = {"--log-format",
                            "json",
                            "--log-interval",
                            "25",
                            "--seed",
                            "1",
                            "--fp16",
                            "--memory-efficient-fp16",
                            "--criterion",
                            "masked_lm",
                            "--optimizer",
                            "adam",
                            "--lr-scheduler",
                            "polynomial_decay",
                            "--task",
                            "masked_lm",
                            "--num-workers",
                            "2",
                            "--max-sentences",
                            "32",
                            "--ddp-backend=no_c10d",
                            "--sample-break-mode",
                            "complete",
                            "--tokens-per-sample",
                            "512",
                            "--adam-betas",
                            "(0.9,0.98)",
                            "--adam-eps",
                            "1e-06",
                            "--clip-norm",
                            "0.0",
                            "--lr",
                            "0.0004",
                            "--warmup-updates",
                            "500",
                            "--dropout",
                            "0.1",
                            "--attention-dropout",
                            "0.1",
                            "--weight-decay",
                            "0.01",
                            "--arch",
                            "roberta_large",
                            "--max-update",
                            "1500",
                            "--total-num-update",
                            "1500",
                            "--update-freq",
                            "4",
                            "--bucket-cap-mb",
                            "200",
                            "--fast-stat-sync",
                            "--save-dir",
                            "runs/r",
                            "--distributed-world-size",
                            "16",
                            "--distributed-rank",
                            "3",
                            "--distributed-init-method",
                            "tcp://10.0.0.7:12597"};
  const Arguments ours = {"--log_format=json",
                          "--log_interval=25",
                          "--seed=1",
                          "--precision=fp16",
                          "--memory_efficient_fp16",
                          "--optimizer=fairseq_adam",
                          "--lr_schedule=poly",
                          "--poly_power=1",
                          "--task=masked_lm",
                          "--data_format=tokens",
                          "--mask_special_tokens",
                          "--workers=2",
                          "--batch_size=32",
                          "--sample_break=complete",
                          "--tokens_per_sample=512",
                          "--adam_betas=0.9,0.98",
                          "--adam_eps=1e-6",
                          "--clip_norm=0",
                          "--lr=0.0004",
                          "--warmup_steps=500",
                          "--dropout=0.1",
                          "--attention_dropout=0.1",
                          "--weight_decay=0.01",
                          "--model=roberta_large",
                          "--max_steps=1500",
                          "--epochs=1000000",
                          "--schedule_steps=1500",
                          "--grad_accum_steps=4",
                          "--bucket_cap_mb=200",
                          "--run_dir=runs/r",
                          "--world_size=16",
                          "--rank=3",
                          "--master_addr=10.0.0.7",
                          "--master_port=12597"};
  ExpectSame(theirs, ours);
  EXPECT_THAT(ParseCommandLine(theirs).notes, ElementsAre(StartsWith("--ddp_backend=no_c10d: dtrain chooses"),
                                                          StartsWith("--fast_stat_sync has no effect")));
}

// The numbers are read in fairseq 0.12.2; those that are dtrain's defaults, too, are in no list of ours.
TEST(Aliases, FairseqsDefaultsStandBehindItsCommands) {
  const Arguments command = {"--task",       "masked_lm",   "--criterion", "masked_lm",        "--arch",
                             "roberta_base", "--optimizer", "adam",        "--max-sentences=8"};
  ExpectSame(command,
             {"--task=masked_lm", "--data_format=tokens", "--mask_special_tokens", "--model=roberta_base",
              "--optimizer=fairseq_adam", "--batch_size=8", "--lr=0.25", "--lr_schedule=constant", "--weight_decay=0",
              "--epochs=1000000", "--seed=1", "--sample_break=none", "--tokens_per_sample=1024", "--log_interval=100"});
  const CommandLine parsed = ParseCommandLine(command);
  const Config& config = parsed.config;
  EXPECT_EQ(config.optimizer.adam_betas, (std::vector<double>{0.9, 0.999}));
  EXPECT_EQ(config.optimizer.adam_eps, 1e-8);
  EXPECT_EQ(config.optimizer.clip_norm, 0);
  EXPECT_EQ(config.schedule.end_lr, 0);
  EXPECT_EQ(config.text.mask_prob, 0.15);
  EXPECT_EQ(config.ranks.bucket_cap_mb, 25);
  EXPECT_TRUE(config.optimizer.decay_norm_and_bias);
  EXPECT_FALSE(config.batch.max_steps);
  EXPECT_THAT(parsed.notes,
              ElementsAre(StartsWith("as fairseq-train: lr 0.25, lr_schedule constant, weight_decay 0, ")));
}

TEST(Aliases, OnlyTypedFlagsOfFairseqBringItsDefaults) {
  const auto decay_of = [](const Arguments& arguments) {
    return ParseCommandLine(arguments).config.optimizer.weight_decay;
  };
  EXPECT_EQ(decay_of({"--arch", "roberta_large"}), 0);
  EXPECT_EQ(decay_of({"--arch=roberta_large", "--weight-decay", "0.01"}), 0.01);
  EXPECT_EQ(decay_of({"--arch=roberta_large", "--defaults_of=none"}), 1e-4);
  EXPECT_EQ(decay_of({"--model=roberta_large", "--defaults-of", "fairseq"}), 0);
  for (const Arguments& others : std::vector<Arguments>{{"--arch=resnet50"},
                                                        {"--model=roberta_large", "--task=masked_lm"},
                                                        {"--optimizer=adam", "--tokens_per_sample=512"}}) {
    EXPECT_EQ(decay_of(others), 1e-4);
    EXPECT_NE(ParseCommandLine(others).config.optimizer.name, "fairseq_adam");
  }
  ExpectSame({"--optimizer=sgd", "--update-freq=1", "--defaults_of=fairseq"},
             {"--momentum=0", "--grad_accum_steps=1", "--defaults_of=fairseq"});
  EXPECT_THROW(ParseCommandLine({"--criterion=masked_lm", "--optimizer=adafactor"}), UsageError);
}

TEST(Aliases, FairseqsFolderNeedsNoFlag) {
  for (const Arguments& theirs :
       std::vector<Arguments>{{"--fp16", "data-bin/wiki", "--task", "masked_lm"},
                              {"data-bin/wiki", "--task=masked_lm", "--fp16"},
                              {"/usr/bin/fairseq-train", "--task", "masked_lm", "--fp16", "data-bin/wiki"}}) {
    EXPECT_EQ(ParseCommandLine(theirs).config.data.dir, "data-bin/wiki");
  }
  EXPECT_THROW(ParseCommandLine({"--fp16", "data-bin/wiki"}), UsageError);  // a word without --task or --arch
  EXPECT_THROW(ParseCommandLine({"one", "two", "--task=masked_lm"}), UsageError);
}

TEST(Aliases, AwsImageNetScripts) {
  ExpectSame({"-b", "256", "--num_epochs", "90", "--lr_decay_mode", "poly", "--warmup_epochs", "10", "--clear_log",
              "--log_dir", "results", "--mom=0.9", "--wd=5e-5"},
             {"--batch_size=256", "--epochs=90", "--lr_schedule=poly", "--poly_power=2", "--end_lr=1e-5",
              "--warmup_epochs=10", "--clear_log", "--run_dir=results", "--momentum=0.9", "--weight_decay=5e-5"});
  ExpectSame({"--synthetic"}, {"--data_format=synthetic"});
}

TEST(Aliases, TorchvisionsReference) {
  ExpectSame(
      {"--data-path=imagenet",
       "--model=resnet50",
       "--batch-size=128",
       "--lr=0.5",
       "--lr-scheduler=cosineannealinglr",
       "--lr-warmup-epochs=5",
       "--lr-warmup-method=linear",
       "--auto-augment=ta_wide",
       "--epochs=600",
       "--random-erase=0.1",
       "--label-smoothing=0.1",
       "--mixup-alpha=0.2",
       "--cutmix-alpha=1.0",
       "--weight-decay=2e-5",
       "--norm-weight-decay=0.0",
       "--train-crop-size=176",
       "--val-resize-size=232",
       "--ra-sampler",
       "--ra-reps=4",
       "--amp",
       "-j",
       "8",
       "--opt=sgd"},
      {"--data_dir=imagenet",  "--model=resnet50",     "--batch_size=128",          "--lr=0.5",
       "--lr_schedule=cosine", "--warmup_epochs=5",    "--augment=trivialaugment",  "--augment_interpolation=bilinear",
       "--epochs=600",         "--random_erasing=0.1", "--label_smoothing=0.1",     "--mixup=0.2",
       "--cutmix=1",           "--weight_decay=2e-5",  "--nodecay_norm_and_bias",   "--warmup_start_lr=0.005",
       "--lr_per_epoch",       "--lr_decay_epochs=30", "--image_size=176",          "--eval_image_size=224",
       "--eval_resize=232",    "--log_interval=10",    "--repeated_augmentation=4", "--precision=amp",
       "--workers=8",          "--optimizer=sgd"});
  ExpectSame({"--lr-warmup-decay=0.01", "--lr", "0.5", "--val-crop-size=192", "--defaults_of=none"},
             {"--warmup_start_lr=0.005", "--lr=0.5", "--eval_image_size=192", "--defaults_of=none"});
}

// The command of the AWS walk-through of 256 GPUs.
TEST(Aliases, HorovodsScriptOfTheWalkThrough) {
  ExpectSame({"-m",
              "resnet50",
              "--fp16",
              "--num_epochs",
              "90",
              "--warmup_epochs",
              "5",
              "--adv_bn_init",
              "--display_every",
              "100",
              "--loss_scale",
              "256.",
              "--data_dir",
              "imagenet_data",
              "--lr",
              "3.7",
              "--log_dir",
              "results",
              "--hue",
              "0.13",
              "--mom",
              "0.977",
              "--wdecay",
              "0.0005",
              "--batch_size",
              "256",
              "--adv_conv_init",
              "--lr_decay_mode",
              "linear_cosine",
              "--eval_interval",
              "10",
              "--leta",
              "0.012",
              "--save_checkpoints_steps",
              "190"},
             {"--model=resnet50", "--precision=fp16", "--epochs=90", "--warmup_epochs=5", "--zero_init_residual",
              "--log_interval=100", "--loss_scale=256.", "--data_dir=imagenet_data", "--lr=3.7", "--run_dir=results",
              "--momentum=0.977", "--weight_decay=0.0005", "--batch_size=256", "--lr_schedule=linear_cosine",
              "--cosine_periods=0.47", "--cosine_beta=1e-5", "--lars_trust=0.012", "--eval_every_epochs=10"});
  ExpectSame({"--use_larc", "--lc_periods=0.4", "--increased_aug"},
             {"--optimizer=lars", "--lars_clip", "--lars_trust=0.013", "--decay_norm_and_bias", "--lr=3.7",
              "--cosine_periods=0.4", "--color_jitter=0,0.4,0.4,0.065"});
}

TEST(Aliases, WhatHappensAnywayIsNeverRefused) {
  ExpectSame(
      {"--arch=roberta_large", "--encoder-layers=24", "--encoder-embed-dim", "1024", "--encoder-ffn-embed-dim=4096",
       "--encoder-attention-heads=16", "--tokens-per-sample=256", "--max-positions=256", "--quant-noise-pq=0.0"},
      {"--arch=roberta_large", "--tokens-per-sample=256"});
  const std::string own = "--defaults_of=none";
  ExpectSame({"--aug-splits", "0", "--mixup-prob=1.0", "--recount=1", "--cooldown-epochs=0", "--scale", "0.08", "1.0",
              "--ratio", "0.75", "1.3333", "--remode", "pixel", "--dist-bn", "reduce", own},
             {own});
}

TEST(Aliases, FairseqsPatience) {
  ExpectSame({"--patience", "5"}, {"--stop_after_epochs_without_gain=5"});
  ExpectSame({"--patience=-1"}, {});  // fairseq's word for never
}

TEST(Aliases, TorchelasticsExample) {
  ExpectSame({"--arch", "resnet18", "--epochs", "20", "--batch-size", "32", "-p", "5", "imagenet"},
             {"--model=resnet18", "--epochs=20", "--batch_size=32", "--log_interval=5", "--data_dir=imagenet"});
  ExpectSame({"imagenet", "-a", "resnet18"}, {"--model=resnet18", "--data_dir=imagenet"});
}

TEST(Aliases, NvidiasConvNets) {
  ExpectSame({"imagenet",
              "--arch",
              "efficientnet-b0",
              "--data-backend",
              "dali-gpu",
              "--optimizer-batch-size",
              "4096",
              "-b",
              "128",
              "--lr-schedule",
              "linear",
              "--warmup",
              "16",
              "--bn-weight-decay",
              "--static-loss-scale",
              "128",
              "--amp",
              "--memory-format",
              "nhwc",
              "--workspace",
              "results",
              "--raport-file",
              "raport.json",
              "--augmentation",
              "autoaugment"},
             {"--data_dir=imagenet", "--model=efficientnet_b0", "--global_batch_size=4096", "--batch_size=128",
              "--lr_schedule=poly", "--poly_power=1", "--warmup_epochs=16", "--decay_norm_and_bias", "--loss_scale=128",
              "--precision=amp", "--channels_last", "--run_dir=results", "--augment=autoaugment"});
  ExpectSame({"--mode=convergence", "--precision=AMP"}, {"--mode=train", "--precision=amp"});
}

// What timm's train.py does where a command is silent, for a ResNet.
Arguments WithDefaultsOfTimm(const Arguments& ours) {
  Arguments all = {"--label_smoothing=0.1",
                   "--epochs=300",
                   "--seed=42",
                   "--batch_size=128",
                   "--lr=0.1",
                   "--lr_base_batch=256",
                   "--lr_schedule=cosine",
                   "--schedule_through_warmup",
                   "--lr_per_epoch",
                   "--warmup_epochs=5",
                   "--warmup_start_lr=1e-5",
                   "--nesterov",
                   "--weight_decay=2e-5",
                   "--nodecay_norm_and_bias",
                   "--color_jitter=0.4",
                   "--interpolation=random",
                   "--eval_interpolation=bicubic",
                   "--image_size=224",
                   "--eval_resize=235",
                   "--zero_init_residual",
                   "--last_batch=drop",
                   "--keep_checkpoints=10",
                   "--log_interval=50"};
  all.insert(all.end(), ours.begin(), ours.end());
  return all;
}

TEST(Aliases, TimmsDefaultsStandBehindItsCommands) {
  ExpectSame({"--sched", "cosine"}, WithDefaultsOfTimm({}));
  EXPECT_THAT(ParseCommandLine({"--sched", "cosine"}).notes,
              ElementsAre(StartsWith("as timm's train.py: label_smoothing 0.1, epochs 300, ")));
  ExpectSame({"data", "--opt", "sgd"}, WithDefaultsOfTimm({"--data_dir=data"}));
  ExpectSame({"--sched=step", "--lr=0.4", "--epochs", "100", "--no-aug"},
             WithDefaultsOfTimm({"--lr_schedule=step", "--lr_decay_epochs=90", "--lr=0.4", "--lr_base_batch=0",
                                 "--epochs=100", "--augment=none", "--color_jitter=0", "--interpolation=bicubic"}));
  ExpectSame({"--opt=adamw", "--img-size=192", "--amp", "--amp-dtype=bfloat16"},
             WithDefaultsOfTimm({"--optimizer=adamw", "--nonesterov", "--lr_scaling=sqrt", "--image_size=192",
                                 "--eval_resize=202", "--precision=bf16"}));
  ExpectSame({"--model=efficientnet_b1", "--smoothing=0"},
             WithDefaultsOfTimm({"--model=efficientnet_b1", "--label_smoothing=0", "--image_size=240",
                                 "--eval_resize=266", "--mean=0.5,0.5,0.5", "--std=0.5,0.5,0.5", "--dropout=0",
                                 "--drop_path=0", "--bn_eps=1e-5", "--bn_momentum=0.1", "--nozero_init_residual"}));
}

TEST(Aliases, Timm) {
  ExpectSame({"--sched",
              "step",
              "--decay-epochs",
              "2.4",
              "--decay-rate",
              ".97",
              "--min-lr",
              "1e-5",
              "--reprob",
              "0.2",
              "--remode",
              "const",
              "--smoothing",
              "0.2",
              "--native-amp",
              "--drop",
              "0.2",
              "--clip-grad",
              "1",
              "--warmup-prefix",
              "--warmup-epochs",
              "3",
              "--epochs",
              "10",
              "--torchcompile",
              "inductor",
              "imagenet"},
             WithDefaultsOfTimm({"--lr_schedule=step", "--lr_decay_epochs=2.4", "--lr_decay_factor=0.97",
                                 "--end_lr=1e-5", "--random_erasing=0.2", "--label_smoothing=0.2", "--precision=amp",
                                 "--dropout=0.2", "--clip_norm=1", "--noschedule_through_warmup", "--warmup_epochs=3",
                                 "--epochs=13", "--data_dir=imagenet"}));
  ExpectSame({"--opt-eps", "1e-3", "--opt", "rmsproptf", "--crop-pct=0.875", "--opt-betas", "0.8", "0.99"},
             WithDefaultsOfTimm({"--rmsprop_eps=1e-3", "--optimizer=rmsprop_tf", "--nonesterov", "--eval_resize=256",
                                 "--adam_betas=0.8,0.99"}));
  ExpectSame({"--sched=multistep", "--decay-milestones", "30", "60"},
             WithDefaultsOfTimm({"--lr_schedule=step", "--lr_decay_epochs=29,59"}));
  ExpectSame({"--sched=poly", "--lr-base=0.2", "--lr-base-size", "512", "--sched-on-updates"},
             WithDefaultsOfTimm(
                 {"--lr_schedule=poly", "--poly_power=0.1", "--lr=0.2", "--lr_base_batch=512", "--nolr_per_epoch"}));
}

TEST(Aliases, TorchvisionsDefaultsStandBehindItsCommands) {
  const Arguments ours = {"--data_dir=d",          "--model=resnet18",     "--batch_size=32",  "--lr=0.1",
                          "--lr_schedule=step",    "--lr_decay_epochs=30", "--lr_per_epoch",   "--image_size=224",
                          "--eval_image_size=224", "--eval_resize=256",    "--log_interval=10"};
  ExpectSame({"--data-path", "d"}, ours);
  Arguments more = ours;
  more.push_back("--nesterov");
  ExpectSame({"--data-path=d", "--opt=sgd_nesterov", "--ra-reps=4"}, more);  // repeated with --ra-sampler only
  EXPECT_THAT(ParseCommandLine({"--data-path", "d"}).notes,
              ElementsAre(StartsWith("as torchvision's train.py: batch_size 32, model resnet18, ")));
}

// A run's configuration has our flags, also those that a program's defaults were.
TEST(Aliases, AFlagfileHasOurMeaning) {
  const TemporaryFolder folder;
  const CommandLine first = ParseCommandLine({"--sched=cosine", "--defaults_of=timm"});
  nlohmann::ordered_json json = ToJson(first.config);
  json["start"] = {{"given", first.config.given}};
  const std::string file = folder.Write("config.json", json.dump());
  EXPECT_EQ(ToJson(ParseCommandLine({"--flagfile=" + file}).config), ToJson(first.config));
  EXPECT_THAT(ParseCommandLine({"--flagfile=" + folder.Write("a.flags", "--smoothing=0.2")}).notes, IsEmpty());
}

TEST(Aliases, OfTwoProgramsOneMustBeNamed) {
  EXPECT_THROW(ParseCommandLine({"--sched=cosine", "--data-path=d"}), UsageError);
  EXPECT_THROW(ParseCommandLine({"--criterion=masked_lm", "--smoothing=0.1"}), UsageError);
  EXPECT_EQ(ParseCommandLine({"--sched=cosine", "--data-path=d", "--defaults_of=timm"}).config.batch.batch_size, 128);
  EXPECT_EQ(ParseCommandLine({"--sched=cosine", "--data-path=d", "--defaults_of=torchvision"}).config.batch.batch_size,
            32);
  EXPECT_FALSE(ParseCommandLine({"--sched=cosine", "--data-path=d", "--defaults_of=none"}).config.batch.batch_size);
  EXPECT_EQ(ParseCommandLine({"--defaults_of=timm"}).config.optimizer.label_smoothing, 0.1);
}

TEST(Aliases, EveryRowLeadsToFlagsOfOurs) {
  std::set<std::string_view> names;
  for (const auto* table :
       {&TextAliases(), &ImageAliases(), &UnsupportedAliases(), &TimmProgram().rows, &TorchvisionProgram().rows}) {
    const bool is_shared = table != &TimmProgram().rows && table != &TorchvisionProgram().rows;
    for (const Alias& alias : *table) {
      SCOPED_TRACE(alias.name);
      EXPECT_TRUE(!is_shared || names.insert(alias.name).second) << "the row stands twice";
      EXPECT_TRUE(alias.flag.empty() || FindFlag(std::string(alias.flag)) != nullptr) << alias.flag;
      EXPECT_TRUE(!is_shared || FindFlag(std::string(alias.name)) == nullptr || alias.other_words_pass)
          << "a flag of ours loses its own meaning";
      EXPECT_FALSE(alias.flag.empty() && alias.words.empty() && alias.implied.empty() && alias.reason.empty() &&
                   alias.refused.empty() && alias.translate == nullptr)
          << "it is dropped without a word";
      std::vector<std::string> implied = alias.implied;
      for (const Word& word : alias.words) {
        for (const std::string& flag : ImpliedFlags(word)) implied.push_back(flag);
      }
      EXPECT_NO_THROW(ParseCommandLine(implied));
    }
  }
}

// docs/coming-from.md has a table of the flags that have no effect.
TEST(Aliases, TheManualListsWhatHasNoEffect) {
  std::ifstream file(TESTDATA_DIR "/../../docs/coming-from.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const size_t begin = page.find("|---|---|"), end = page.find("\n\n", begin);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  std::set<std::string> listed, expected;
  for (size_t at = page.find("`-", begin); at < end; at = page.find("`-", at + 2)) {
    const size_t from = page.find_first_not_of("`-", at);
    std::string name = page.substr(from, page.find('`', from) - from);
    std::replace(name.begin(), name.end(), '-', '_');
    listed.insert(name);
  }
  for (const auto* table : {&TextAliases(), &ImageAliases(), &TimmProgram().rows, &TorchvisionProgram().rows}) {
    for (const Alias& alias : *table) {
      if (!alias.reason.empty()) expected.insert(std::string(alias.name));
    }
  }
  expected.insert("ddp_backend");  // its words have reasons of their own
  EXPECT_EQ(listed, expected);
}

// A flag that is given explicitly overrides one that a foreign flag implies.
TEST(Aliases, OurFlagsWin) {
  EXPECT_EQ(ParseCommandLine({"--poly_power=2", "--lr-scheduler=polynomial_decay"}).config.schedule.poly_power, 2);
  EXPECT_FALSE(ParseCommandLine({"--nomask_special_tokens", "--task=masked_lm", "--arch=roberta_base"})
                   .config.text.mask_special_tokens);
}

TEST(Aliases, OwnFlagsStayAsTheyAre) {
  const Arguments own = {"--lr", "-0.5", "--nesterov", "--log_format=table", "--adam_betas=0.8,0.9"};
  EXPECT_THAT(ParseCommandLine(own).notes, IsEmpty());
  EXPECT_EQ(ParseCommandLine(own).config.report.log_format, "table");
  EXPECT_EQ(ParseCommandLine(own).config.optimizer.lr, -0.5);
}

TEST(Aliases, MistakesAreNamed) {
  const auto mistake = [](const Arguments& arguments) {
    try {
      ParseCommandLine(arguments);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      mistake({"--data-path=d", "--sched=cosine"}),
      HasSubstr("--sched is a flag of timm's train.py, --data-path one of torchvision's train.py: --defaults_of="));
  EXPECT_THAT(mistake({"--reprob=0.25"}), HasSubstr("--reprob=0.25 cannot be translated: timm erases with noise"));
  EXPECT_THAT(mistake({"--aa=rand-m9-mstd0.5-inc1"}), HasSubstr("timm's policies have operators"));
  EXPECT_THAT(mistake({"--scale", "0.5", "1", "--hflip=0.5"}), HasSubstr("--scale=0.5,1 cannot be translated"));
  EXPECT_THAT(mistake({"--lr-scheduler=inverse_sqrt"}),
              HasSubstr("--lr_scheduler=inverse_sqrt: expected polynomial_decay | "));
  EXPECT_THAT(mistake({"--task", "translation", "--arch=roberta_base"}),
              HasSubstr("--task=translation: expected masked_lm"));
  EXPECT_THAT(mistake({"--distributed-init-method", "file:///tmp/x"}), HasSubstr("expected tcp://HOST:PORT"));
  EXPECT_THAT(mistake({"--model-ema"}), HasSubstr("--model_ema has no equivalent: --ema_decay=D --ema_every=STEPS"));
  EXPECT_THAT(mistake({"--arch=roberta_base", "--encoder-layers=2"}),
              HasSubstr("--encoder_layers=2 cannot be translated: the shape follows from --arch; --model=roberta"));
  EXPECT_THAT(mistake({"--max-sentences"}), HasSubstr("--max_sentences: a value is missing"));
  EXPECT_THAT(mistake({"--max-sentences=many"}), HasSubstr("--max-sentences means --batch_size=many: expected"));
  EXPECT_THAT(mistake({"--update-freq", "1,2"}), HasSubstr("--update-freq means --grad_accum_steps=1,2: expected"));
}

}  // namespace
}  // namespace dtrain::config
