#include "data/formats/image_table.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/error.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A folder with a table, and the images that it names.
class ImageTables : public testing::Test {
 protected:
  ImageTables() {
    for (const char* name : {"a.jpg", "sub/b.png", "sub/c.jpg", "d.jpg", "e.jpg"}) folder_.Write(name, name);
  }

  LabelTable Write(const std::string& text, const std::string& name = "labels.csv") const {
    folder_.Write(name, text);
    return {.path = folder_.path(name)};
  }

  ImageTable Open(const LabelTable& table, LabelKind kind = LabelKind::kClass, const std::string& split = "train",
                  const Classes& known = {}) const {
    return {table, "", split, kind, known};
  }

  std::string MistakeIn(const LabelTable& table, LabelKind kind = LabelKind::kClass, const std::string& split = "train",
                        const Classes& known = {}) const {
    return MessageAndHint([&] { Open(table, kind, split, known); });
  }

  std::string MistakeIn(const std::string& text) const { return MistakeIn(Write(text)); }

  std::vector<std::string> PathsOf(const ImageTable& images) const {
    std::vector<std::string> paths;
    for (int64_t i = 0; i < images.size(); ++i) {
      paths.push_back(std::filesystem::relative(images.Place(i).file, folder_.path()).string());
    }
    return paths;
  }

  TemporaryFolder folder_;
};

std::vector<int64_t> LabelsOf(const RecordSource& source) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < source.size(); ++i) labels.push_back(source.Label(i));
  return labels;
}

std::vector<std::vector<float>> TargetsOf(const RecordSource& source) {
  std::vector<std::vector<float>> rows;
  for (int64_t i = 0; i < source.size(); ++i) {
    rows.emplace_back(static_cast<size_t>(source.num_targets()), -1.0F);
    source.Targets(i, rows.back());
  }
  return rows;
}

constexpr char kThree[] =
    "file_name,label,Split\nsub/b.png,dog,Train\na.jpg,cat,train\n./sub/../sub/c.jpg,cat,valid\nd,dog,test\n";

TEST_F(ImageTables, ALinkToTheFolderHasTheImagesThatAreNamedWhole) {
  const TemporaryFolder other;
  std::filesystem::create_directory_symlink(folder_.path(), other / "link");
  LabelTable table = Write("image,label\n" + folder_.path("a.jpg") + ",x\n" + other.path("link/d.jpg") + ",y\n");
  const ImageTable images(table, other.path("link"), "train", LabelKind::kClass, {});
  EXPECT_THAT(PathsOf(images), ElementsAre("a.jpg", "d.jpg"));
}

TEST_F(ImageTables, ClassesInTheOrderOfRows) {
  const LabelTable table = Write(kThree);
  const ImageTable train = Open(table);
  EXPECT_THAT(train.class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(LabelsOf(train), ElementsAre(1, 0));
  EXPECT_THAT(PathsOf(train), ElementsAre("sub/b.png", "a.jpg"));
  EXPECT_EQ(train.num_targets(), 0);
  const auto bytes = train.Read(0);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "sub/b.png");
  const ImageTable val = Open(table, LabelKind::kClass, "val", train.classes()),
                   test = Open(table, {}, "test", train.classes());
  EXPECT_THAT(PathsOf(val), ElementsAre("sub/c.jpg"));
  EXPECT_THAT(LabelsOf(val), ElementsAre(0));
  EXPECT_THAT(val.class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(PathsOf(test), ElementsAre("d.jpg")) << "the ending is found";
  EXPECT_THAT(SplitsIn(table), ElementsAre("Train", "train", "valid", "test"));
  EXPECT_TRUE(HasSplit(table, "val"));
  EXPECT_FALSE(HasSplit(table, "holdout"));
}

TEST_F(ImageTables, WithoutSplitsAllAreOfTraining) {
  const LabelTable table =
      Write("{\"image\": \"a.jpg\", \"label\": 10}\n{\"image\": \"d.jpg\", \"label\": 9}\n", "x.jsonl");
  EXPECT_THAT(LabelsOf(Open(table)), ElementsAre(1, 0)) << "numbers are sorted as numbers";
  EXPECT_TRUE(HasSplit(table, "train"));
  EXPECT_FALSE(HasSplit(table, "val"));
  EXPECT_TRUE(SplitsIn(table).empty());
}

TEST_F(ImageTables, ColumnsByNameAndFoldersOfTheirOwn) {
  const TemporaryFolder other;
  other.Write("t.tsv", "what\twhere\twhen\twho\nA\ta.jpg\tnow\tme\nB\t" + folder_.path("d.jpg") + "\tnow\tyou\n");
  const LabelTable table{.path = other.path("t.tsv"),
                         .image_column = "where",
                         .label_column = "what",
                         .split_column = "when",
                         .group_column = "who"};
  const ImageTable images(table, folder_.path(), "now", LabelKind::kClass, {});
  EXPECT_THAT(PathsOf(images), ElementsAre("a.jpg", "d.jpg"));
  EXPECT_THAT(images.groups(), ElementsAre("me", "you"));
}

TEST_F(ImageTables, RowsOfOneImageAreOneGroup) {
  EXPECT_THAT(Open(Write("image,label\nd,x\na.jpg,x\n")).groups(), ElementsAre());
  LabelTable table = Write("image,label,who\nd,x,\na.jpg,x,me\nd.jpg,x,\ne,x,you\ne,x,you\n");
  EXPECT_THAT(Open(table).groups(), ElementsAre("d.jpg", "", "d.jpg", "e.jpg", "e.jpg"));
  table.group_column = "who";
  EXPECT_THAT(Open(table).groups(), ElementsAre("d.jpg", "me", "d.jpg", "you", "you"));
  LabelTable unlike = Write("image,label,who\nd,x,me\nd.jpg,x,you\n");
  unlike.group_column = "who";
  EXPECT_THAT(MistakeIn(unlike), HasSubstr("line 3: the group of d.jpg is 'you', but 'me' in line 2"));
}

TEST_F(ImageTables, SeveralLabelsInACell) {
  LabelTable table = Write("image,labels\na.jpg,red; big\nd.jpg,\ne.jpg,small;red\n");
  table.separator = ";";
  const ImageTable images = Open(table, LabelKind::kSeveral);
  EXPECT_THAT(images.class_names(), ElementsAre("big", "red", "small"));
  EXPECT_THAT(TargetsOf(images), ElementsAre(ElementsAre(1, 1, 0), ElementsAre(0, 0, 0), ElementsAre(0, 1, 1)));
  EXPECT_THAT(LabelsOf(images), ElementsAre(-1, -1, -1));
  EXPECT_THAT(MistakeIn(table, LabelKind::kSeveral, "train", {.names = {"red", "small"}, .count = 2}),
              HasSubstr("labels.csv line 2: the label 'big' is none of the classes that the training data has"));
}

TEST_F(ImageTables, ListsOfLabelsInJson) {
  const LabelTable table = Write(R"({"file_name": "a.jpg", "tags": ["b", "a"]}
{"file_name": "d.jpg", "tags": []}
)",
                                 "metadata.jsonl");
  LabelTable named = table;
  named.label_column = "tags";
  const ImageTable images = Open(named, LabelKind::kSeveral);
  EXPECT_THAT(images.class_names(), ElementsAre("a", "b"));
  EXPECT_THAT(TargetsOf(images), ElementsAre(ElementsAre(1, 1), ElementsAre(0, 0)));
}

TEST_F(ImageTables, AColumnForEachLabel) {
  LabelTable table = Write("image,big,red\na.jpg,1,0\nd.jpg,0,0\ne.jpg,True,1.0\n");
  table.label_column = "red,big";
  const ImageTable images = Open(table, LabelKind::kSeveral);
  EXPECT_THAT(images.class_names(), ElementsAre("red", "big"));
  EXPECT_THAT(TargetsOf(images), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 0), ElementsAre(1, 1)));
  const ImageTable known = Open(table, LabelKind::kSeveral, "train", {.names = {"big", "red"}, .count = 2});
  EXPECT_THAT(TargetsOf(known), ElementsAre(ElementsAre(1, 0), ElementsAre(0, 0), ElementsAre(1, 1)));
  EXPECT_THAT(MistakeIn(table, LabelKind::kSeveral, "train", {.names = {"blue", "red"}, .count = 2}),
              HasSubstr("the labels are 'red', 'big', but the training data has 'blue', 'red'"));
  table.label_column = "";
  EXPECT_THAT(MistakeIn(table, LabelKind::kSeveral), HasSubstr("--label_separator"));
}

TEST_F(ImageTables, Numbers) {
  LabelTable table = Write("image,age,height\na.jpg,7,-1.5\nd.jpg,8e1,0\n");
  table.label_column = "age,height";
  const ImageTable images = Open(table, LabelKind::kNumbers);
  EXPECT_THAT(images.class_names(), ElementsAre("age", "height"));
  EXPECT_THAT(TargetsOf(images), ElementsAre(ElementsAre(7, -1.5), ElementsAre(80, 0)));
  table.label_column = "age";
  EXPECT_THAT(TargetsOf(Open(table, LabelKind::kNumbers)), ElementsAre(ElementsAre(7), ElementsAre(80)));
  EXPECT_THAT(MistakeIn(table, LabelKind::kNumbers, "train", {.names = {"a", "b"}, .count = 2}),
              HasSubstr("has 1 number, but the model or the training data has 2"));
}

TEST_F(ImageTables, MistakesNameFileAndLine) {
  const std::string table = folder_.path("labels.csv");
  const struct {
    const char* text;
    std::vector<std::string> words;
  } cases[] = {
      {"", {table}},
      {"image,label\n", {table + " has no rows"}},
      {"image,label\na.jpg\n", {"line 2"}},
      {"picture,label\na.jpg,x\n", {"no column that is known to hold paths of images", "'picture'", "--image_column"}},
      {"image,what\na.jpg,x\n", {"no column that is known to hold labels", "--label_column"}},
      {"image,path,label\na.jpg,a.jpg,x\n", {"several columns that may hold paths of images", "'image', 'path'"}},
      {"image,label\na.jpg,x\n,y\n", {"line 3", "no image is named"}},
      {"image,label\na.jpg,\n", {"line 2", "the label is empty"}},
      {"image,label\n../a.jpg,x\n", {"line 2", "'../a.jpg' leads out of", "--data_dir"}},
      {"image,label\nsub/../../a.jpg,x\n", {"line 2", "leads out of"}},
      {"image,label\n/etc/passwd,x\n", {"line 2", "'/etc/passwd' leads out of"}},
      {"image,label\na.jpg,x\nnone.jpg,y\nb.jpg,y\n",
       {"line 3", "there is no image " + folder_.path("none.jpg"), "nor those of 1 further row", "--data_dir"}},
      {"image,label\nsub,x\n", {"line 2", "there is no image"}},
      {"image,label\na.jpg,x\nd.jpg,y\n./a.jpg,y\n", {"line 4", "label of a.jpg is 'y', but 'x' in line 2"}},
      {"image,label,split\na.jpg,x,train\na.jpg,x,val\n", {"line 3", "split of a.jpg is 'val', but 'train' in line 2"}},
      {"image,label\nd,x\nd.jpg,y\n", {"line 3", "label of d.jpg is 'y', but 'x' in line 2"}},
      {"image,label,split\na.jpg,x,val\nd.jpg,y,test\n",
       {"the column 'split'", "has no 'train'; it has 'val', 'test'", "--train_split"}},
      {"image,label,split\na.jpg,x,\n", {"line 2", "split of the image is empty"}},
      {"image,label\na.jpg,1.5\nd.jpg,2.0\n", {"line 2", "--task=image_regression"}},
      {"image,label\na.jpg,x\nd.jpg,\"a,b\"\ne.jpg,\"x,x\"\n", {"line 4", "joins several"}},
  };
  for (const auto& one : cases) {
    const std::string mistake = MistakeIn(one.text);
    for (const std::string& word : one.words) EXPECT_THAT(mistake, HasSubstr(word)) << one.text;
  }
  for (const char* number : {"nan", "inf", "1e400", "1e30", "x", "\"1,5\"", ""}) {
    EXPECT_THAT(MistakeIn(Write("image,label\na.jpg,1\nd.jpg," + std::string(number) + "\n"), LabelKind::kNumbers),
                HasSubstr("labels.csv line 3: the label"))
        << number;
  }
  for (const char* first : {"a.jpg", "./d"}) {
    LabelTable nameless = Write(std::string(first) + ",x\ne.jpg,y\n");
    nameless.image_column = "0";
    nameless.label_column = "1";
    EXPECT_THAT(MistakeIn(nameless), HasSubstr("line 1: it names the image " + std::string(first)));
  }
  LabelTable none = Write("image,label\na.jpg,x\n");
  none.split_column = "part";
  EXPECT_THAT(MistakeIn(none), HasSubstr("has no column 'part'"));
  none.split_column = "label";
  none.label_column = "label";
  EXPECT_THAT(MistakeIn(none), HasSubstr("one column is named as two"));
  LabelTable empty = Write("image,labels\na.jpg,\n");
  empty.separator = "|";
  EXPECT_THAT(MistakeIn(empty, LabelKind::kSeveral), HasSubstr("no image has a label"));
  EXPECT_THAT(MistakeIn(Write("image,label\na.jpg,x\n"), LabelKind::kClass, "train", {.count = 3}),
              HasSubstr("has 1 label, but the model or the training data has 3"));
  EXPECT_THAT(MistakeIn(LabelTable{.path = folder_.path("a.jpg")}), HasSubstr("must end in"));
}

// A copy elsewhere is the same data; another label, row or size is not.
TEST_F(ImageTables, FingerprintIsOfRowsAndSizes) {
  const std::string first = Open(Write(kThree)).fingerprint();
  EXPECT_EQ(Open(Write(std::string(kThree) + "\n", "copy.csv")).fingerprint(), first);
  EXPECT_EQ(Open(Write(std::string(kThree) + "e.jpg,cat,test\n")).fingerprint(), first) << "another split";
  EXPECT_NE(Open(Write(std::string(kThree) + "e.jpg,cat,train\n")).fingerprint(), first);
  std::string relabelled = kThree;
  relabelled.replace(relabelled.find("dog"), 3, "cat");
  EXPECT_NE(Open(Write(relabelled)).fingerprint(), first);
  folder_.Write("a.jpg", "longer than it was");
  EXPECT_NE(Open(Write(kThree)).fingerprint(), first);
}

}  // namespace
}  // namespace dtrain::data
