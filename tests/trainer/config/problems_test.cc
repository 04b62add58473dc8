// Every rule of problems.cc; each kind of task and each family of models with a flag that it does not use, and with the
// value that means off.
#include "trainer/config/problems.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "tests/words.h"
#include "trainer/config/command_line.h"
#include "trainer/config/flags.h"
#include "trainer/config/resolve.h"

namespace dtrain::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const ModelFacts kModels = {.names = {"resnet18", "resnet50"}};

// The problems of a configuration that is otherwise valid.
std::vector<Problem> ProblemsOf(const std::string& command, int world_size = 1) {
  return Problems(ParseCommandLine(Words("--data_dir=somewhere " + command)).config, world_size, kModels);
}

bool Blames(const std::vector<Problem>& problems, const std::string& flag) {
  for (const Problem& problem : problems) {
    if (problem.flag == flag) return true;
  }
  return false;
}

TEST(Problems, NoneInTheDefaultsWithData) {
  EXPECT_EQ(Describe(ProblemsOf("")), "");
  EXPECT_THAT(Problems(ParseCommandLine({"--data_format=synthetic"}).config, 8, {}), IsEmpty());
}

TEST(Problems, OfAnUnknownModelNothingElseIsSaid) {
  EXPECT_THAT(Describe(ProblemsOf("--model=alexnet --model_config=a.json")), Not(HasSubstr("its own shape")));
}

TEST(Problems, ABudgetOfTokensHasRoomForABlockAndSetsNoGlobalBatch) {
  EXPECT_TRUE(Blames(ProblemsOf("--max_tokens=255 --tokens_per_sample=256"), "max_tokens"));
  EXPECT_EQ(Describe(ProblemsOf("--max_tokens=256 --tokens_per_sample=256 --grad_accum_steps=2")), "");
  EXPECT_TRUE(Blames(ProblemsOf("--max_tokens=4096 --global_batch_size=64"), "global_batch_size"));
}

// The limits of plain numbers are those of the table of flags, which flag_limits_test.cc tries on both edges.
TEST(Problems, RangesOfListsAndWords) {
  struct Range {
    std::string flag, good, bad;
  };
  const std::vector<Range> ranges = {
      {"save_every_seconds", "0 60 auto", "-1 nan inf soon"},
      {"on_spike", "log", "ignore"},
      {"mean", "-1,0,2", "nan,0,0 0,0,inf"},
      {"std", "0.1,1,2", "0,1,1 1,1,-1 1,nan,1 1,1,inf"},
      {"color_jitter", "0 0.4 0.4,0.4,0.4 1,1,1,0.5", "-0.1 nan 0.4,0.4 0,0,0,0.51 0,0,0,0,0"},
      {"crop_scale", "0.08,1 1,1", "0,1 0.5,0.4 0.5 0.1,1.1 nan,1 0.1,0.5,1"},
      {"crop_ratio", "0.5,2", "0,1 2,1 1 1,inf"},
      {"adam_betas", "0,0.999", "-0.1,0.9 0.9,1 nan,0.9"},
      {"lr_decay_epochs", "0.5 30", "0 -1 nan 30,60"},
      {"run_dir", "runs/a s3:a", "s3://bucket/a gs://b/c"},
      {"index_dir", "index", "s3://bucket/a"},
      {"metrics_address", "127.0.0.1 0.0.0.0 10.1.2.3 ::1 ::", "\"\" localhost 1.2.3 256.0.0.1 [::1] ::g"}};
  for (const auto& [flag, good, bad] : ranges) {
    for (const std::string& value : Words(good)) {
      EXPECT_FALSE(Blames(ProblemsOf("--lr_schedule=exponential --" + flag + "=" + value), flag))
          << flag << "=" << value;
    }
    for (const std::string& value : Words(bad)) {
      EXPECT_TRUE(Blames(ProblemsOf("--lr_schedule=exponential --" + flag + "=" + value), flag))
          << flag << "=" << value;
    }
  }
}

TEST(Problems, EveryChoice) {
  for (const Flag& flag : Flags()) {
    for (const std::string& choice : flag.limits.choices) {
      if (choice == "tf_cnn_benchmarks" || choice == "mxnet") continue;  // their commands here have no data
      const std::string mode = flag.name == "weights" ? "eval" : "train";
      const std::string needed =
          " --spike_factor=6 --ema_decay=0.9 --teacher=a --lr_schedule=wsd ";  // by --on_spike, --ema_start, --distill,
                                                                               // --wsd_form
      EXPECT_FALSE(Blames(ProblemsOf("--mode=" + mode + needed + "--" + flag.name + "=" + choice), flag.name))
          << flag.name << "=" << choice;
    }
    if (!flag.limits.choices.empty()) {
      EXPECT_TRUE(Blames(ProblemsOf("--" + flag.name + "=nonsense"), flag.name)) << flag.name;
      EXPECT_TRUE(Blames(ProblemsOf("--" + flag.name + "="), flag.name)) << flag.name;
    }
  }
  EXPECT_EQ(Describe(ProblemsOf("--log_format=jsn")),
            "--log_format=jsn: expected one of auto | bar | table | json; did you mean json?");
}

struct Rule {
  std::string command;
  int world_size;
  std::string text;  // of the only line; empty: no problem
};

TEST(Problems, RulesBetweenFlags) {
  const std::vector<Rule> rules = {
      {"--data_dir=", 1, "--data_dir is not set: expected a folder with data"},
      {"--data_dir= --mode=eval", 1, "--data_dir is not set"},
      {"--data_dir= --data_format=synthetic", 1, ""},
      {"--data_dir= --mode=predict --input=a --output=b.csv", 1, ""},
      {"--mode=predict --input=a", 1, "--output is not set"},
      {"--mode=predict --output=a.csv", 1, "--input is not set"},
      {"--weights=best", 1, "--weights=best: expected --mode=eval or predict with it"},
      {"--weights=ema --mode=eval", 1, ""},
      {"--weights=best --mode=eval --init_weights=a", 1, "expected no --init_weights with it"},
      {"--resume=last", 1, ""},
      {"--resume=last --run_dir=a", 1, "--resume=last: expected no --run_dir with it"},
      {"--mean=0.5,0.5", 1, "--mean=0.5,0.5: expected three finite numbers"},
      {"--std=1,1,1,1", 1, "--std=1,1,1,1: expected three finite numbers"},
      {"--augment=none --blur=0.5 --image_size_schedule=0:160", 1,
       "--augment=none: expected basic or more with --image_size_schedule, --blur"},
      {"--teacher=a --distill=hard --distill_weight=1 --teacher_model=resnet18", 1, ""},
      {"--distill=hard", 1, "--distill=hard: expected --teacher with it"},
      {"--distill_weight=0.9", 1, "--distill_weight=0.9: expected --teacher with it"},
      {"--distill_temperature=2", 1, "--distill_temperature=2: expected --teacher with it"},
      {"--teacher=a --distill=hard --distill_temperature=2", 1, "--distill_temperature=2: expected --distill=soft"},
      {"--deterministic=elastic", 1, "--global_batch_size is not set: expected a number with --deterministic=elastic"},
      {"--deterministic=elastic --global_batch_size=17", 8, ""},
      {"--deterministic=elastic --global_batch_size=17 --batch_size=3", 1, ""},
      {"--deterministic=elastic --global_batch_size=17 --batch_size=2", 1,
       "--batch_size=2: expected 3 or more, the samples of a shard; or --elastic_shards=9"},
      {"--deterministic=elastic --global_batch_size=16", 9,
       "--elastic_shards=8: expected at least the number of ranks (9)"},
      {"--deterministic=elastic --global_batch_size=6", 4, "--elastic_shards=3: expected at least the number"},
      {"--deterministic=elastic --global_batch_size=6 --mode=eval", 4, ""},
      {"--deterministic=elastic --global_batch_size=6 --elastic_shards=7", 1, "expected at most 6"},
      {"--deterministic=elastic --global_batch_size=6 --elastic_shards=6 --mixup=1", 1, "expected at most 3"},
      {"--deterministic=elastic --global_batch_size=6 --grad_accum_steps=2", 1,
       "--grad_accum_steps=2: expected 1 with --deterministic=elastic"},
      {"--deterministic=elastic --global_batch_size=6 --grad_compression=bf16", 1, "--grad_compression=bf16"},
      {"--deterministic=elastic --global_batch_size=6 --sync_bn", 1, "--sync_bn=true: expected false"},
      {"--deterministic=elastic --global_batch_size=6 --cuda_graphs=on", 1, "expected auto or off"},
      {"--deterministic=elastic --global_batch_size=65536 --elastic_shards=65536", 1, ""},
      {"--elastic_shards=4", 1, "--elastic_shards=4: expected --deterministic=elastic with it"},
      {"--image_size_schedule=0:160,6:176,12:192", 1, ""},
      {"--image_size_schedule=0:160,16:192 --epochs=16", 1, "expected epochs below --epochs (16)"},
      {"--image_size_schedule=1:160", 1, "=1:160: expected EPOCH:SIZE,..., epochs ascending from 0, sizes 1 to 8192"},
      {"--augment=none --color_jitter=0 --hflip=0.5", 1, ""},
      {"--augment=none --hflip=0.25", 1, "expected basic or more with --hflip"},
      {"--eval_resize=223 --eval_image_size=192", 1, ""},
      {"--eval_resize=255 --eval_image_size=256", 1, "--eval_resize=255: expected --eval_image_size (256) or more"},
      {"--eval_resize=223", 1, "--eval_resize=223: expected --image_size (224) or more"},
      {"--model=resnet5", 1, "expected one of resnet18 | resnet50; did you mean resnet50?"},
      {"--batch_size=4 --global_batch_size=30", 8, "a multiple of world size (8) x batch_size (4) = 32"},
      {"--warmup_epochs=5 --warmup_steps=5", 1, "no value with --warmup_epochs=5"},
      {"--warmup_epochs=0 --warmup_steps=5", 1, ""},
      {"--warmup_fraction=0.1 --warmup_steps=5", 1, "neither --warmup_epochs nor --warmup_steps with it"},
      {"--warmup_steps=11 --max_steps=10", 1, ""},
      {"--warmup_steps=11 --max_steps=10 --schedule_steps=11", 1, ""},
      {"--warmup_steps=12 --schedule_steps=11", 1, "--schedule_steps (11) or less"},
      {"--warmup_epochs=3 --epochs=2 --schedule_steps=99", 1, ""},
      {"--lr_schedule=cosine --wsd_decay=5", 1, "--wsd_decay=5: not used by --lr_schedule=cosine (it is for wsd)"},
      {"--lr_schedule=cosine --wsd_decay=0.1", 1, ""},
      // Other programs take the flags of any schedule with each.
      {"--lr-scheduler=cosineannealinglr --lr-gamma=0.5 --data-path=d", 1, ""},
      {"--sched=step --min-lr=1 --model=resnet18", 1, ""},
      {"--lr_decay_mode=poly --lc_periods=0.47", 1, ""},
      {"--lr_scheduler_type=cosine --learning_rate=1 --model=resnet18", 1, ""},
      {"--nesterov --momentum=0", 1, "--nesterov=true: expected --momentum above 0"},
      {"--adam_betas=0.9", 1, "--adam_betas=0.9: expected two finite numbers"},
      {"--optimizer=lars", 1, "--lr is not set: expected a peak learning rate with --optimizer=lars"},
      {"--optimizer=lars --lr=11 --nesterov", 1, ""},
      {"--optimizer=lamb", 1, ""},
      {"--optimizer=lamb --nesterov", 1, "--nesterov=true: expected --optimizer=sgd or lars with it"},
      {"--lr_schedule=step --lr_decay_epochs=30,60,80", 1, ""},
      {"--lr_schedule=step --lr_decay_epochs=30,60,60", 1, "with --lr_schedule=step several that ascend"},
      {"--lr_schedule=exponential --lr_decay_epochs=30,60", 1, "with --lr_schedule=step several that ascend"},
      {"--ema_decay=0.99 --ema_every=32", 1, ""},
      {"--spike_factor=6 --on_spike=skip", 1, ""},
      {"--on_spike=skip", 1, "--on_spike=skip: expected --spike_factor with it"},
      {"--stop_after_epochs_without_gain=3 --eval_every_epochs=0", 1,
       "--eval_every_epochs or --eval_every_steps above 0 with it"},
      {"--std=", 1, "--std=\"\": expected three finite numbers with commas between them"},
      {"--output=a", 1, "--output=a: expected --mode=eval, predict or export with it"},
      {"--train_split=", 1, "--train_split=\"\": expected the name of a split"},
      {"--val_fraction=0.1 --val_split=test", 1, "--val_fraction=0.1: expected no --val_split with it"},
      {"--val_fraction=0.1 --val_split=test --mode=eval", 1, ""},
      {"--val_fraction=0.1 --val_split=val", 1, ""},  // as --print_config writes it
      {"--val_split=a\xff", 1, "names in UTF-8"},
      {"--val_fraction=0.1 --data_format=synthetic", 1, "other data than --data_format=synthetic"},
      {"--ema_every=32", 1, "--ema_every=32: expected --ema_decay with it"},
      {"--mixup=0.2 --batch_size=1", 1, "--mixup=0.2: expected --batch_size of 2 or more"},
      {"--cutmix=1 --batch_size=1", 1, "--cutmix=1: expected --batch_size of 2 or more"},
      {"--cutmix=1 --batch_size=2 --mix_epochs=3", 1, ""},
      {"--mix_epochs=3", 1, "--mix_epochs=3: expected --mixup or --cutmix with it"},
      {"--loss_scale=1e300", 1, "--loss_scale=1e300: expected dynamic, or a number above 0, at most 3e38"},
      {"--loss_scale=auto", 1, "--loss_scale=auto: expected dynamic, or a number above 0"},
      {"--loss_scale=1024 --adam_betas=0,0.98", 1, ""},
      {"--memory_efficient_fp16 --optimizer=adamw", 1, ""},
      {"--memory_efficient_fp16 --optimizer=adam --precision=bf16", 1,
       "--precision=fp16 with it; --precision=bf16 is given"},
      {"--memory_efficient_fp16 --precision=fp16", 1, "expected --optimizer=adam, adamw or fairseq_adam with it"},
      {"--class_weights=inverse", 1, ""},
      {"--class_weights=inverse --mixup=0.2", 1, "--loss=ce without --mixup and --cutmix"},
      {"--class_weights=sqrt --loss=bce", 1, "--loss=ce without --mixup and --cutmix"},
      {"--class_weights=", 1, "none, inverse, sqrt, effective or a file"},
      // Nobody can say what an unknown task does not use.
      {"--task=image_clasification --hflip=0.25 --label_smoothing=0.1", 1, "did you mean image_classification?"},
      {"--task=image_multilable --loss=bce --class_weights=inverse", 1, "did you mean image_multilabel?"},
  };
  for (const Rule& rule : rules) {
    const std::string text = Describe(ProblemsOf(rule.command, rule.world_size));
    SCOPED_TRACE(rule.command);
    if (rule.text.empty()) {
      EXPECT_EQ(text, "");
    } else {
      EXPECT_THAT(text, HasSubstr(rule.text));
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
}

TEST(Problems, AllAtOnceInTheOrderOfTheHelp) {
  const Config config =
      ParseCommandLine({"--log_interval=0", "--batch_size=0", "--model=no_such_model", "--lr=nan", "--std=0,1,1"})
          .config;
  std::vector<std::string> flags;
  for (const Problem& problem : Problems(config, 1, kModels)) flags.push_back(problem.flag);
  EXPECT_THAT(flags, testing::ElementsAre("data_dir", "std", "model", "batch_size", "lr", "log_interval"));
  const std::string message = MessageOf([&] { RequireValid(config, 1, kModels); });
  for (const std::string& flag : flags) EXPECT_THAT(message, HasSubstr("--" + flag));
  EXPECT_NO_THROW(RequireValid(ParseCommandLine({"--data_format=synthetic"}).config, 1, kModels));
}

const std::vector<FamilyOptions> kFamilies = {
    {"ResNet", {"zero_init_residual", "bn_eps"}},
    {"EfficientNet", {"dropout", "drop_path", "bn_eps"}},
    {"RoBERTa", {"dropout", "attention_dropout", "activation_checkpointing", "layer_decay"}}};

std::string SaidOf(std::vector<std::string> arguments, const std::string& family) {
  arguments.insert(arguments.begin(), "--data_dir=somewhere");
  return Describe(Problems(ParseCommandLine(arguments).config, 1, {.families = kFamilies, .family = family}));
}

struct FlagCase {
  std::string task, family, refused, fine;
};

TEST(FlagUses, WhatHasNoEffectIsRefusedUnlessItIsOff) {
  const std::vector<FlagCase> cases = {
      {"image_classification", "ResNet", "--mask_prob=0.3", "--mask_prob=0.15"},
      {"image_classification", "ResNet", "--text_column=text", "--text_column="},
      {"image_classification", "ResNet", "--dropout=0.1", "--dropout=0"},
      {"image_classification", "ResNet", "--layer_decay=0.9", "--layer_decay=1"},
      {"image_classification", "ResNet", "--activation_checkpointing", "--noactivation_checkpointing"},
      {"image_classification", "EfficientNet", "--zero_init_residual", "--nozero_init_residual"},
      {"image_classification", "EfficientNet", "--memory_efficient_fp16", "--nomemory_efficient_fp16"},
      {"masked_lm", "RoBERTa", "--mixup=0.2", "--mixup=0"},
      {"masked_lm", "RoBERTa", "--eval_resize=232", "--eval_resize=256"},
      {"masked_lm", "RoBERTa", "--loss=bce", "--loss=ce"},
      {"masked_lm", "RoBERTa", "--num_classes=10", "--num_classes=0"},
      {"masked_lm", "RoBERTa", "--bn_eps=1e-3", "--weight_decay=0"},
      {"masked_lm", "RoBERTa", "--sync_bn", "--nosync_bn"},
      {"text_classification", "RoBERTa", "--teacher=a", "--teacher="},
  };
  for (const FlagCase& one : cases) {
    const std::string task = "--task=" + one.task;
    SCOPED_TRACE(task + " " + one.refused);
    for (const std::string mode : {"--mode=train", "--mode=eval"}) {
      const std::string said = SaidOf({task, mode, one.refused, "--optimizer=adam"}, one.family);
      EXPECT_THAT(said, testing::HasSubstr(": not used by --"));
      EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 0) << said;
      EXPECT_EQ(SaidOf({task, mode, one.fine}, one.family), "");
    }
  }
  EXPECT_EQ(SaidOf({"--task=masked_lm", "--loss=bce"}, "RoBERTa"),
            "--loss=bce: not used by --task=masked_lm (it is for image_classification, image_multilabel and "
            "image_regression); leave it out");
  EXPECT_EQ(SaidOf({"--model=resnet50", "--dropout=0.5"}, "ResNet"),
            "--dropout=0.5: not used by --model=resnet50 (it is for EfficientNet and RoBERTa); leave it out");
}

TEST(FlagUses, WhatHappensAnywayIsNotRefused) {
  EXPECT_EQ(SaidOf({"--task=masked_lm", "--nochannels_last"}, "RoBERTa"), "");
  EXPECT_EQ(SaidOf({"--task=masked_lm", "--channels_last"}, "RoBERTa"), "");  // the default
}

TEST(FlagUses, WhatIsNotKnownRefusesNothing) {
  EXPECT_EQ(SaidOf({"--mixup=0.2", "--mask_prob=0.3", "--dropout=0.1"}, ""), "");
}

TEST(ParseStepRange, FirstAndLast) {
  EXPECT_EQ(ParseStepRange("10:12"), (StepRange{10, 12}));
  EXPECT_EQ(ParseStepRange("1:1"), (StepRange{1, 1}));
  for (const char* text : {"", ":", "10", "10:", ":12", "12:10", "0:3", "-1:3", "1:2:3", "1-3", "a:b", "1:2 ", "1.5:2",
                           "1:99999999999999999999"}) {
    EXPECT_EQ(ParseStepRange(text), std::nullopt) << text;
  }
}

}  // namespace

}  // namespace dtrain::config
