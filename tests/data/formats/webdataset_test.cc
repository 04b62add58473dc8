#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats/tar.h"
#include "tests/data/formats/record_bytes.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
        Case{MakeTarMember("k.jpg", "x") + MakeTarMember("k.png", "y"), "two members .png"}}) {
    EXPECT_THAT(MessageAndHint([&] { ReadAll(kWebDataset, c.archive); }), HasSubstr(c.reason));
  }
}

TEST(WebDataset, DamageCostsItsOwnSampleOnly) {
  const std::string first = Sample("1", "first", "1"), second = Sample("2", "second", "2");
  std::string archive = first + second + Sample("3", "third", "3");
  archive[first.size()] = 'x';  // the header of 2.jpg
  const MemoryBytes bytes(AsBytes(archive));
  EXPECT_EQ(kWebDataset.Scan(bytes, 0)->end, first.size()) << "the sample before is complete";
  EXPECT_THROW(kWebDataset.Scan(bytes, first.size()), DamagedRecord);
  EXPECT_EQ(kWebDataset.FindRecord(bytes, first.size() + 1), (first + second).size()) << "2.cls alone is no sample";
}

}  // namespace
}  // namespace dtrain::data
