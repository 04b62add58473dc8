#include "data/formats/torch_file.h"

#include <gmock/gmock.h>

#include "tests/data/torch_bytes.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace dtrain::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kStorage = PickledStorageOf("FloatStorage", "0", 4);
const std::string kTensor = PickledTensorOf(kStorage, 0, {2, 2}, {2, 1});

std::string MessageOfFile(const std::string& content) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("weights.pth", content);
  return MessageOf([&] { TorchFile(path, WeightSet::kRaw); });
}

std::string MessageOfPickle(const std::string& value) { return MessageOfFile(TorchArchive(value)); }

TEST(TorchFile, ReadsADictOfTensors) {
  const TemporaryFolder folder;
  const std::string view = PickledTensorOf(kStorage, 1, {3}, {1});
  const std::string path =
      folder.Write("a.pth", TorchArchive(PickledDict({{"w", kTensor}, {"n", PickledInt(7)}, {"v", view}}),
                                         std::string("\0\0\x80?\0\0\0@\0\0@@\0\0\x80@", 16)));
  EXPECT_TRUE(TorchFile::Recognises(path));
  const TorchFile file(path, WeightSet::kRaw);
  ASSERT_EQ(file.tensors().size(), 2);
  EXPECT_EQ(file.tensors()[0].name, "w");
  EXPECT_THAT(file.tensors()[0].view.shape, ElementsAre(2, 2));
  EXPECT_EQ(file.tensors()[1].view.offset, 1);
  ASSERT_EQ(file.storages().size(), 1);
  EXPECT_EQ(file.storages()[0].dtype, "F32");
  float values[4] = {};
  file.Read(0, values);
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
}

TEST(TorchFile, ReadsAFileFromBeforeArchives) {
  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  const std::string version = WholePickle(PickledInt(1001));
  const auto machine = [](bool little) {
    return WholePickle(PickledDict({{"little_endian", little ? "\x88" : "\x89"}}));
  };
  const std::string weights = WholePickle(PickledDict({{"w", kTensor}}));
  const std::string keys = WholePickle("](" + PickledText("0") + "e");
  const std::string storage = LittleEndianBytes<int64_t>(4) + std::string(16, '\2');
  const std::string head = magic + version + machine(true) + weights + keys;

  const TemporaryFolder folder;
  const std::string path = folder.Write("a.pth", head + storage);
  EXPECT_TRUE(TorchFile::Recognises(path));
  const TorchFile file(path, WeightSet::kRaw);
  std::string bytes(16, '\0');
  file.Read(0, bytes.data());
  EXPECT_EQ(bytes, std::string(16, '\2'));

  EXPECT_THAT(MessageOfFile(head + storage.substr(0, 20)), HasSubstr("storage 0 is incomplete"));
  EXPECT_THAT(MessageOfFile(head + storage.substr(0, 4)), HasSubstr("storage 0 is missing"));
  EXPECT_THAT(MessageOfFile(magic + version + machine(true) + weights + WholePickle("]")),
              HasSubstr("storages of it are missing"));
  EXPECT_THAT(MessageOfFile(magic + version + machine(false) + weights + keys + storage), HasSubstr("big-endian"));
  EXPECT_THAT(MessageOfFile(magic + WholePickle(PickledInt(1000))), HasSubstr("version"));
  EXPECT_THAT(MessageOfFile(magic + version + machine(true) + weights + WholePickle("N")), HasSubstr("the list of"));
  EXPECT_THAT(MessageOfFile(magic + version + machine(true) + weights + WholePickle("](" + PickledText("1") + "e")),
              HasSubstr("that its pickle does not mention"));
  EXPECT_THAT(MessageOfFile(weights), HasSubstr("not one of torch.save"));
}

TEST(TorchFile, TakesTheWeightsThatWereAskedFor) {
  const TemporaryFolder folder;
  const std::string dict = PickledDict({{"w", kTensor}}), nothing = PickledDict({{"lr", PickledInt(1)}});
  const auto taken = [&](const std::string& value, WeightSet preferred) {
    const TorchFile file(folder.Write("a.pth", TorchArchive(value)), preferred);
    std::string others;
    for (const std::string& other : file.not_taken()) others += "|" + other;
    return file.taken() + others;
  };
  const std::string both =
      PickledDict({{"epoch", PickledInt(3)}, {"model_ema", dict}, {"optimizer", nothing}, {"model", dict}});
  EXPECT_EQ(taken(both, WeightSet::kRaw), "model|model_ema");
  EXPECT_EQ(taken(both, WeightSet::kAverage), "model_ema|model");
  EXPECT_EQ(taken(PickledDict({{"state_dict_ema", dict}}), WeightSet::kRaw), "state_dict_ema");
  EXPECT_EQ(taken(PickledDict({{"state_dict", dict}}), WeightSet::kAverage), "state_dict");
  EXPECT_EQ(taken(PickledDict({{"generator", dict}}), WeightSet::kRaw), "generator");
  EXPECT_EQ(taken(dict, WeightSet::kAverage), "");
  EXPECT_THAT(MessageOfPickle(PickledDict({{"b", dict}, {"a", dict}})), HasSubstr("it holds several: a, b"));
  EXPECT_THAT(MessageOfPickle(nothing), HasSubstr("it holds no dict of tensors"));
  EXPECT_THAT(MessageOfPickle(kTensor), HasSubstr("it holds no dict of tensors"));
  EXPECT_THAT(MessageOfPickle(PickledDict({{"w", kTensor}, {"w", kTensor}})), HasSubstr("w is there twice"));
  EXPECT_THAT(MessageOfPickle("}" + PickledInt(1) + kTensor + "s"), HasSubstr("a tensor has no name"));
}

TEST(TorchFile, RunsNothing) {
  for (const auto& [module, name] : {std::pair{"posix", "system"}, {"builtins", "eval"}, {"os\x1b[2J", "x"}}) {
    const std::string message =
        MessageOfPickle(PickledDict({{"w", PickledCall(PickledName(module, name), {PickledText("id")})}}));
    EXPECT_THAT(message,
                AllOf(HasSubstr("asks for " + std::string(module).substr(0, 2)), HasSubstr("." + std::string(name)),
                      HasSubstr("is code"), testing::Not(HasSubstr("\x1b"))));
  }
  EXPECT_THAT(MessageOfPickle(PickledText("os") + PickledText("system") + "\x93"), HasSubstr("asks for os.system"));
  EXPECT_THAT(MessageOfPickle(PickledCall(PickledName("torchvision.models.resnet", "ResNet"), {})),
              HasSubstr("torchvision.models.resnet.ResNet"));
}

TEST(TorchFile, ArgumentsOfAProgramAreNoWeights) {
  const std::string arguments = PickledName("argparse", "Namespace") + ")\x81" + PickledDict({{"lr", "N"}}) + "b";
  EXPECT_EQ(MessageOfPickle(PickledDict({{"args", arguments}, {"model", PickledDict({{"w", kTensor}})}})), "");
}

TEST(TorchFile, RefusesWhatIsNoPickleOfWeights) {
  const auto tensor = [](int32_t offset, const std::vector<int32_t>& shape, const std::vector<int32_t>& strides) {
    return PickledDict({{"w", PickledTensorOf(kStorage, offset, shape, strides)}});
  };
  const std::string other = PickledStorageOf("HalfStorage", "0", 4);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {tensor(1, {2, 2}, {2, 1}), "a tensor leaves its storage"},
      {tensor(0, {2, 2}, {INT32_MAX, INT32_MAX}), "a tensor leaves its storage"},
      {tensor(-1, {1}, {1}), "not described as torch.save does"},
      {tensor(0, {1}, {-1}), "below 0"},
      {tensor(0, {-1}, {1}), "below 0"},
      {tensor(0, {1, 1}, {1}), "more or fewer strides"},
      {tensor(0, {INT32_MAX, INT32_MAX, INT32_MAX}, {0, 0, 0}), "leaves its storage"},
      {tensor(0, {100, 4}, {0, 1}), "repeats its elements"},
      {tensor(0, std::vector<int32_t>(65, 1), std::vector<int32_t>(65, 1)), "65 dimensions"},
      {PickledDict({{"w", kTensor}, {"v", PickledTensorOf(other, 0, {1}, {1})}}), "described in two ways"},
      {PickledDict({{"w", PickledTensorOf(PickledStorageOf("Size", "0", 4), 0, {1}, {1})}}),
       "torch.Size is not a storage type"},
      {PickledTuple({PickledText("storage"), PickledName("collections", "Counter"), PickledText("0"),
                     PickledText("cpu"), PickledInt(4)}) +
           "Q",
       "collections.Counter is not a storage type"},
      {PickledInt(1) + "Q", "a storage without a key"},
      {PickledTuple({PickledText("module"), "N", "N"}) + "Q", "not described as torch.save does"},
      {PickledTuple({PickledText("storage"), PickledName("torch", "FloatStorage"), PickledText("0"), PickledText("cpu"),
                     PickledInt(4), PickledTuple({})}) +
           "Q",
       "PyTorch before 0.4"},
      {PickledCall(PickledName("torch", "Size"), {}), "with wrong arguments"},
      {PickledCall(PickledInt(1), {}), "calls something that is not a function"},
      {PickledCall(PickledName("collections", "OrderedDict"), {PickledInts({1})}), "does not consist of pairs"},
      {"", "finds no value"},
      {"(", "finds no value"},
      {"t", "finds no mark"},
      {"h\7", "reads a memo entry that was never written"},
      {"}" + PickledInts({1}) + "a", "adds items that do not fit"},
      {"}(" + PickledInt(1) + "u", "adds items that do not fit"},
      {"\x80\x09", "protocol is 9"},
      {"X\xff\xff\xff\xff", "ends too early"},
      {"cos", "ends too early"},
      {"i", "instruction 0x69"},
  };
  for (const auto& [value, message] : cases) EXPECT_THAT(MessageOfPickle(value), HasSubstr(message));
}

TEST(TorchFile, APickleOfManySmallInstructionsIsBounded) {
  std::string bomb = "(NNNNNNNNNNNNNNNNl";  // doubled in each iteration
  for (int i = 0; i < 40; ++i) bomb += "q\1h\1h\1\x86";
  EXPECT_THAT(MessageOfPickle(bomb), HasSubstr("it holds no dict of tensors"));
  EXPECT_THAT(MessageOfPickle(std::string(5'000'000, 'N')), HasSubstr("too many values"));
  // The arguments of a tensor of 64 dimensions, and its function, are written once and called with again and again:
  // five bytes each time, for a kilobyte of sizes and strides.
  const std::vector<int32_t> ones(64, 1);
  std::string tensors = "(" + PickledName("torch._utils", "_rebuild_tensor_v2") + "q\1" +
                        PickledTuple({kStorage, PickledInt(0), PickledInts(ones), PickledInts(ones)}) + "q\2";
  for (int i = 0; i < 40'000; ++i) tensors += "h\1h\2R";
  EXPECT_THAT(MessageOfPickle(tensors + "t"), HasSubstr("too many values"));
}

TEST(TorchFile, RefusesDamagedArchives) {
  const std::string pickle = WholePickle(PickledDict({{"w", kTensor}}));
  const ArchiveMember weights = {"x/data.pkl", pickle}, storage = {"x/data/0", std::string(16, '\1')};
  const auto with = [](ArchiveMember member, auto change) {
    change(member);
    return member;
  };
  const std::string good = StoredArchive({weights, storage});
  EXPECT_EQ(MessageOfFile(good), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good.substr(0, good.size() - 1), "its end record is missing"},
      {"PK\x03\x04", "it has only 4 bytes"},
      {good.substr(0, 40) + good.substr(41), "a damaged directory"},
      {StoredArchive({with(weights, [](auto& m) { m.method = 8; }), storage}), "'x/data.pkl' in it is compressed"},
      {StoredArchive({weights, storage}, /*entries=*/2), "'x/data.pkl' is there twice"},
      {StoredArchive({storage}), "no data.pkl"},
      {StoredArchive({weights}), "the storage 0 is missing"},
      {StoredArchive({weights, {"x/data/0", std::string(15, '\1')}}), "the storage 0 has 15 bytes"},
      {StoredArchive({weights, storage, {"x/byteorder", "big"}}), "big-endian"},
      {StoredArchive({weights, storage, {"x/constants.pkl", ""}}), "TorchScript"},
      {StoredArchive({with(weights, [](auto& m) { m.has_wrong_sum = true; }), storage}),
       "checksum of its pickle is wrong"},
  };
  for (const auto& [content, message] : cases) EXPECT_THAT(MessageOfFile(content), HasSubstr(message));
}

TEST(TorchFile, ChecksTheSumOfATensor) {
  const TemporaryFolder folder;
  const std::string path =
      folder.Write("a.pth", StoredArchive({{"x/data.pkl", WholePickle(PickledDict({{"w", kTensor}}))},
                                           {"x/data/0", std::string(16, '\1'), /*method=*/0, /*has_wrong_sum=*/true}}));
  const TorchFile file(path, WeightSet::kRaw);
  std::string bytes(16, '\0');
  EXPECT_ERROR("the checksum of a tensor is wrong", file.Read(0, bytes.data()));
}

TEST(TorchFile, MembersThatOverlapAreRefused) {
  std::string archive = StoredArchive({{"x/data.pkl", WholePickle("N")}, {"x/data/0", std::string(400, '\1')}});
  // The directory says that the second member begins where the first does.
  const size_t second = archive.rfind("PK\x01\x02");
  archive.replace(second + 42, 4, std::string(4, '\0'));
  EXPECT_THAT(MessageOfFile(archive), HasSubstr("members of it overlap"));
}

TEST(TorchFile, RecognisesNothingElse) {
  const TemporaryFolder folder;
  EXPECT_FALSE(TorchFile::Recognises(folder.path("missing")));
  EXPECT_FALSE(TorchFile::Recognises(folder.Write("empty", "")));
  const std::string safetensors = std::string("\x80\x02\0\0\0\0\0\0", 8) + "{" + std::string(640, ' ');
  EXPECT_FALSE(TorchFile::Recognises(folder.Write("weights.safetensors", safetensors)));
}

}  // namespace
}  // namespace dtrain::data
