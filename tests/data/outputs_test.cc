#include "data/outputs.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "data/error.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kOfARun[] = "belongs to the run in";

// A folder with a run, r, some data, and links to both.
class Outputs : public testing::Test {
 protected:
  Outputs() {
    for (const char* name :
         {"r/config.json", "r/metrics.jsonl", "r/checkpoints/step-3/manifest.json", "r/checkpoints/step-3/state.json",
          "r/own.csv", "data.bin", ".a.csv.tmp", "b.csv.partial"}) {
      folder_.Write(name, "precious");
    }
    fs::create_directory_symlink("r", folder_ / "link");
    fs::create_symlink("r/metrics.jsonl", folder_ / "link.jsonl");
    fs::create_symlink("data.bin", folder_ / "link.bin");
    fs::create_hard_link(folder_ / "data.bin", folder_ / "hard.bin");
    fs::create_symlink("loop", folder_ / "loop");
    fs::create_symlink("/elsewhere", folder_ / "r" / "result.json");
    mkfifo(folder_.path("pipe").c_str(), 0600);
  }

  std::string WhyNotFile(const std::string& output, const std::string& input = "") const {
    const Output file{.flag = "--flag", .path = folder_.path(output), .marks = {{"mark"}, {"", "mine"}}};
    return MessageOf([&] { RequireOutputs({file}, {folder_.path(input), "", "missing"}); });
  }
  std::string WhyNotFolder(const std::string& output, const std::string& input = "missing") const {
    const auto is_own = [](const std::string& folder) { return fs::exists(fs::path(folder) / "mark"); };
    const Output own{.flag = "--flag", .path = folder_.path(output), .in_folder = true, .is_own_folder = is_own};
    return MessageOf([&] { RequireOutputs({own}, {folder_.path(input)}); });
  }

  const TemporaryFolder folder_;
};

TEST_F(Outputs, AnInputIsKnownUnderEveryName) {
  for (const char* output : {"data.bin", "hard.bin", "link.bin", "./r/../data.bin", "link/../data.bin"}) {
    for (const char* input : {"data.bin", "hard.bin", "link.bin"}) {
      EXPECT_THAT(WhyNotFile(output, input), HasSubstr("which is read")) << output << " " << input;
    }
  }
  EXPECT_THAT(WhyNotFile("a.csv", ".a.csv.tmp"), HasSubstr("which is read"));  // temporary names of outputs
  EXPECT_THAT(WhyNotFile("b.csv", "b.csv.partial"), HasSubstr("which is read"));
  for (const char* output : {"new.bin", "new/new.bin", "loop"}) EXPECT_EQ(WhyNotFile(output), "") << output;
}

TEST_F(Outputs, ARunKeepsItsFiles) {
  for (const char* output : {"r/metrics.jsonl", "r/./../r/metrics.jsonl", "link/metrics.jsonl", "link.jsonl",
                             "r/model_ema.safetensors", "r/quarantine.jsonl", "r/lock", "r/tokenizer/dict.txt",
                             "r/result.json", "r/checkpoints/step-3/new.csv", "link/checkpoints/step-3/new.csv"}) {
    EXPECT_THAT(WhyNotFile(output), HasSubstr(kOfARun)) << output;
  }
  for (const char* output : {"r/new.csv", "r/exported/model.safetensors"}) EXPECT_EQ(WhyNotFile(output), "") << output;
  for (const char* output : {"r", "r/", "r/.", "r/../r/.", "link", "link/", "r/checkpoints", "r/checkpoints/step-3",
                             "r/checkpoints/../../link", "r/attempts"}) {
    EXPECT_THAT(WhyNotFolder(output), HasSubstr(kOfARun)) << output;
  }
  EXPECT_EQ(WhyNotFolder("r/exported"), "");
}

TEST_F(Outputs, OnlyFilesAreReplaced) {
  EXPECT_THAT(WhyNotFile("pipe"), HasSubstr("no regular file"));
  for (const char* output : {"/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
    EXPECT_ERROR("no regular file", RequireOutputs({{.flag = "--flag", .path = output}}, {})) << output;
  }
}

TEST_F(Outputs, AFileIsNewEmptyOrKnownByItsMark) {
  fs::create_symlink("pipe", folder_ / "to_pipe");
  folder_.Write("empty.csv", "");
  folder_.Write("marked.csv", "mark, and more");
  folder_.Write("mine.csv", "is mine");
  for (const char* output : {"empty.csv", "marked.csv", "mine.csv"}) EXPECT_EQ(WhyNotFile(output), "") << output;
  for (const char* output : {"r/own.csv", "data.bin", "link.bin", "hard.bin"}) {
    EXPECT_THAT(WhyNotFile(output), AllOf(HasSubstr("--flag: "), HasSubstr("did not write it"))) << output;
  }
  EXPECT_THAT(WhyNotFile("to_pipe"), HasSubstr("no regular file"));
  const Output in_folder{.flag = "--flag", .path = folder_.path("data.bin"), .in_folder = true};
  EXPECT_ERROR("is no folder", RequireOutputs({in_folder}, {}));
  const Output file{.flag = "--flag", .path = folder_.path("new.csv")};
  EXPECT_ERROR("for another flag, too", RequireOutputs({file, file}, {}));
}

TEST_F(Outputs, AFolderIsNewOrOwn) {
  fs::create_directory(folder_ / "empty");
  folder_.Write("cloned/.git/config", "");
  folder_.Write("own/mark", "");
  folder_.Write("foreign/config.json", "");
  for (const char* output : {"new", "new/", "empty", "cloned", "own"}) EXPECT_EQ(WhyNotFolder(output), "") << output;
  EXPECT_THAT(WhyNotFolder("foreign"), HasSubstr("such as config.json"));
  EXPECT_THAT(WhyNotFolder("own", "own/."), HasSubstr("is read"));
}

}  // namespace
}  // namespace dtrain::data
