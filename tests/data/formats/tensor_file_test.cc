#include "data/formats/tensor_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <numeric>
#include <set>

#include "data/error.h"
#include "data/formats/raw_rows.h"
#include "tests/data/safetensors_bytes.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;

// Returns a file with `images` of this dtype, shape and bytes, and int64 `labels`.
std::string FileBytes(const std::string& dtype, const std::string& shape, const std::string& images,
                      const std::vector<int64_t>& labels) {
  const size_t middle = images.size(), end = middle + 8 * labels.size();
  const std::string header = R"({"images":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
                             std::to_string(middle) + R"(]},"labels":{"dtype":"I64","shape":[)" +
                             std::to_string(labels.size()) + R"(],"data_offsets":[)" + std::to_string(middle) + "," +
                             std::to_string(end) + "]}}";
  return SafetensorsBytes(header, images + RawBytes<int64_t>(labels));
}

std::vector<uint8_t> Decoded(const TensorFile& file, int64_t index) {
  const std::vector<uint8_t> bytes = file.Read(index);
  std::vector<uint8_t> row(bytes.size());
  const std::span<std::byte> rows[] = {std::as_writable_bytes(std::span(row))};
  RawRowDecoder(file.rows()).Decode(bytes, {}, rows);
  return row;
}

std::string Counting(size_t size) {
  std::string bytes(size, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

TEST(TensorFile, PlanarAndInterleavedBytesBecomeInterleavedRows) {
  const TemporaryFolder folder;
  const TensorFile planar(folder.Write("p", FileBytes("U8", "[2,3,1,2]", Counting(12), {0, 1})));
  EXPECT_THAT(Decoded(planar, 1), ElementsAre(6, 8, 10, 7, 9, 11));
  const TensorFile interleaved(folder.Write("i", FileBytes("U8", "[2,1,2,3]", Counting(12), {0, 1})));
  EXPECT_THAT(Decoded(interleaved, 1), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(RawRowDecoder(planar.rows()).fields(0)[0].row_shape, (std::vector<int64_t>{1, 2, 3}));
}

TEST(TensorFile, FloatsAreUntouched) {
  const TemporaryFolder folder;
  const std::vector<float> values = {0, -1, 2.5F, 1e-30F, 4, 5, 6, 7, 8, 9, 10, 11};
  const TensorFile file(folder.Write("f", FileBytes("F32", "[2,3,1,2]", RawBytes<float>(values), {3, 0})), 0);
  EXPECT_EQ(Decoded(file, 0).size(), 24U);
  const auto row = Decoded(file, 0);
  EXPECT_EQ(std::string(row.begin(), row.end()), RawBytes<float>(std::span(values).first(6)));
  EXPECT_EQ(file.num_classes(), 4);
  EXPECT_EQ(file.Label(0), 3);
}

// Labels with gaps, as those of a few samples of a larger set, are not shifted.
TEST(TensorFile, LabelsFromOneAreShifted) {
  struct Case {
    std::vector<int64_t> labels, wanted;
    std::optional<int64_t> offset;
  };
  const TemporaryFolder folder;
  for (const Case& c : {Case{{1, 2, 3}, {0, 1, 2}, {}}, Case{{0, 1, 2}, {0, 1, 2}, {}}, Case{{0, 2, 2}, {0, 2, 2}, {}},
                        Case{{1, 3, 3}, {1, 3, 3}, {}}, Case{{4, 2, 3}, {4, 2, 3}, {}}, Case{{1, 3, 3}, {1, 3, 3}, 0},
                        Case{{0, 3, 3}, {0, 3, 3}, 0}, Case{{1, 2, 3}, {1, 2, 3}, 0}, Case{{1, 3, 3}, {0, 2, 2}, 1}}) {
    const TensorFile file(folder.Write("f", FileBytes("U8", "[3,3,1,1]", Counting(9), c.labels)), c.offset);
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < file.size(); ++i) labels.push_back(file.Label(i));
    EXPECT_EQ(labels, c.wanted);
  }
}

TEST(TensorFile, TakesTheClassesThatAreKnown) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("f", FileBytes("U8", "[3,3,1,1]", Counting(9), {1, 2, 3}));
  const TensorFile file(path, std::nullopt, {.names = {"a", "b", "c", "d", "e"}, .count = 5, .label_offset = 0});
  EXPECT_EQ(file.Label(0), 1);
  EXPECT_EQ(file.classes(), (Classes{.names = {"a", "b", "c", "d", "e"}, .count = 5, .label_offset = 0}));
  EXPECT_THROW(TensorFile(path, std::nullopt, {.count = 3, .label_offset = 0}), DataError);
}

TEST(TensorFile, RefusesWhatItCannotServe) {
  struct Case {
    std::string bytes;
    const char* reason;
  };
  const TemporaryFolder folder;
  for (const Case& c : {
           Case{FileBytes("U8", "[1,3,1,1]", Counting(3), {-1}), "label -1"},
           Case{FileBytes("U8", "[1,3,1,1]", Counting(3), {INT64_MAX}), "is not a class"},
           Case{FileBytes("U8", "[1,3,1,1]", Counting(3), {0, 1}), "beside 1 images"},
           Case{FileBytes("U8", "[1,1,1,3,1]", Counting(3), {0}), "U8 (1, 1, 1, 3, 1)"},
           Case{FileBytes("U8", "[1,1,3]", Counting(3), {0}), "`images` is"},
           Case{FileBytes("I8", "[1,3,1,1]", Counting(3), {0}), "`images` is I8"},
           Case{FileBytes("F32", "[1,1,1,3]", Counting(12), {0}), "`images` is F32"},
           Case{FileBytes("U8", "[0,3,1,1]", "", {}), "`images` is"},
           Case{SafetensorsBytes("{}", ""), "no tensor `images`"},
       }) {
    EXPECT_ERROR(c.reason, TensorFile(folder.Write("f", c.bytes)));
  }
}

TEST(FindTensorFile, AFileHasNoValidationSplit) {
  const TemporaryFolder folder;
  const std::string train = folder.Write("train.safetensors", "x"), valid = folder.Write("valid.safetensors", "x");
  EXPECT_EQ(FindTensorFile(folder.path(), "train"), train);
  EXPECT_EQ(FindTensorFile(folder.path(), "val"), valid);
  EXPECT_EQ(FindTensorFile(folder.path(), "test"), std::nullopt);
  EXPECT_EQ(FindTensorFile(train, "train"), train);
  EXPECT_EQ(FindTensorFile(train, "val"), std::nullopt);
  EXPECT_THROW(RequireTensorFile(train, "val"), DataError);
  EXPECT_THROW(RequireTensorFile(folder.path("none"), "train"), DataError);
}

TEST(RawRowDecoder, RefusesRecordsOfAnotherSize) {
  std::vector<uint8_t> row(12);
  const std::span<std::byte> rows[] = {std::as_writable_bytes(std::span(row))};
  const RawRowDecoder decoder({.type = ElementType::kUInt8, .height = 2, .width = 2});
  EXPECT_THROW(decoder.Decode(std::vector<uint8_t>(11), {}, rows), DataError);
  EXPECT_THROW(RawRowDecoder({.type = ElementType::kFloat32, .height = 2, .width = 2}), DataError);
}

TEST(Synthetic, IsTheSameForTheSameArguments) {
  const Synthetic one(100, 10, 4, 6), same(100, 10, 4, 6), other(100, 10, 4, 6, 1);
  std::set<int64_t> labels;
  for (int64_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one.Read(i), same.Read(i));
    EXPECT_EQ(one.Label(i), same.Label(i));
    EXPECT_EQ(one.Read(i).size(), 4U * 6U * 3U);
    labels.insert(one.Label(i));
  }
  EXPECT_EQ(labels.size(), 10U);
  EXPECT_NE(one.Read(0), other.Read(0));
  EXPECT_EQ(one.fingerprint(), same.fingerprint());
  EXPECT_NE(one.fingerprint(), other.fingerprint());
  EXPECT_EQ(one.num_classes(), 10);
}

TEST(Synthetic, RefusesNothing) {
  EXPECT_THROW(Synthetic(0, 10, 4, 4), DataError);
  EXPECT_THROW(Synthetic(10, 0, 4, 4), DataError);
}

}  // namespace
}  // namespace dtrain::data
