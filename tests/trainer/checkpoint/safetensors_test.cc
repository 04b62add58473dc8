#include "trainer/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "tests/temporary_folder.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

at::Tensor Find(const SafetensorsContent& content, const std::string& name) {
  for (const auto& [found, tensor] : content.tensors) {
    if (found == name) return tensor;
  }
  return {};
}

std::string HeaderOf(const std::string& bytes) {
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  return bytes.substr(8, size);
}

class SafetensorsTest : public ::testing::Test {
 protected:
  TemporaryFolder directory;
};

TEST_F(SafetensorsTest, BytesFollowTheReferenceImplementation) {
  const NamedTensors tensors = {{"b", at::arange(2, at::kByte)},
                                {"z", at::ones({1, 2}, at::kFloat)},
                                {"a", at::zeros({}, at::kFloat)},
                                {"n", at::full({1}, 7, at::kLong)}};
  WriteSafetensors(directory / "file", tensors, {{"format", "pt"}});
  const std::string bytes = ReadAll(directory / "file");
  // Widest dtype first, then by name: the header that the Python package's save_file writes for these tensors.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[8,12]},"z":{"dtype":"F32","shape":[1,2],"data_offsets":[12,20]},)"
      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[20,22]}})";
  EXPECT_EQ(HeaderOf(bytes).substr(0, header.size()), header);
  EXPECT_EQ(HeaderOf(bytes).size() % 8, 0u);
  EXPECT_EQ(HeaderOf(bytes).find_first_not_of(' ', header.size()), std::string::npos);
  EXPECT_EQ(bytes.size(), 8 + HeaderOf(bytes).size() + 22);
}

TEST_F(SafetensorsTest, EveryDtypeComesBackBitForBit) {
  NamedTensors tensors;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool}) {
    tensors.emplace_back(at::toString(type), at::arange(6).sub(2).to(type).reshape({2, 3}));
  }
  tensors.emplace_back("empty", at::empty({0, 4}));
  WriteSafetensors(directory / "file", tensors);
  const SafetensorsContent content = ReadSafetensors(directory / "file");
  ASSERT_EQ(content.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor found = Find(content, name);
    ASSERT_TRUE(found.defined()) << name;
    EXPECT_EQ(found.scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(at::equal(found, tensor)) << name;
  }
}

TEST_F(SafetensorsTest, StridesDoNotShow) {
  const at::Tensor plain = at::arange(2 * 3 * 4 * 5, at::kFloat).reshape({2, 3, 4, 5});
  const at::Tensor transposed = at::arange(6, at::kFloat).reshape({2, 3}).t();
  WriteSafetensors(directory / "a", {{"x", plain}, {"t", transposed.contiguous()}});
  WriteSafetensors(directory / "b", {{"t", transposed}, {"x", plain.contiguous(at::MemoryFormat::ChannelsLast)}});
  EXPECT_EQ(ReadAll(directory / "a"), ReadAll(directory / "b"));
}

TEST_F(SafetensorsTest, AChecksumFindsEveryByteOfATensorThatChanged) {
  for (const char* of_checkpoint : {"manifest.json", "state.json"}) directory.Write(of_checkpoint, "");
  const NamedTensors tensors = {{"b", at::arange(2, at::kByte)}, {"a", at::ones({2, 3}).t()}};
  WriteSafetensors(directory / "file", tensors, WithChecksum({{"step", "7"}}, tensors));
  EXPECT_EQ(ReadSafetensors(directory / "file").metadata.at("step"), "7");
  const std::string bytes = ReadAll(directory / "file");
  for (size_t place = bytes.size() - 26; place < bytes.size(); ++place) {
    std::string damaged = bytes;
    damaged[place] ^= 1;
    WriteAtomically(directory / "file", damaged);
    EXPECT_THROW(ReadSafetensors(directory / "file"), DataError) << place;
  }
}

TEST_F(SafetensorsTest, RefusesWhatAFileCannotHold) {
  const at::Tensor one = at::ones({1});
  EXPECT_THROW(WriteSafetensors(directory / "f", {{"x", one}, {"x", one}}), StorageError);
  EXPECT_THROW(WriteSafetensors(directory / "f", {{"__metadata__", one}}), StorageError);
  EXPECT_THROW(WriteSafetensors(directory / "f", {{"x", at::ones({1}, at::kComplexFloat)}}), StorageError);
  EXPECT_THROW(WriteSafetensors(directory / "f", {{"x", at::Tensor()}}), StorageError);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

// tests/data/formats/safetensors_file_test.cc has files that are damaged.
TEST_F(SafetensorsTest, WhatCannotBeReadIsAnError) {
  const std::string header = R"({"x":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})";
  const uint64_t size = header.size();
  WriteAll(directory / "f", std::string(reinterpret_cast<const char*>(&size), 8) + header + "abcd");
  EXPECT_THROW(ReadSafetensors(directory / "f"), DataError);
  EXPECT_THROW(ReadSafetensors(directory / "missing"), DataError);
}

}  // namespace
}  // namespace dtrain::checkpoint
