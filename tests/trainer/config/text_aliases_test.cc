// Commands of fairseq, as published on the pages from which people copy them.
#include "trainer/config/aliases.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/config/foreign_commands.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using testing::AllOf;
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
      "--loss_scale_start=128 --freeze=roberta.embeddings.token_type_embeddings --best_metric=loss "
      "--lr_schedule=poly --poly_power=1 --task=masked_lm --data_format=tokens --mask_special_tokens --workers=2 "
      "--batch_size=32 --sample_break=complete --tokens_per_sample=512 --adam_betas=0.9,0.98 --adam_eps=1e-6 "
      "--clip_norm=0 --lr=0.0004 --warmup_steps=500 --dropout=0.1 --attention_dropout=0.1 --weight_decay=0.01 "
      "--model=roberta_large --max_steps=1500 --epochs=1000000 --schedule_steps=1500 --grad_accum_steps=4 "
      "--bucket_cap_mb=200 --run_dir=runs/r --world_size=16 --rank=3 --master_addr=10.0.0.7 --master_port=12597";
  ExpectSame(theirs, ours);
  EXPECT_THAT(
      Pasted(theirs).notes,
      ElementsAre(StartsWith("--ddp_backend=no_c10d: dtrain chooses"), StartsWith("--fast_stat_sync has no effect"),
                  StartsWith("as fairseq-train: best_metric loss, loss_scale_start 128, ")));
}

// tests/interop/test_pasted_text_commands.py runs the commands of fairseq's pages on IMDB and GLUE.
TEST(TextAliases, FairseqsFineTuning) {
  EXPECT_EQ(Pasted("--regression-target --task sentence_prediction --arch roberta_base").config.run.task,
            "text_regression");
  for (const char* refused : {"--best-checkpoint-metric accuracy", "--restore-file model.pt", "--num-classes 2",
                              "--separator-token 5", "--reset-meters"}) {
    EXPECT_THROW(Pasted(std::string("--task sentence_prediction --arch roberta_base ") + refused), UsageError)
        << refused;
  }
}

TEST(TextAliases, SettingsOfHydra) {
  const TemporaryFolder folder;
  folder.Write(
      "base.yaml",
      "\xEF\xBB\xBF# Settings\ncommon:\n  fp16: true  # half\ntask:\n  _name: masked_lm\n  data: ???\n"
      "checkpoint:\n  save_dir: \"a # b\"\n  restore_file: ~\noptimization:\n  max_epoch: 7\n  lr:\n    - \"0.5\"\n");
  const std::string command = "fairseq-hydra-train -m --config-dir " + folder.path().string() +
                              " --config-name base.yaml task.data=d hydra.run.dir=o ";
  const auto config_of = [&](const std::string& settings) { return Pasted(command + settings).config; };
  EXPECT_EQ(config_of("").precision.name, "fp16");
  EXPECT_EQ(config_of("common.fp16=False").precision.name, "fp32");
  EXPECT_EQ(config_of("~common.fp16").precision.name, "fp32");
  EXPECT_EQ(config_of("").batch.epochs, 7);
  EXPECT_EQ(config_of("").run.dir, "a # b");
  EXPECT_EQ(config_of("").optimizer.lr, 0.5);
  EXPECT_EQ(config_of("++optimization.max_epoch=3").batch.epochs, 3);
  EXPECT_EQ(config_of("hydra/launcher=submitit_slurm").batch.epochs, 7);
  EXPECT_THAT(MessageOf([&] { config_of("model=roberta_large"); }), HasSubstr("'model=roberta_large' names settings"));
}

// The numbers are read in fairseq 0.12.2; the last of them are dtrain's defaults, too.
TEST(TextAliases, FairseqsDefaultsStandBehindItsCommands) {
  const std::string command =
      "--task masked_lm --criterion masked_lm --arch roberta_base --optimizer adam --max-sentences=8";
  ExpectSame(command,
             "--task=masked_lm --data_format=tokens --mask_special_tokens --model=roberta_base "
             "--optimizer=fairseq_adam --batch_size=8 --lr=0.25 --lr_schedule=constant --weight_decay=0 "
             "--epochs=1000000 --seed=1 --sample_break=none --tokens_per_sample=1024 --log_interval=100 "
             "--freeze=roberta.embeddings.token_type_embeddings --best_metric=loss --adam_betas=0.9,0.999 "
             "--adam_eps=1e-8 --clip_norm=0 --end_lr=0 --mask_prob=0.15 --bucket_cap_mb=25 --decay_norm_and_bias");
  EXPECT_THAT(Pasted(command).notes,
              ElementsAre(StartsWith("as fairseq-train: lr 0.25, lr_schedule constant, weight_decay 0, ")));
}

// The end of a schedule does not depend on --max-epoch.
TEST(TextAliases, FairseqsSchedules) {
  const auto schedule_of = [](const std::string& command) { return Pasted(command).config.schedule; };
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
  EXPECT_THROW(Pasted("--criterion=masked_lm --optimizer=no_such_optimizer"), UsageError);
}

TEST(TextAliases, FairseqsFolderNeedsNoFlag) {
  for (const char* theirs : {"--fp16 data-bin/wiki --task masked_lm", "data-bin/wiki --task=masked_lm --fp16",
                             "/usr/bin/fairseq-train --task masked_lm --fp16 data-bin/wiki"}) {
    EXPECT_EQ(Pasted(theirs).config.data.dir, "data-bin/wiki");
  }
  EXPECT_THROW(Pasted("--fp16 data-bin/wiki"), UsageError);  // a word without --task or --arch
  EXPECT_THROW(Pasted("one two --task=masked_lm"), UsageError);
}

TEST(TextAliases, AModelMayHaveHuggingFacesName) { ExpectSame("--model xlm-roberta", "--model=xlm_roberta"); }

TEST(TextAliases, FairseqsPatience) {
  ExpectSame("--patience 5", "--stop_after_epochs_without_gain=5");
  ExpectSame("--patience=-1", "");  // fairseq's word for never
  ExpectSame("--keep-last-epochs -1 --keep-interval-updates -1", "");
  ExpectSame("--update-freq [4] --lr [0.0005] --defaults_of=fairseq",
             "--grad_accum_steps=4 --lr=0.0005 --defaults_of=fairseq");
}

// tests/interop/test_pasted_text_commands.py runs the commands of the examples' README.
TEST(TextAliases, TheTrainersLengths) {
  const std::string silent = "run_glue.py --train_file d/a.csv ";
  const auto config_of = [&](const std::string& command) { return Pasted(silent + command).config; };
  EXPECT_EQ(config_of("--warmup_ratio 0.5 --warmup_steps 0").schedule.warmup_fraction, 0.5);
  EXPECT_EQ(config_of("--warmup_steps 0.5").schedule.warmup_fraction, 0.5);
  EXPECT_EQ(config_of("--warmup_steps 9 --warmup_ratio 0.5").schedule.warmup_steps, 9);
  EXPECT_EQ(config_of("--lr_scheduler_type constant_with_warmup --warmup_steps 9").schedule.warmup_steps, 9);
  EXPECT_EQ(config_of("--lr_scheduler_type constant --warmup_steps 9").schedule.warmup_steps, std::nullopt);
  EXPECT_EQ(config_of("--max_steps 9 --num_train_epochs 1").batch.epochs, 1'000'000);
  EXPECT_EQ(config_of("--do_eval").run.mode, "eval");
  EXPECT_EQ(config_of("--fp16 yes").precision.name, "fp16");
  EXPECT_EQ(config_of("--bf16 --tf32 True").precision.name, "bf16");
  EXPECT_EQ(config_of("--tf32 y --bf16 F --no_dataloader_pin_memory").precision.name, "tf32");
  EXPECT_THROW(config_of("--bf16 --fp16"), UsageError);
  EXPECT_THROW(config_of("--report_to wandb tensorboard"), UsageError);  // a word more
  EXPECT_EQ(config_of("--validation_file ./d/b.csv").data.dir, "./d");
  EXPECT_EQ(config_of("--do_eval True --do_train False").run.mode, "eval");
  EXPECT_EQ(config_of("--do_eval --do_train").run.mode, "train");
  EXPECT_EQ(config_of("--max_steps -1 --num_train_epochs 1").batch.epochs, 1);
}

TEST(TextAliases, TheTrainersExamples) {
  const std::string ours =
      "--optimizer=adamw --lr=5e-5 --weight_decay=0 --clip_norm=1 --lr_schedule=poly --poly_power=1 --epochs=3 "
      "--batch_size=8 --seed=42 --log_interval=500 --nodecay_norm_and_bias --eval_every_epochs=0 "
      "--save_every_steps=500 --save_every_epochs=0 --data_dir=d --train_split=a --val_fraction=0.15 ";
  ExpectSame("--train_dir d/a --per_device_train_batch_size=4 --model=resnet18",
             ours + "--batch_size=4 --model=resnet18");
  for (const char* resumed : {"", " --resume=auto"}) {
    EXPECT_EQ(Pasted(std::string("run_image_classification.py --train_dir d/a") + resumed).config.model.init_weights,
              "google/vit-base-patch16-224-in21k");
  }
  ExpectSame(
      R"(--train_dir d/a --model=resnet50 --optim stable_adamw --lr_scheduler_type warmup_stable_decay --lr_scheduler_kwargs={)"
      R"("decay_type":"1-sqrt","num_decay_steps":50})",
      ours + "--optimizer=stable_adamw --lr_schedule=wsd --poly_power=2 --wsd_form=sqrt --wsd_decay=50");
  const TemporaryFolder photos;
  std::filesystem::create_directory(photos.path().string() + "/val");
  EXPECT_THAT(MessageOf([&] { Pasted("run_image_classification.py --train_dir " + photos.path().string() + "/a"); }),
              HasSubstr("add --validation_dir " + photos.path().string() + "/val"));
  EXPECT_EQ(Pasted("run_mlm.py --train_file d/a.txt").config.data.val_fraction, 0.05);
  EXPECT_EQ(Pasted("run_mlm.py --train_file d/a.txt --validation_split_percentage=10").config.data.val_fraction, 0.1);
  EXPECT_EQ(Pasted("run_mlm.py --train_file d/a.txt --val_fold=1/2").config.data.val_fraction,
            0);  // of cross_validate.py
  EXPECT_EQ(Pasted("run_glue.py --train_file d/a.csv").config.text.tokens_per_sample, 128);
  EXPECT_EQ(Pasted("run_ner.py --train_file d/a.json --task_name pos").config.data.label_column, "pos_tags");
  for (const char* refused :
       {R"(--lr_scheduler_type=cosine --lr_scheduler_kwargs={"num_decay_steps":5})",
        "--train_file d/a.csv --validation_file e/b.csv", "run_glue.py --train_file d/a.txt", "--task_name sst2",
        "run_mlm.py --train_file d/a.csv", "run_clm.py --model_name_or_path x", "--tokenizer_name other",
        "--label_all_tokens True", "--do_predict"}) {
    EXPECT_THROW(Pasted(refused), UsageError) << refused;
  }
}

TEST(TextAliases, ATextForValidationBesideThatOfTrainingIsNamed) {
  const TemporaryFolder folder;
  folder.Write("valid.txt", "a\n");
  const std::string command = "run_mlm.py --train_file " + folder.path().string() + "/train.txt";
  EXPECT_THAT(MessageOf([&] { Pasted(command); }),
              HasSubstr("add --validation_file " + folder.path().string() + "/valid.txt"));
  EXPECT_EQ(Pasted(command + " --validation_file " + folder.path().string() + "/valid.txt").config.data.val_split,
            "valid");
}

TEST(TextAliases, ATableBesideOneOfAnotherFormatIsNamedWhole) {
  const TemporaryFolder folder;
  for (const char* name : {"a.csv", "a.tsv", "b.csv", "c.rec", "c.idx"}) folder.Write(name, "");
  const auto data_of = [&](const std::string& command) {
    return Pasted("run_glue.py --train_file " + folder.path().string() + command).config.data;
  };
  EXPECT_EQ(data_of("/a.csv").train_split, "a.csv");
  EXPECT_EQ(data_of("/b.csv").train_split, "b");
  EXPECT_EQ(data_of("/a,b.csv").train_split, "a,b");
  EXPECT_EQ(Pasted("--num-examples 9 --data-train " + folder.path().string() + "/c.rec").config.data.train_split, "c");
  EXPECT_THROW(data_of("/a.csv --validation_file " + folder.path().string() + "/a,b.csv"), UsageError);
}

TEST(TextAliases, AFileOfArgumentsIsNoFolderOfData) {
  EXPECT_THAT(MessageOf([] { Pasted("run_glue.py args.json"); }),
              AllOf(HasSubstr("args.json"), HasSubstr("give them as flags")));
}

TEST(TextAliases, AFolderMayBeSpelledInTwoWays) {
  const std::string here = std::filesystem::current_path().string();
  for (const std::string& other : std::vector<std::string>{"./d/b.csv", "x/../d/b.csv", here + "/d/b.csv"}) {
    EXPECT_EQ(Pasted("run_glue.py --train_file d/a.csv --validation_file " + other).config.data.val_split, "b")
        << other;
  }
}

// Whatever the order of the flags.
TEST(TextAliases, TheTrainersTimes) {
  const auto run_of = [](const std::string& command) { return Pasted("run_glue.py " + command).config; };
  for (const char* steps : {"--logging_steps 2 --eval_steps 3", "--eval_steps 3 --logging_steps 2",
                            "--eval_steps 0 --logging_steps 3", "--logging_steps 3"}) {
    EXPECT_EQ(run_of(std::string(steps) + " --eval_strategy steps").run.eval_every_steps, 3) << steps;
  }
  for (const char* none : {"--save_strategy no --save_steps 100", "--save_steps 100 --save_strategy epoch"}) {
    EXPECT_EQ(run_of(none).run.save_every_steps, 0) << none;
  }
  for (const char* metric : {"accuracy", "eval_accuracy"}) {
    EXPECT_EQ(run_of(std::string("--metric_for_best_model ") + metric).run.best_metric, "accuracy");
  }
  EXPECT_EQ(run_of("--save_strategy steps --save_steps 100").run.save_every_steps, 100);
  EXPECT_EQ(run_of("--save_total_limit -1").run.keep_checkpoints, RunConfig().keep_checkpoints);
  EXPECT_EQ(Pasted("--train_dir d/a --model=resnet18 --metric_for_best_model accuracy").config.run.best_metric, "top1");
  EXPECT_EQ(run_of("--load_best_model_at_end True").run.best_metric, "loss");
  EXPECT_EQ(run_of("--load_best_model_at_end --metric_for_best_model f1").run.best_metric, "f1");
  EXPECT_EQ(run_of("--load_best_model_at_end False").run.best_metric, "auto");
}

}  // namespace
}  // namespace dtrain::config
