#include <gmock/gmock.h>

#include "data/formats/packed_records.h"
#include "data/formats/tar.h"
#include "tests/data/formats/record_bytes.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;

const RecordFormat& kWebDataset = *FindRecordFormat("webdataset");

std::string Sample(const std::string& key, const std::string& image, const std::string& cls) {
  return MakeTarMember(key + ".jpg", image) + MakeTarMember(key + ".cls", cls);
}

TEST(WebDataset, NeighboursWithOneKeyAreASample) {
  const std::string archive = MakeTarMember("README", "no sample") + Sample("a/1", "first", "5") +
                              MakeTarMember("a/2.JSON", R"({"label": 6, "more": [1]})") +
                              MakeTarMember("a/2.seg.png", "mask") + MakeTarMember("a/2.png", "second") +
                              MakeTarMember("a.b/3.jpeg", "third") + MakeTarMember("a.b/3.cls", " 7\n") +
                              MakeTarMember(".hidden", "x") +
                              kWebDataset.Frame({.bytes = AsBytes("fourth"), .label = 8, .index = 4}) + MakeTarEnd();
  const Records records = ReadAll(kWebDataset, archive);
  EXPECT_THAT(records.labels, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(records.images, ElementsAre("first", "second", "third", "fourth"));
}

TEST(WebDataset, NamesWhatASampleLacks) {
  struct Case {
    std::string archive;
    const char* reason;
  };
  for (const Case& c :
       {Case{MakeTarMember("k.jpg", "x"), "sample k has no label"},
        Case{MakeTarMember("k.cls", "1"), "sample k has no image"}, Case{Sample("k", "x", "dog"), "its .cls is 'dog'"},
        Case{Sample("k", "x", ""), "its .cls is ''"},
        Case{MakeTarMember("k.jpg", "x") + MakeTarMember("k.json", "{"), "its .json"},
        Case{MakeTarMember("k.jpg", "x") + MakeTarMember("k.png", "y"), "two images, one is .png"}}) {
    EXPECT_ERROR(c.reason, ReadAll(kWebDataset, c.archive + MakeTarEnd()));
  }
}

TEST(WebDataset, SaysWhatALabelIs) {
  const auto values_of = [](const std::string& archive, LabelKind kind) {
    std::vector<float> values;
    ScanRecords(kWebDataset, MemoryBytes(AsBytes(archive)), "file", {}, kind, &values);
    return values;
  };
  const std::string number = Sample("k", "x", " -0.25\n"), image = MakeTarMember("k.jpg", "x");
  EXPECT_THAT(values_of(number, LabelKind::kNumbers), ElementsAre(-0.25F));
  EXPECT_ERROR("label -0.250000 is not a class", values_of(number, LabelKind::kClass));
  EXPECT_THAT(values_of(image + MakeTarMember("k.json", "[3, 0]"), LabelKind::kSeveral), ElementsAre(3, 0));
  EXPECT_ERROR("the label names class 0 twice",
               values_of(image + MakeTarMember("k.json", "[0, 1, 0]"), LabelKind::kSeveral));
}

// Zeros end an archive only if nothing else follows; before other bytes they are a hole.
TEST(WebDataset, HolesOfZerosAndCutsAreDamage) {
  const std::string first = Sample("1", "first", "1"), second = Sample("2", "second", "2"), end(kTarBlock, '\0');
  for (const size_t hole : {first.size(), first.size() + 2 * kTarBlock}) {  // the header of 2.jpg or of 2.cls
    std::string archive = first + second + Sample("3", "third", "3") + end;
    archive.replace(hole, kTarBlock, kTarBlock, '\0');
    const MemoryBytes bytes(AsBytes(archive));
    EXPECT_EQ(kWebDataset.Scan(bytes, 0)->end, first.size());
    EXPECT_THROW(kWebDataset.Scan(bytes, first.size()), DamagedRecord);
    EXPECT_EQ(kWebDataset.FindRecord(bytes, first.size() + 1), (first + second).size());
  }
  const std::string two = first + end + second + end;
  EXPECT_THROW(kWebDataset.Scan(MemoryBytes(AsBytes(two)), first.size()), DamagedRecord) << "one behind the other";
  EXPECT_FALSE(kWebDataset.Scan(MemoryBytes(AsBytes(first + std::string(100'000, '\0'))), first.size()));
  const std::string cut = first + MakeTarMember("2.jpg", "second");
  EXPECT_THROW(kWebDataset.Scan(MemoryBytes(AsBytes(cut)), first.size()), DamagedRecord) << "before 2.cls";
}

// Changes a member's header and corrects its checksum.
std::string WithField(std::string member, size_t at, const std::string& bytes) {
  member.replace(at, bytes.size(), bytes);
  member.replace(148, 8, "        ");
  unsigned sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += static_cast<uint8_t>(member[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  return member.replace(148, 7, std::string(text, 7));
}

std::string Extension(char type, const std::string& content) {
  return WithField(MakeTarMember("ext", content), 156, std::string(1, type));
}

std::optional<TarMember> Read(const std::string& archive, uint64_t offset = 0) {
  return ReadTarMember(MemoryBytes(AsBytes(archive)), offset);
}

TEST(Tar, LongNames) {
  const std::string name = std::string(200, 'd') + "/file.jpg";
  const std::string member = MakeTarMember("short", "x");
  EXPECT_EQ(Read(Extension('L', name + '\0') + member)->name, name);
  const std::string line = " path=" + name + "\n";
  EXPECT_EQ(Read(Extension('x', std::to_string(line.size() + 3) + line) + member)->name, name);
  EXPECT_EQ(Read(WithField(member, 345, "prefix"))->name, "prefix/short");
  EXPECT_EQ(Read(Extension('g', "19 comment=nothing\n") + member)->name, "short");
}

TEST(Tar, SizesInPaxAndBase256) {
  const std::string member = MakeTarMember("a", "12345");
  EXPECT_EQ(Read(WithField(member, 124, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x05", 12)))->data_bytes, 5U);
  EXPECT_EQ(Read(Extension('x', "10 size=5\n") + WithField(member, 124, std::string(11, '0')))->data_bytes, 5U);
}

TEST(Tar, FoldersAndLinksHaveNoData) {
  for (const char type : {'1', '2', '5'}) {
    const auto member = Read(WithField(MakeTarMember("a", "x"), 156, std::string(1, type)));
    EXPECT_FALSE(member->is_file);
    EXPECT_EQ(member->data_bytes, 0U);
  }
}

TEST(Tar, DamageIsNamed) {
  struct Case {
    std::string archive;
    const char* reason;
  };
  const std::string member = MakeTarMember("a", "12345");
  for (const Case& c :
       {Case{std::string(512, 'x'), "checksum"}, Case{member.substr(0, 511), "header is cut off"},
        Case{member.substr(0, 514), "truncated"}, Case{WithField(member, 124, "77777777777"), "truncated"},
        Case{WithField(member, 124, "9"), "malformed number"},
        Case{WithField(member, 124, std::string(12, '\xFF')), "impossible size"},
        Case{WithField(member, 124, std::string("\xBF") + std::string(11, '\xFF')), "impossible size"},
        Case{Extension('x', "99 path=a\n") + member, "malformed pax"},
        Case{Extension('x', "0 a=b\n") + member, "malformed pax"},
        Case{Extension('x', "11 size=-1\n") + member, "malformed size"},
        Case{Extension('L', "name"), "member is missing"},
        Case{Extension('L', std::string(2 << 20, 'a')) + member, "extension header of"}}) {
    EXPECT_ERROR(c.reason, Read(c.archive));
  }
  std::string many;
  for (int i = 0; i < 20; ++i) many += Extension('g', "");
  EXPECT_ERROR("too many", Read(many + member));
}

TEST(Tar, NamesOfMoreThan100BytesAreNotWritten) {
  EXPECT_NO_THROW(MakeTarMember(std::string(100, 'a'), ""));
  EXPECT_THROW(MakeTarMember(std::string(101, 'a'), ""), std::invalid_argument);
}

}  // namespace
}  // namespace dtrain::data
