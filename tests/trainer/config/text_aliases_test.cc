// Commands of fairseq, as published on the pages from which people copy them.
#include "trainer/config/aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.h"
#include "tests/trainer/config/foreign_commands.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// fairseq's flag names a folder; here events always lie in the run directory.
TEST(TextAliases, TensorboardOfFairseq) {
  ExpectSame("--tensorboard-logdir logs/tb --lr=1", "--tensorboard --lr=1");
  EXPECT_THAT(Pasted("--tensorboard-logdir=logs/tb").notes,
              ElementsAre(HasSubstr("--tensorboard_logdir=logs/tb: events are written to the run directory")));
}

// What other pages add, and what goes without saying here.
TEST(TextAliases, MoreOfFairseqTrain) {
  ExpectSame(
      "--dataset-impl mmap --distributed-init-method env:// --mask-multiple-length 1 --zero-sharding=none "
      "--activation-fn=gelu --heartbeat-timeout -1 --no-last-checkpoints --lr=1",
      "--lr=1");
  EXPECT_THROW(Pasted("--dataset-impl lazy"), UsageError);
}

// The AWS walk-through of RoBERTa-large with fairseq.
TEST(TextAliases, FairseqTrain) {
  const std::string theirs =
      "--log-format json --log-interval 25 --seed 1 --fp16 --memory-efficient-fp16 --criterion masked_lm --optimizer "
      "adam --lr-scheduler polynomial_decay --task masked_lm --num-workers 2 --max-sentences 32 --ddp-backend=no_c10d "
      "--sample-break-mode complete --tokens-per-sample 512 --adam-betas (0.9,0.98) --adam-eps 1e-06 --clip-norm 0.0 "
      "--lr 0.0004 --warmup-updates 500 --dropout 0.1 --attention-dropout 0.1 --weight-decay 0.01 --arch roberta_large "
      "--max-update 1500 --total-num-update 1500 --update-freq 4 --bucket-cap-mb 200 --fast-stat-sync --save-dir "
      "runs/r --distributed-world-size 16 --distributed-rank 3 --distributed-init-method tcp://10.0.0.7:12597";
  const std::string ours =
      "--log_format=json --log_interval=25 --seed=1 --precision=fp16 --memory_efficient_fp16 --optimizer=fairseq_adam "
      "--loss_scale_start=128 "
      "--lr_schedule=poly --poly_power=1 --task=masked_lm --data_format=tokens --mask_special_tokens --workers=2 "
      "--batch_size=32 --sample_break=complete --tokens_per_sample=512 --adam_betas=0.9,0.98 --adam_eps=1e-6 "
      "--clip_norm=0 --lr=0.0004 --warmup_steps=500 --dropout=0.1 --attention_dropout=0.1 --weight_decay=0.01 "
      "--model=roberta_large --max_steps=1500 --epochs=1000000 --schedule_steps=1500 --grad_accum_steps=4 "
      "--bucket_cap_mb=200 --run_dir=runs/r --world_size=16 --rank=3 --master_addr=10.0.0.7 --master_port=12597";
  ExpectSame(theirs, ours);
  EXPECT_THAT(Pasted(theirs).notes, ElementsAre(StartsWith("--ddp_backend=no_c10d: dtrain chooses"),
                                                StartsWith("--fast_stat_sync has no effect"),
                                                StartsWith("as fairseq-train: loss_scale_start 128 (")));
}

// The command of fairseq's page on IMDB, and that of its page on GLUE.
TEST(TextAliases, FairseqsFineTuning) {
  const std::string ours =
      " --init_weights=model.pt --batch_size=8 --max_tokens=4400 --task=text_classification --tokens_per_sample=512 "
      "--dropout=0.1 --attention_dropout=0.1 --classifier_dropout=0 --weight_decay=0.1 --optimizer=fairseq_adam "
      "--adam_betas=0.9,0.98 --adam_eps=1e-6 --clip_norm=0 --lr_schedule=poly --poly_power=1 --lr=1e-5 "
      "--precision=fp16 "
      "--loss_scale_start=4 --loss_scale_window=128 --epochs=10 --best_metric=accuracy --seed=1 ";
  const std::string theirs =
      "IMDB-bin/ --restore-file model.pt --max-positions 512 --batch-size 8 --max-tokens 4400 --task "
      "sentence_prediction "
      "--reset-optimizer --reset-dataloader --reset-meters --required-batch-size-multiple 1 --init-token 0 "
      "--separator-token 2 --arch roberta_large --criterion sentence_prediction --classification-head-name imdb_head "
      "--num-classes 2 --dropout 0.1 --attention-dropout 0.1 --weight-decay 0.1 --optimizer adam --adam-betas "
      "(0.9,0.98) "
      "--adam-eps 1e-06 --clip-norm 0.0 --lr-scheduler polynomial_decay --lr 1e-05 --total-num-update 7812 "
      "--warmup-updates 469 --fp16 --fp16-init-scale 4 --threshold-loss-scale 1 --fp16-scale-window 128 --max-epoch 10 "
      "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric --shorten-method truncate "
      "--find-unused-parameters --update-freq 4";
  ExpectSame(theirs, ours +
                         "--data_dir=IMDB-bin/ --model=roberta_large --schedule_steps=7812 --warmup_steps=469 "
                         "--grad_accum_steps=4 --log_interval=100");
  const TemporaryFolder folder;
  WriteAll(folder.path() / "rte.yaml", R"(# @package _group_
common:
  fp16: true
  fp16_init_scale: 4
  threshold_loss_scale: 1
  fp16_scale_window: 128
  log_interval: 200

task:
  _name: sentence_prediction
  data: ???
  init_token: 0  # <s>
  num_classes: 2
  max_positions: 512
checkpoint:
  restore_file: ???
  reset_optimizer: true
  best_checkpoint_metric: accuracy
  maximize_best_checkpoint_metric: true
criterion:
  _name: sentence_prediction
dataset:
  batch_size: 16
  required_batch_size_multiple: 1
  max_tokens: 4400
optimizer:
  _name: adam
  weight_decay: 0.1
  adam_betas: (0.9,0.98)
  adam_eps: 1e-06
lr_scheduler:
  _name: polynomial_decay
  warmup_updates: 122
optimization:
  clip_norm: 0.0
  lr: [1e-05]
  max_update: 2036
  max_epoch: 10
model:
  _name: roberta
  dropout: 0.1
  attention_dropout: 0.1
)");
  const std::string hydra =
      "fairseq-hydra-train -config-dir " + folder.path().string() +
      " --config-name rte task.data=RTE-bin checkpoint.restore_file=model.pt dataset.batch_size=8";
  ExpectSame(hydra, ours +
                        "--data_dir=RTE-bin --model=roberta_base --max_steps=2036 --schedule_steps=2036 "
                        "--warmup_steps=122 --log_interval=200");
  EXPECT_TRUE(Pasted("--regression-target --task sentence_prediction --arch roberta_base").config.run.task ==
              "text_regression");
  for (const char* refused : {"--best-checkpoint-metric accuracy", "--restore-file model.pt", "--num-classes 2",
                              "--separator-token 5", "--reset-meters"}) {
    EXPECT_THROW(Pasted(std::string("--task sentence_prediction --arch roberta_base ") + refused), UsageError)
        << refused;
  }
}

// The numbers are read in fairseq 0.12.2; those that are dtrain's defaults, too, are in no list of ours.
TEST(TextAliases, FairseqsDefaultsStandBehindItsCommands) {
  const std::string command =
      "--task masked_lm --criterion masked_lm --arch roberta_base --optimizer adam --max-sentences=8";
  ExpectSame(command,
             "--task=masked_lm --data_format=tokens --mask_special_tokens --model=roberta_base "
             "--optimizer=fairseq_adam --batch_size=8 --lr=0.25 --lr_schedule=constant --weight_decay=0 "
             "--epochs=1000000 --seed=1 --sample_break=none --tokens_per_sample=1024 --log_interval=100");
  const CommandLine parsed = Pasted(command);
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

// fairseq's two schedules warm up in different ways, and the end of one does not depend on --max-epoch.
TEST(TextAliases, FairseqsSchedules) {
  const auto schedule_of = [](const std::string& command) { return Pasted(command).config.schedule; };
  EXPECT_TRUE(schedule_of("--warmup-updates=5").warmup_from_one);
  EXPECT_FALSE(schedule_of("--warmup-updates=5 --lr-scheduler=polynomial_decay").warmup_from_one);
  EXPECT_EQ(schedule_of("--max-update=9 --max-epoch=2").schedule_steps, 9);
  EXPECT_EQ(schedule_of("--max-update=9 --max-epoch=2 --total-num-update=7").schedule_steps, 7);
  EXPECT_EQ(schedule_of("--max-update=9").schedule_steps, std::nullopt);
}

TEST(TextAliases, OnlyTypedFlagsOfFairseqBringItsDefaults) {
  const auto decay_of = [](const std::string& command) { return Pasted(command).config.optimizer.weight_decay; };
  EXPECT_EQ(decay_of("--arch roberta_large"), 0);
  EXPECT_EQ(decay_of("--arch=roberta_large --weight-decay 0.01"), 0.01);
  EXPECT_EQ(decay_of("--arch=roberta_large --defaults_of=none"), 1e-4);
  EXPECT_EQ(decay_of("--model=roberta_large --defaults-of fairseq"), 0);
  for (const char* others :
       {"--arch=resnet50", "--model=roberta_large --task=masked_lm", "--optimizer=adam --tokens_per_sample=512"}) {
    EXPECT_EQ(decay_of(others), 1e-4);
    EXPECT_NE(Pasted(others).config.optimizer.name, "fairseq_adam");
  }
  ExpectSame("--optimizer=sgd --update-freq=1 --defaults_of=fairseq",
             "--momentum=0 --grad_accum_steps=1 --defaults_of=fairseq");
  EXPECT_THROW(Pasted("--criterion=masked_lm --optimizer=adafactor"), UsageError);
}

TEST(TextAliases, FairseqsFolderNeedsNoFlag) {
  for (const char* theirs : {"--fp16 data-bin/wiki --task masked_lm", "data-bin/wiki --task=masked_lm --fp16",
                             "/usr/bin/fairseq-train --task masked_lm --fp16 data-bin/wiki"}) {
    EXPECT_EQ(Pasted(theirs).config.data.dir, "data-bin/wiki");
  }
  EXPECT_THROW(Pasted("--fp16 data-bin/wiki"), UsageError);  // a word without --task or --arch
  EXPECT_THROW(Pasted("one two --task=masked_lm"), UsageError);
}

TEST(TextAliases, FairseqsPatience) {
  ExpectSame("--patience 5", "--stop_after_epochs_without_gain=5");
  ExpectSame("--patience=-1", "");  // fairseq's word for never
}

// The command of the examples' README, with files.
TEST(TextAliases, TheTrainersRunGlue) {
  const std::string defaults =
      "--optimizer=adamw --lr=5e-5 --weight_decay=0 --clip_norm=1 --lr_schedule=poly --poly_power=1 --epochs=3 "
      "--batch_size=8 --seed=42 --log_interval=500 --nodecay_norm_and_bias --eval_every_epochs=0 "
      "--save_every_steps=500 ";
  ExpectSame(
      "--model_name_or_path w --train_file d/train.csv --validation_file d/dev.csv --do_train --do_eval "
      "--max_seq_length 64 --per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3 --output_dir out "
      "--warmup_ratio 0.5 --eval_strategy epoch --fp16 True",
      defaults +
          "--init_weights=w --data_dir=d --data_format=sentences --train_split=train --val_split=dev "
          "--tokens_per_sample=64 "
          "--batch_size=32 --lr=2e-5 --run_dir=out --warmup_epochs=1.5 --eval_every_epochs=1 --precision=fp16");
  ExpectSame("--train_dir d/a --per_device_train_batch_size=4 --model=resnet18",
             defaults + "--data_dir=d --train_split=a --val_fraction=0.15 --batch_size=4 --model=resnet18");
  ExpectSame(R"(--train_dir d/a --optim stable_adamw --lr_scheduler_type warmup_stable_decay --lr_scheduler_kwargs={)"
             R"("decay_type":"1-sqrt","num_decay_steps":50})",
             defaults +
                 "--data_dir=d --train_split=a --val_fraction=0.15 --optimizer=stable_adamw --lr_schedule=wsd "
                 "--wsd_form=sqrt --wsd_decay=50");
  for (const char* refused :
       {R"(--lr_scheduler_type=cosine --lr_scheduler_kwargs={"num_decay_steps":5})",
        "--train_file d/a.csv --validation_file e/b.csv", "run_glue.py --train_file d/a.txt", "--task_name sst2",
        "run_mlm.py --train_file d/a.csv", "--tokenizer_name other", "--label_all_tokens True", "--do_predict"}) {
    EXPECT_THROW(Pasted(refused), UsageError) << refused;
  }
}

// The commands of the examples' README for own data. The name of a script, or else what a file holds, tells them apart.
TEST(TextAliases, TheTrainersRunNerAndRunMlm) {
  const TemporaryFolder folder;
  WriteAll(folder.path() / "train.json", R"({"tokens": ["a"], "ner_tags": ["O"]})");
  const std::string data = folder.path().string();
  const std::string ours = "--defaults_of=transformers --init_weights=bert --data_dir=" + data +
                           " --train_split=train --val_split=dev --run_dir=out ";
  const std::string theirs = "--model_name_or_path bert --train_file " + data + "/train.json --validation_file " +
                             data + "/dev.json --output_dir out --do_train --do_eval";
  const auto expect_same = [](const std::string& one, const std::string& other) {
    auto json = ToJson(Pasted(other).config);
    json["defaults_of"] = "auto";
    EXPECT_EQ(ToJson(Pasted(one).config).dump(), json.dump());
  };
  const std::string tags = ours + "--task=token_classification --data_format=sentences --tokens_per_sample=512";
  for (const char* script : {"", "run_ner.py ", "examples/pytorch/token-classification/run_ner.py "}) {
    expect_same(script + theirs, tags);
  }
  EXPECT_EQ(Pasted("run_glue.py " + theirs).config.text.tokens_per_sample, 128);
  const std::string text = "--model_name_or_path bert --train_file " + data + "/train.txt --validation_file " + data +
                           "/dev.txt --output_dir out --do_train --do_eval ";
  const std::string words = ours + "--task=masked_lm --data_format=text --tokens_per_sample=512 --sample_break=";
  expect_same("run_mlm.py " + text, words + "joined");
  expect_same(text + "--line_by_line --mlm_probability 0.3 --max_seq_length=64",
              words + "lines --mask_prob=0.3 --tokens_per_sample=64");
  EXPECT_EQ(Pasted("run_mlm.py --train_file d/a.txt").config.data.val_fraction, 0.05);
  EXPECT_EQ(Pasted("run_mlm.py --train_file d/a.txt --validation_split_percentage=10").config.data.val_fraction, 0.1);
}

}  // namespace
}  // namespace dtrain::config
