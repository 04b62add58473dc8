// The command line as users write it: spellings, flagfiles, and every kind of mistake.
#include "trainer/config/command_line.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/temporary_folder.h"
#include "trainer/config/aliases.h"
#include "trainer/config/choices.h"
#include "trainer/config/config_json.h"
#include "trainer/config/foreign_programs.h"
#include "trainer/errors.h"

namespace dtrain::config {
namespace {

using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

// Returns the text of the UsageError; empty if there is none.
std::string Mistakes(const Arguments& arguments, const Program& program = {}) {
  try {
    ParseCommandLine(arguments, program);
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.hint(), HasSubstr("--help"));
    return error.what();
  }
  return "";
}

Config Parsed(const Arguments& arguments) { return ParseCommandLine(arguments).config; }

TEST(CommandLine, Spellings) {
  for (const Arguments& arguments :
       std::vector<Arguments>{{"--batch_size=8", "--lr=0.5", "--nesterov"},
                              {"--batch-size", "8", "--lr", "0.5", "--nesterov=true"},
                              {"-batch_size=8", "-lr", "5e-1", "--nesterov=1"},
                              {"--lr=7", "--nonesterov", "--batch-size=8", "--lr=.5", "--nesterov=yes"}}) {
    const Config config = Parsed(arguments);
    EXPECT_EQ(config.batch.batch_size, 8);
    EXPECT_EQ(config.optimizer.lr, 0.5);
    EXPECT_TRUE(config.optimizer.nesterov);
  }
  EXPECT_FALSE(Parsed({"--nochannels_last"}).model.channels_last);
  EXPECT_FALSE(Parsed({"--no-channels-last"}).model.channels_last);
  EXPECT_FALSE(Parsed({"--channels_last=false"}).model.channels_last);
  EXPECT_EQ(Parsed({"--mean=0.5, .5, +5e-1"}).image.mean, std::vector(3, 0.5));
  EXPECT_EQ(Parsed({"--max_steps=+5"}).batch.max_steps, 5);
  EXPECT_EQ(Parsed({"--data_dir="}).data.dir, "");
  EXPECT_EQ(Parsed({"--data_dir=a=b"}).data.dir, "a=b");
  EXPECT_EQ(Parsed({"--weight_decay", "-1"}).optimizer.weight_decay, -1);
  EXPECT_EQ(Parsed({"--mean=0,0.5,1"}).image.mean, (std::vector<double>{0, 0.5, 1}));
}

TEST(CommandLine, UnknownFlags) {
  EXPECT_EQ(Mistakes({"--btach-size=8"}), "--btach-size: no such flag; did you mean --batch_size?");
  EXPECT_EQ(Mistakes({"--completely_different", "value"}), "--completely_different: no such flag");
  EXPECT_THAT(Mistakes({"--nonesterv"}), HasSubstr("did you mean --nonesterov?"));
  EXPECT_THAT(Mistakes({"--modle=x"}), HasSubstr("did you mean --model?"));  // a swap is preferred to an extra letter
  // Flags of gflags and glog are linked in, but are no flags of ours.
  for (const char* flag : {"--v=1", "--logtostderr", "--undefok=lr", "--fromenv=lr", "--tryfromenv=lr", "--helpfull",
                           "--helpxml", "--tab_completion_word=x"}) {
    EXPECT_THAT(Mistakes({flag}), HasSubstr("no such flag")) << flag;
  }
}

TEST(CommandLine, MalformedValues) {
  EXPECT_EQ(Mistakes({"--batch_size=many"}), "--batch_size=many: expected a whole number, 1 to 1000000");
  EXPECT_THAT(Mistakes({"--batch_size=1.5"}), HasSubstr("expected a whole number"));
  EXPECT_THAT(Mistakes({"--batch_size="}), HasSubstr("expected a whole number"));
  EXPECT_THAT(Mistakes({"--max_steps=99999999999999999999"}), HasSubstr("expected a whole number"));
  EXPECT_EQ(Mistakes({"--batch_size=0x10"}), "--batch_size=0x10: expected a whole number, 1 to 1000000");
  EXPECT_THAT(Mistakes({"--lr=0x1p-3"}), HasSubstr("expected a finite number"));
  EXPECT_THAT(Mistakes({"--mean=0x1,1,1"}), HasSubstr("expected three finite numbers"));
  for (const char* tiny : {"--mixup=1e-308", "--mixup=1e-400"}) {
    EXPECT_THAT(Mistakes({tiny}), HasSubstr(": expected")) << tiny;
  }
  EXPECT_THAT(Mistakes({"--lr", "0,1"}), HasSubstr("--lr=0,1: expected a finite number"));
  EXPECT_EQ(Mistakes({"--nesterov=maybe"}), "--nesterov=maybe: expected true or false");
  EXPECT_THAT(Mistakes({"--mean=a,b,c"}),
              HasSubstr("--mean=a,b,c: expected three finite numbers with commas between them"));
  EXPECT_THAT(Mistakes({"--mean=1,,2"}), HasSubstr("expected three finite numbers with commas between them"));
  EXPECT_THAT(Mistakes({"--lr"}), HasSubstr("--lr: a value is missing"));
  EXPECT_THAT(Mistakes({"--data_dir", "--nesterov"}), HasSubstr("--data_dir: a value is missing"));
  EXPECT_THAT(Mistakes({"--nolr"}), HasSubstr("--lr is not a boolean"));
  EXPECT_THAT(Mistakes({"--nonesterov=true"}), HasSubstr("takes no value"));
}

TEST(CommandLine, StrayArguments) {
  EXPECT_EQ(Mistakes({"trains"}), "'trains' is not a flag; flags begin with --");
  EXPECT_EQ(Mistakes({"train", "--lr=1"}), "'train' is not a flag; write --mode=train, or nothing");
  EXPECT_EQ(Mistakes({"eval"}), "'eval' is not a flag; write --mode=eval");
  EXPECT_THAT(Mistakes({"--lr=1", "--", "x"}), HasSubstr("'x' is not a flag"));
  EXPECT_THAT(Mistakes({"--dry_run", "true"}), HasSubstr("--dry_run takes its value after an equals sign only"));
  EXPECT_THAT(Mistakes({"---lr=1"}), HasSubstr("is not a flag"));
  EXPECT_THAT(Mistakes({""}), HasSubstr("'' is not a flag"));
}

TEST(CommandLine, AllMistakesAtOnce) {
  const std::string text = Mistakes({"--lr=x", "--epoch=3", "stray", "--batch_size=y", "--flagfile=/no/such"});
  for (const char* part : {"--lr=x", "did you mean --epochs?", "'stray'", "--batch_size=y", "/no/such"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(CommandLine, LongValuesAreNotEchoedWhole) {
  const std::string huge(100'000, 'x');
  for (const std::string& argument : {"--lr=" + huge, "--" + huge + "=1", huge, "--data_dir=" + huge, "--no" + huge,
                                      "--augment=" + huge, "--nolr=" + huge, "--flagfile=" + huge}) {
    EXPECT_LT(Mistakes({argument}).size(), 1000U) << argument.substr(0, 20);
  }
  EXPECT_LT(Mistakes(std::vector<std::string>(10'000, "stray")).size(), 5000U);
  EXPECT_THAT(Mistakes({"--data_dir=" + std::string(5000, 'x')}), HasSubstr("--data_dir: its value has 5000 bytes"));
}

TEST(CommandLine, HelpAndVersionAnswer) {
  for (const char* flag : {"--help", "-h", "-help"}) {
    EXPECT_THAT(ParseCommandLine({flag}).answer, HasSubstr("--batch_size=INT")) << flag;
  }
  EXPECT_THAT(ParseCommandLine({"--unknown", "--help"}).answer, HasSubstr("Usage: dtrain_main"));
  EXPECT_THAT(ParseCommandLine({"--version"}).answer, testing::MatchesRegex("dtrain_main [0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(ParseCommandLine(0, nullptr).answer, "");  // nor does a program without a name
}

TEST(CommandLine, AFlagOfAnotherToolIsAnsweredWithOurs) {
  EXPECT_EQ(Mistakes({"--max-epochs", "3"}), "--max-epochs: no such flag; dtrain has --epochs");
  EXPECT_EQ(Mistakes({"--train_batch_size=3"}), "--train_batch_size: no such flag; dtrain has --batch_size");
  for (const auto& [name, ours] : ForeignFlags()) {
    EXPECT_TRUE(FindFlag(name) == nullptr && FindAlias(name, nullptr) == nullptr) << name << " is understood";
    for (size_t at = ours.find("--"); at != std::string::npos; at = ours.find("--", at + 2)) {
      const std::string flag = ours.substr(at + 2, ours.find_first_of("= ,", at) - at - 2);
      EXPECT_NE(FindFlag(flag), nullptr) << name << ": " << flag;
    }
  }
}

TEST(CommandLine, FlagsOfAnEarlierVersionThatMeanNothingNowArePassedOver) {
  const TemporaryFolder folder;
  const std::string old =
      folder.Write("config.json", R"({"lr": 0.25, "cudnn_benchmark_limit": 0, "static_graph": true})");
  const CommandLine taken = ParseCommandLine({"--flagfile=" + old});
  EXPECT_EQ(taken.config.given, std::vector<std::string>{"lr"});
  EXPECT_EQ(taken.notes.size(), 2);
}

TEST(CommandLine, EveryChoiceHasASentence) {
  const std::vector<std::pair<std::string, std::vector<Choice>>> lists = {
      {"task", TaskChoices()},           {"data_format", DataFormats()}, {"augment", Augmentations()},
      {"optimizer", OptimizerChoices()}, {"loss", LossChoices()},        {"lr_schedule", Schedules()}};
  for (const auto& [flag, list] : lists) {
    std::istringstream lines(Lines(list));
    for (const Choice& choice : list) {
      EXPECT_THAT(FindFlag(flag)->limits.choices, testing::Contains(choice.name));
      EXPECT_THAT(FindFlag(flag)->help, HasSubstr(choice.name + ": " + choice.description));
      std::string line;
      std::getline(lines, line);
      EXPECT_TRUE(line.starts_with(choice.name + " ") && line.ends_with("  " + choice.description)) << line;
      EXPECT_FALSE(choice.description.empty()) << choice.name;
    }
  }
}

TEST(CommandLine, AFlagfileMayBeARunsConfiguration) {
  const TemporaryFolder folder;
  const std::string typed = folder.Write("print_config.json", R"(
    {"lr": 0.25, "max_steps": 7, "mean": [0.5, 0.25, 1], "sync_bn": true, "data_dir": "a b", "run_dir": "", "rank": null,
     "start": {"version": "1"}})");
  const CommandLine all = ParseCommandLine({"--lr=1", "--flagfile=" + typed, "--max_steps=8"});
  EXPECT_EQ(all.config.optimizer.lr, 0.25);
  EXPECT_EQ(all.config.batch.max_steps, 8);
  EXPECT_EQ(all.config.image.mean, (std::vector<double>{0.5, 0.25, 1}));
  EXPECT_TRUE(all.config.ranks.sync_bn);
  EXPECT_EQ(all.config.data.dir, "a b");
  EXPECT_FALSE(WasGiven(all.config, "run_dir") || WasGiven(all.config, "rank"));

  const std::string given = folder.Write("config.json", R"({"lr": 0.25, "batch_size": 3, "start": {"given": ["lr"]}})");
  EXPECT_EQ(ParseCommandLine({"--flagfile=" + given}).config.given, std::vector<std::string>{"lr"});

  for (const char* start : {"\"lr\"", "7", R"({"given": "lr"})", R"({"given": {"lr": 1}})", R"({"given": [1]})",
                            R"({"given": ["lr", "momentum"]})", R"({"given": null})"}) {
    const std::string file = folder.Write("start.json", R"({"lr": 0.25, "start": )" + std::string(start) + "}");
    EXPECT_THAT(Mistakes({"--flagfile=" + file}), HasSubstr("start.json: start.given is not a list of flags")) << start;
  }
  EXPECT_THAT(Mistakes({"--flagfile=" + folder.Write("object.json", R"({"lr": {"peak": 1}})")}),
              HasSubstr("object.json: the value of lr is neither"));

  const std::string more = folder.Write("more.flags", "--epochs=7\n--lr=9\n");
  const std::string both = folder.Write("both.json", R"({"epochs": 3, "flagfile": ")" + more + R"(", "lr": 0.25})");
  const Config changed = ParseCommandLine({"--flagfile=" + both}).config;
  EXPECT_EQ(std::pair(changed.batch.epochs, changed.optimizer.lr.value()), std::pair(3.0, 0.25)) << "in any order";
  EXPECT_EQ(Mistakes({"--flagfile=" + folder.Write("cut.json", " {\"lr\": 0.25")}),
            "--flagfile=" + folder.path("cut.json") + ": is not a JSON object of flags");
  const std::string deep = R"({"mean": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_THAT(Mistakes({"--flagfile=" + folder.Write("deep.json", deep)}), HasSubstr("is not a JSON object of flags"));
  EXPECT_EQ(Mistakes({"--flagfile=" + folder.Write("other.json", R"({"hidden_size": 3})")}),
            folder.path("other.json") + ": --hidden_size: no such flag");
}

TEST(CommandLine, ValuesOutOfRangeAreReportedBesideOtherMistakes) {
  const std::string mistakes = Mistakes({"--mixup=-1", "--ema_decay=2", "--lrx=3", "--blur=1"});
  EXPECT_THAT(mistakes, HasSubstr("--lrx: no such flag"));
  EXPECT_THAT(mistakes, HasSubstr("--mixup=-1: expected a finite number, 0 or more"));
  EXPECT_THAT(mistakes, HasSubstr("--ema_decay=2: expected a finite number, 0 to 1 (excluded)"));
  EXPECT_THAT(mistakes, testing::Not(HasSubstr("--blur")));
}

TEST(StartRecord, HasNoSecret) {
  Config config = ParseCommandLine({"--run_token=hush", "--lr=1"}).config;
  const auto json =
      StartRecord({"1.2.3", "abc", {"dtrain_main", "--run-token=hush", "--run_token", "hush", "--lr=1"}}, config);
  EXPECT_THAT(json.dump() + ToJson(config).dump(), testing::Not(HasSubstr("hush")));
  EXPECT_EQ(json.at("given"), nlohmann::json({"lr"}));
  EXPECT_EQ(json.at("command").back(), "--lr=1");
  for (const char* key : {"version", "commit", "host", "directory", "time"}) EXPECT_FALSE(json.at(key).empty()) << key;
}

TEST(CommandLine, CommandsAndOwnFlags) {
  const Program bench{
      .name = "dtrain_bench",
      .commands = {"step", "loader"},
      .flags = {
          {"json", Kind::kBool, "false", ""}, {"min_bytes", Kind::kInteger, "8", ""}, {"dump", Kind::kText, "", ""}}};
  const CommandLine line = ParseCommandLine({"step", "--json", "--min-bytes", "16", "--model=resnet18"}, bench);
  EXPECT_EQ(line.command, "step");
  EXPECT_EQ(line.extra.at("json"), "true");
  EXPECT_EQ(line.extra.at("min_bytes"), "16");
  EXPECT_EQ(line.extra.at("dump"), "");
  EXPECT_EQ(line.config.model.name, "resnet18");
  EXPECT_EQ(ParseCommandLine({"step", "--nojson"}, bench).extra.at("json"), "false");
  EXPECT_EQ(ParseCommandLine({"step", "--task=masked_lm"}, bench).command, "step");  // not fairseq's folder of data

  EXPECT_THAT(Mistakes({}, bench), HasSubstr("the first argument must be a command: step | loader"));
  EXPECT_THAT(Mistakes({"stpe"}, bench), HasSubstr("'stpe' is not a command; did you mean step?"));
  EXPECT_THAT(Mistakes({"step", "--jsn"}, bench), HasSubstr("did you mean --json?"));
  EXPECT_THAT(Mistakes({"step", "--min_bytes=x"}, bench), HasSubstr("--min_bytes=x: expected a whole number"));
  EXPECT_THAT(Mistakes({"step", "--json=x"}, bench), HasSubstr("expected true or false"));
  EXPECT_THAT(ParseCommandLine({"--help"}, bench).answer, HasSubstr("--[no]json"));
  EXPECT_THAT(Mistakes({"--json"}), HasSubstr("no such flag"));
}

class Flagfile : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const { return folder_.Write(name, text); }

  const TemporaryFolder folder_;
};

TEST_F(Flagfile, LaterFlagsWin) {
  const std::string file = Write("recipe.flags", "# a recipe\n\n  --lr=0.5  \r\n--batch-size 8\n-nesterov");
  EXPECT_EQ(Parsed({"--flagfile=" + file}).optimizer.lr, 0.5);
  EXPECT_EQ(Parsed({"--flagfile", file}).batch.batch_size, 8);
  EXPECT_TRUE(Parsed({"--flagfile", file}).optimizer.nesterov);
  EXPECT_EQ(Parsed({"--flagfile=" + file, "--lr=2"}).optimizer.lr, 2);
  EXPECT_EQ(Parsed({"--lr=2", "--flagfile=" + file}).optimizer.lr, 0.5);
}

TEST_F(Flagfile, OneThatNeverEndsIsAMistake) {
  EXPECT_THAT(Mistakes({"--flagfile=/dev/zero"}), HasSubstr("more than 1048576 bytes"));
  for (int depth = 0; depth < 8; ++depth) {
    std::string deeper;
    for (int i = 0; i < 50; ++i) deeper += "--flagfile=" + std::to_string(depth + 1) + ".flags\n";
    Write(std::to_string(depth) + ".flags", deeper);
  }
  Write("8.flags", "--lr=1\n");
  const std::string text = Mistakes({"--flagfile=" + folder_.path("0.flags")});
  EXPECT_THAT(text, HasSubstr("more than 100"));
  EXPECT_EQ(text.find('\n'), std::string::npos);  // each mistake is reported once
}

TEST_F(Flagfile, NestedAndSeveral) {
  Write("nested/inner.flags", "--lr=3\n");
  const std::string outer = Write("outer.flags", "--lr=1\n--flagfile=nested/inner.flags\n--momentum=0.5\n");
  EXPECT_EQ(Parsed({"--flagfile=" + outer}).optimizer.lr, 3);
  EXPECT_EQ(Parsed({"--flagfile=" + outer}).optimizer.momentum, 0.5);
  // Paths are relative to the file that contains them, at any depth.
  Write("nested/deep.flags", "--flagfile=inner.flags\n");
  EXPECT_EQ(Parsed({"--flagfile=" + Write("top.flags", "--flagfile nested/deep.flags")}).optimizer.lr, 3);
  const std::string second = Write("second.flags", "--lr=4\n");
  EXPECT_EQ(Parsed({"--flagfile=" + outer + "," + second}).optimizer.lr, 4);
  // The same file twice is no loop.
  EXPECT_EQ(Parsed({"--flagfile=" + second, "--flagfile=" + second}).optimizer.lr, 4);
}

TEST_F(Flagfile, MistakesNameFileAndLine) {
  const std::string file = Write("bad.flags", "--lr=x\n# fine\n--btach_size=1\nlr=1\n--momentum\n--nesterov\n");
  const std::string text = Mistakes({"--flagfile=" + file});
  EXPECT_THAT(text, HasSubstr(file + ":1: --lr=x: expected a finite number"));
  EXPECT_THAT(text, HasSubstr(file + ":3: --btach_size: no such flag; did you mean --batch_size?"));
  EXPECT_THAT(text, HasSubstr(file + ":4: 'lr=1' is not a flag"));
  EXPECT_THAT(text, HasSubstr(file + ":5: --momentum: a value is missing"));
  EXPECT_THAT(text, Not(HasSubstr(":6:")));
}

TEST_F(Flagfile, MissingFoldersAndLoops) {
  EXPECT_THAT(Mistakes({"--flagfile=/no/such.flags"}), HasSubstr("--flagfile=/no/such.flags: cannot be read (No such"));
  EXPECT_THAT(Mistakes({"--flagfile=" + folder_.path().string()}), HasSubstr("is a folder"));
  EXPECT_THAT(Mistakes({"--flagfile"}), HasSubstr("a file name is missing"));
  EXPECT_THAT(Mistakes({"--flagfile="}), HasSubstr("a file name is missing"));
  const std::string nested = Write("nested.flags", "--flagfile=missing.flags\n");
  EXPECT_THAT(Mistakes({"--flagfile=" + nested}), HasSubstr(nested + ":1: --flagfile=missing.flags: cannot be read"));
  Write("a.flags", "--flagfile=b.flags\n");
  const std::string b = Write("b.flags", "--flagfile=a.flags\n");
  EXPECT_THAT(Mistakes({"--flagfile=" + b}), HasSubstr("includes itself"));
}

}  // namespace
}  // namespace dtrain::config
