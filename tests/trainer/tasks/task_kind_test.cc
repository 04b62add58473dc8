// What --task and --model mean together, and where the answer comes from.
#include "trainer/tasks/task_kind.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"
#include "tests/temporary_folder.h"
#include "trainer/config/command_line.h"
#include "trainer/errors.h"
#include "trainer/weights/run_settings.h"

namespace dtrain::tasks {
namespace {

config::Config ResolvedTask(const std::vector<std::string>& arguments) {
  config::Config config = config::ParseCommandLine(arguments).config;
  ResolveTask(config);
  return config;
}

TEST(TaskKind, TheTableHasTheChoicesOfTheFlag) {
  std::vector<std::string> names = {"auto"};
  for (const TaskKind* kind : TaskKinds()) names.emplace_back(kind->name());
  EXPECT_EQ(config::FindFlag("task")->limits.choices, names);
}

TEST(ResolveTask, TheModelAndTheTaskTellEachOther) {
  struct Meaning {
    std::vector<std::string> arguments;
    std::string task, model;
  };
  const std::vector<Meaning> meanings = {
      {{}, "image_classification", "resnet50"},
      {{"--model=efficientnet_b0"}, "image_classification", "efficientnet_b0"},
      {{"--model=roberta_base"}, "masked_lm", "roberta_base"},
      {{"--task=masked_lm"}, "masked_lm", "roberta"},
      {{"--task=masked_lm", "--model=roberta_tiny"}, "masked_lm", "roberta_tiny"},
      {{"--task=image_classification"}, "image_classification", "resnet50"},
      {{"--model=no_such_model"}, "auto", "no_such_model"},  // the checks of the flags refuse the model
  };
  for (const Meaning& meaning : meanings) {
    SCOPED_TRACE(testing::PrintToString(meaning.arguments));
    const config::Config config = ResolvedTask(meaning.arguments);
    EXPECT_EQ(config.run.task, meaning.task);
    EXPECT_EQ(config.model.name, meaning.model);
    if (meaning.task != "auto") {
      EXPECT_EQ(KindOf(config).name(), meaning.task);
    }
  }
  for (const std::vector<std::string>& contradiction : std::vector<std::vector<std::string>>{
           {"--task=masked_lm", "--model=resnet50"}, {"--task=image_classification", "--model=roberta_base"}}) {
    EXPECT_ERROR(" is not for --model=", ResolvedTask(contradiction));
  }
}

TEST(ResolveTask, AFolderOfHuggingFaceTellsTheModel) {
  const TemporaryFolder folder;
  folder.Write("model.safetensors", "");
  folder.Write("config.json", R"({"model_type": "roberta"})");
  const std::string weights = "--init_weights=" + folder.path("");
  EXPECT_EQ(ResolvedTask({weights}).model.name, "roberta");
  EXPECT_EQ(ResolvedTask({weights}).run.task, "masked_lm");
  EXPECT_EQ(ResolvedTask({weights, "--model=roberta_base"}).model.name, "roberta_base");
  EXPECT_EQ(ResolvedTask({"--model_config=" + folder.path("config.json")}).run.task, "masked_lm");
  folder.Write("config.json", R"({"model_type": "resnet"})");
  EXPECT_EQ(ResolvedTask({weights}).model.name, "resnet50");
}

TEST(ResolveTask, SentencesTellTheTaskAndTheModel) {
  const TemporaryFolder folder;
  const std::string data = "--data_dir=" + folder.path("");
  folder.Write("train.tsv", "sentence\tlabel\nfine\t1\nso so\t0\n");
  EXPECT_EQ(ResolvedTask({data}).run.task, "text_classification");
  EXPECT_EQ(ResolvedTask({data}).model.name, "roberta");
  EXPECT_EQ(ResolvedTask({data, "--model=roberta_tiny"}).run.task, "text_classification");
  EXPECT_EQ(ResolvedTask({data, "--task=text_regression"}).run.task, "text_regression");
  EXPECT_EQ(ResolvedTask({data, "--model=resnet18"}).run.task, "image_classification");  // refused when data is opened
  folder.Write("train.tsv", "sentence\tlabel\nfine\t4.5\nso so\t3\n");
  EXPECT_EQ(ResolvedTask({data}).run.task, "text_regression");
}

TEST(ResolveTask, AnEvaluationHasTheTaskOfItsRun) {
  const TemporaryFolder folder;
  for (const std::string task : {R"("task":"masked_lm",)", ""}) {  // without it: a run of an earlier version
    folder.Write("config.json", R"({"model":"roberta_tiny",)" + task + R"("image_size":224,"tokens_per_sample":8})");
    config::Config config =
        config::ParseCommandLine({"--mode=eval", "--data_dir=somewhere", "--run_dir=" + folder.path("")}).config;
    weights::TakeSettingsOfRun(config);
    ResolveTask(config);
    EXPECT_EQ(config.run.task, "masked_lm");
    EXPECT_EQ(config.model.name, "roberta_tiny");
  }
}

}  // namespace
}  // namespace dtrain::tasks
