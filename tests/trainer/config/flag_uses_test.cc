// Each kind of task and each family of models with a flag that it does not use, and with the value that means off.
#include "trainer/config/flag_uses.h"

#include <gmock/gmock.h>

#include "trainer/config/command_line.h"
#include "trainer/config/problems.h"

namespace dtrain::config {
namespace {

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
      {"image_classification", "ResNet", "--tokens_per_sample=128", "--tokens_per_sample=512"},
      {"image_classification", "ResNet", "--label_column=label", "--label_column="},
      {"image_classification", "ResNet", "--dropout=0.1", "--dropout=0"},
      {"image_classification", "ResNet", "--attention_dropout=0.1", "--attention_dropout=0"},
      {"image_classification", "ResNet", "--layer_decay=0.9", "--layer_decay=1"},
      {"image_classification", "ResNet", "--drop_path=0.2", "--drop_path=0"},
      {"image_classification", "ResNet", "--activation_checkpointing", "--noactivation_checkpointing"},
      {"image_classification", "EfficientNet", "--zero_init_residual", "--nozero_init_residual"},
      {"image_classification", "EfficientNet", "--memory_efficient_fp16", "--nomemory_efficient_fp16"},
      {"masked_lm", "RoBERTa", "--mixup=0.2", "--mixup=0"},
      {"masked_lm", "RoBERTa", "--image_size=160", "--image_size=224"},
      {"masked_lm", "RoBERTa", "--eval_resize=232", "--eval_resize=256"},
      {"masked_lm", "RoBERTa", "--loss=bce", "--loss=ce"},
      {"masked_lm", "RoBERTa", "--label_smoothing=0.1", "--label_smoothing=0"},
      {"masked_lm", "RoBERTa", "--num_classes=10", "--num_classes=0"},
      {"masked_lm", "RoBERTa", "--label_offset=1", "--label_offset=auto"},
      {"masked_lm", "RoBERTa", "--bn_eps=1e-3", "--weight_decay=0"},
      {"masked_lm", "RoBERTa", "--sync_bn", "--nosync_bn"},
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
            "--loss=bce: not used by --task=masked_lm (it is for image_classification); leave it out");
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

}  // namespace
}  // namespace dtrain::config
