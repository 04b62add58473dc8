// Compares JPEGs that the GPU decodes, crops, resizes and mirrors with the CPU's pixels, and tests what happens to
// those that it does not decode. Reports that it is skipped if there is no nvJPEG.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <opencv2/core.hpp>

#include "data/image/image_decoder.h"
#include "data/pipeline/device_feed.h"
#include "tests/data/files_in_memory.h"
#include "tests/data/image/encode.h"
#include "trainer/device/cuda_plugin.h"
#include "trainer/device/device.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kTolerance = 2;  // mean over an image, of 255

class GpuDecode : public testing::Test {
 protected:
  GpuDecode() : gpu_(distributed::DeviceOf(launch::Launch{}, "nccl")) {}
  std::unique_ptr<DeviceImageDecoder> Decoder(Interpolation interpolation = Interpolation::kBilinear) const {
    return std::move(distributed::LoadCudaPlugin().make_image_decoder(gpu_, interpolation).decoder);
  }
  void SetUp() override {
    const auto made = distributed::LoadCudaPlugin().make_image_decoder(gpu_, Interpolation::kBilinear);
    if (!made.decoder) GTEST_SKIP() << made.problem << ": " << made.hint;
  }
  const at::Device gpu_;
};

ImageDecoderOptions CropsOf(int64_t side, Interpolation interpolation, bool defer) {
  return {.image_size = side, .interpolation = interpolation, .augment = Augment::kBasic, .defer = defer};
}

struct Loaded {
  std::vector<Batch> batches;  // on the CPU
  std::map<int64_t, std::string> bad;
  int64_t on_device = 0;
};

// Loads two epochs in batches of `rows`.
Loaded LoadAll(const RecordSource& source, int64_t rows, const ImageDecoder& decoder, at::Device device,
               DeviceImageDecoder* on_device) {
  Loaded loaded;
  const auto provider = [&](int64_t number) -> std::optional<std::vector<SampleRef>> {
    std::vector<SampleRef> samples;
    for (int64_t i = number * rows; i < std::min((number + 1) * rows, 2 * source.size()); ++i) {
      samples.push_back({.index = i % source.size(), .epoch = i / source.size()});
    }
    return samples.empty() ? std::nullopt : std::optional(samples);
  };
  Quarantine quarantine(source.size(), {.max_bad_records = 1, .on_bad_record = [&loaded](const BadRecord& bad) {
                                          loaded.bad[bad.index] = bad.reason;
                                        }});
  Loader loader(source, decoder, provider, {.pin_memory = !device.is_cpu()}, &quarantine);
  DeviceFeed feed(loader, MakeTransport(device, on_device));
  while (auto batch = feed.Next()) {
    for (auto& [name, tensor] : batch->tensors) tensor = tensor.cpu();
    loaded.on_device += batch->decoded_on_device;
    loaded.batches.push_back(std::move(*batch));
  }
  return loaded;
}

void ExpectAlike(const Loaded& wanted, const Loaded& loaded) {
  ASSERT_EQ(wanted.batches.size(), loaded.batches.size());
  EXPECT_EQ(wanted.bad, loaded.bad);
  for (size_t i = 0; i < wanted.batches.size(); ++i) {
    for (const char* name : {"index", "labels", "crop", "flip"}) {
      EXPECT_TRUE(at::equal(wanted.batches[i][name], loaded.batches[i][name])) << name << " of batch " << i;
    }
    const at::Tensor difference =
        wanted.batches[i]["images"].to(at::kFloat) - loaded.batches[i]["images"].to(at::kFloat);
    const at::Tensor means = difference.abs().mean({1, 2, 3});
    for (int64_t row = 0; row < means.size(0); ++row) {
      EXPECT_LE(means[row].item<double>(), kTolerance)
          << "file " << wanted.batches[i]["index"][row].item<int64_t>() << ", batch " << i << ", row " << row;
    }
  }
}

// Every kind of file that the device decodes.
std::vector<std::vector<uint8_t>> PlainJpegs() {
  std::vector<std::vector<uint8_t>> files;
  for (const auto& [width, height] : {std::pair{500, 375}, {375, 500}, {640, 427}, {97, 101}, {1600, 1200}, {64, 48}}) {
    for (const bool subsample : {true, false}) {
      for (const int restart_rows : {0, 1}) {
        files.push_back(EncodeJpeg(TestPicture(width, height), {.subsample = subsample, .restart_rows = restart_rows}));
      }
    }
    cv::Mat red;
    cv::extractChannel(TestPicture(width, height), red, 0);
    files.push_back(EncodeJpeg(red));  // grey
  }
  return files;
}

TEST_F(GpuDecode, MakesTheCpusPixels) {
  const FilesInMemory source(PlainJpegs());
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    const auto decoder = Decoder(interpolation);
    for (const int64_t side : {224, 97}) {
      const Loaded wanted = LoadAll(source, 13, ImageDecoder(CropsOf(side, interpolation, false)), at::kCPU, nullptr);
      const Loaded loaded = LoadAll(source, 13, ImageDecoder(CropsOf(side, interpolation, true)), gpu_, decoder.get());
      ExpectAlike(wanted, loaded);
      EXPECT_EQ(loaded.on_device, 2 * source.size()) << "the CPU had to help";
    }
  }
}

TEST_F(GpuDecode, BadAndOddFilesAreTheCpus) {
  std::vector<std::vector<uint8_t>> files = PlainJpegs();
  const int64_t plain = static_cast<int64_t>(files.size());
  files.push_back(EncodeJpeg(TestPicture(300, 200), {.progressive = true}));
  files.push_back(EncodePng(3, 2, {std::vector<uint8_t>(9, 50), std::vector<uint8_t>(9, 200)}, {}));
  files.push_back(files[0]);
  files.back().resize(files.back().size() / 2);
  files.push_back({'t', 'e', 'x', 't'});
  files.push_back({});
  const FilesInMemory source(files);
  const auto decoder = Decoder();
  const Loaded wanted =
      LoadAll(source, 7, ImageDecoder(CropsOf(64, Interpolation::kBilinear, false)), at::kCPU, nullptr);
  const Loaded loaded =
      LoadAll(source, 7, ImageDecoder(CropsOf(64, Interpolation::kBilinear, true)), gpu_, decoder.get());
  EXPECT_EQ(wanted.bad.size(), 3U);
  ExpectAlike(wanted, loaded);
  EXPECT_EQ(loaded.on_device, 2 * plain);
}

// Passes files directly to the decoder, without the checks of headers that keep such files from it.
TEST_F(GpuDecode, TellsWhichOnesItCouldNotDecode) {
  const auto good = EncodeJpeg(TestPicture(200, 150));
  auto cut = good;
  cut.resize(300);
  std::vector<DeferredRow> deferred;
  for (int64_t row = 0; row < 6; ++row) {
    deferred.push_back({row,
                        row == 1   ? cut
                        : row == 4 ? std::vector<uint8_t>(500, 'x')
                                   : good,
                        ImageGeometry{{10, 20, 90, 80}}});
  }
  const auto decoder = Decoder();
  const at::Tensor images = at::zeros({6, 32, 32, 3}, at::TensorOptions(at::kByte).device(gpu_));
  EXPECT_THAT(decoder->Decode(deferred, images), ElementsAre(1, 4));
  for (const int64_t row : {2, 3, 5}) EXPECT_TRUE(at::equal(images[0], images[row])) << row;
  EXPECT_GT(images[0].to(at::kFloat).std().item<double>(), 1);
}

TEST_F(GpuDecode, BatchesOfAllSizesAndMoreThanFitsAtOnce) {
  const auto bytes = EncodeJpeg(TestPicture(2000, 1500));
  const auto decoder = Decoder();
  at::Tensor first;
  for (const int64_t rows : {3, 1, 80, 2}) {  // 9 MB per row
    std::vector<DeferredRow> deferred;
    for (int64_t row = 0; row < rows; ++row)
      deferred.push_back({row, bytes, ImageGeometry{{0, 0, 2000, 1500}, row % 2 == 1}});
    const at::Tensor images = at::zeros({rows, 64, 64, 3}, at::TensorOptions(at::kByte).device(gpu_));
    EXPECT_THAT(decoder->Decode(deferred, images), IsEmpty());
    if (!first.defined()) first = images[0].clone();
    for (int64_t row = 0; row < rows; ++row) {
      EXPECT_TRUE(at::equal(images[row], row % 2 == 1 ? first.flip(1) : first)) << row << " of " << rows;
    }
  }
}

}  // namespace
}  // namespace dtrain::data
