#include "data/formats/safetensors_file.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "data/error.h"
#include "tests/data/safetensors_bytes.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

TEST(SafetensorsFile, ReadsTensorsAndMetadata) {
  const TemporaryFolder folder;
  const SafetensorsFile file(
      folder.Write("f", SafetensorsBytes(R"({"__metadata__":{"format":"pt"},)"
                                         R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                         R"("e":{"dtype":"I64","shape":[0,3],"data_offsets":[4,4]}}  )",
                                         "abcdef")));
  EXPECT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const SafetensorsEntry& b = file.tensors().at("b");
  EXPECT_EQ(b.dtype, "U8");
  EXPECT_EQ(b.shape, std::vector<int64_t>{2});
  std::string text(2, ' ');
  file.Read(b.begin, b.bytes(), text.data());
  EXPECT_EQ(text, "ef");
  EXPECT_THROW(file.Read(5, 2, text.data()), DataError);
  EXPECT_THROW(file.Read(UINT64_MAX, 2, text.data()), DataError);
  EXPECT_THROW(file.Read(1, UINT64_MAX, text.data()), DataError);
  std::filesystem::resize_file(file.path(), file.data_offset() + 5);
  EXPECT_THROW(file.Read(b.begin, b.bytes(), text.data()), DataError);
}

TEST(SafetensorsFile, AnEmptyOneIsValid) {
  const TemporaryFolder folder;
  EXPECT_TRUE(SafetensorsFile(folder.Write("f", SafetensorsBytes("{}", ""))).tensors().empty());
}

struct BadCase {
  const char* name;
  std::string bytes;
  const char* reason;
};

std::string OneTensor(const std::string& fields, const std::string& data = "abcd") {
  return SafetensorsBytes("{\"a\":{" + fields + "}}", data);
}

std::vector<BadCase> BadCases() {
  std::string bomb;
  for (int i = 0; i < 100'000; ++i) bomb += "{\"a\":";
  const std::string other = R"("b":{"dtype":"U8","shape":[2],"data_offsets":[)";
  const std::string first = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)";
  return {
      {"short", "1234567", "only 7 bytes"},
      {"text", "this is just some text", "is a text, not a safetensors file"},
      {"header beyond the file", SafetensorsBytes("{}", "").substr(0, 9), "in a file of 9"},
      {"header of 2^63", std::string("\0\0\0\0\0\0\0\x80{}", 10), "a header of 9223372036854775808"},
      {"no header", SafetensorsBytes("", ""), "not a JSON object"},
      {"array", SafetensorsBytes("[]", ""), "not a JSON object"},
      {"cut JSON", SafetensorsBytes("{\"a\":", ""), "not JSON"},
      {"not UTF-8", SafetensorsBytes("{\"\xff\":1}", ""), "not JSON"},
      {"depth bomb", SafetensorsBytes("{\"a\":" + std::string(1'000'000, '['), ""), "unexpected array"},
      {"object bomb", SafetensorsBytes(bomb, ""), "unknown field"},
      {"two values", SafetensorsBytes("{}{}", ""), "not JSON"},
      {"a number for a tensor", SafetensorsBytes("{\"a\":1}", ""), "unexpected number"},
      {"metadata of numbers", SafetensorsBytes("{\"__metadata__\":{\"a\":1}}", ""), "unexpected number"},
      {"no offsets", OneTensor(R"("dtype":"U8","shape":[4])"), "lacks"},
      {"one offset", OneTensor(R"("dtype":"U8","shape":[4],"data_offsets":[0])"), "lacks"},
      {"three offsets", OneTensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])"), "unexpected number"},
      {"unknown dtype", OneTensor(R"("dtype":"U7","shape":[4],"data_offsets":[0,4])"), "unknown dtype"},
      {"unknown field", OneTensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1)"), "unknown field"},
      {"field twice", OneTensor(R"("dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4])"), "twice"},
      {"negative shape", OneTensor(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])"), "negative"},
      {"fraction", OneTensor(R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])"), "not a 64-bit integer"},
      {"beyond 64 bits", OneTensor(R"("dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,4])"), "64-bit"},
      {"shape overflows", OneTensor(R"("dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,4])"), "need"},
      {"wrong length", OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "need"},
      {"out of bounds", OneTensor(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"), "0 to 5 of 4"},
      {"backwards", OneTensor(R"("dtype":"U8","shape":[0],"data_offsets":[4,0])"), "4 to 0"},
      {"hole at the start", OneTensor(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"), "a gap"},
      {"hole at the end", OneTensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), "belong to no tensor"},
      {"overlap", SafetensorsBytes(first + other + "1,3]}}", "abc"), "overlaps"},
      {"hole between", SafetensorsBytes(first + other + "3,5]}}", "abcde"), "a gap"},
      {"name twice", SafetensorsBytes(first + R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", "abcd"),
       "twice"},
  };
}

TEST(SafetensorsFile, RefusesDamagedFilesWithTheReason) {
  const TemporaryFolder folder;
  for (const BadCase& c : BadCases()) {
    const std::string path = folder.Write("bad", c.bytes);
    const std::string message = MessageOf([&] { SafetensorsFile file(path); });
    EXPECT_THAT(message, HasSubstr(c.reason)) << c.name;
    EXPECT_THAT(message, HasSubstr(path)) << c.name;
  }
}

}  // namespace
}  // namespace dtrain::data
