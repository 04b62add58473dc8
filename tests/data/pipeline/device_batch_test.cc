// Compares batches whose images a device decodes with those of the CPU: same samples, same crops, same bad records, and
// equal pixels up to rounding. The device is simulated on the CPU by a class that runs the threads of the real kernel
// and refuses the images that a test names.
#include "data/pipeline/device_batch.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <opencv2/core.hpp>
#include <string>
#include <thread>

#include "data/error.h"
#include "data/image/decode.h"
#include "data/image/image_decoder.h"
#include "data/kernels/resize_crops.h"
#include "data/pipeline/device_feed.h"
#include "tests/data/files_in_memory.h"
#include "tests/data/image/encode.h"

namespace dtrain::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsNull;
using testing::SizeIs;

constexpr int64_t kImageSide = 48, kRowsOfBatch = 8, kAllBatches = 6;

// Returns photographs, every fifth of a kind that the device does not decode.
FilesInMemory Photographs() {
  std::vector<std::vector<uint8_t>> files;
  for (int i = 0; i < 20; ++i) {
    const cv::Mat picture = TestPicture(90 + 17 * i, 200 - 5 * i);
    JpegOptions options{.subsample = i % 2 == 0, .progressive = i % 5 == 4, .restart_rows = i % 3};
    files.push_back(EncodeJpeg(picture, options));
  }
  cv::Mat grey(70, 90, CV_8UC1, cv::Scalar(99));
  files[1] = EncodeJpeg(grey);
  return FilesInMemory(std::move(files));
}

struct StandIn : DeviceImageDecoder {
  std::function<bool(const DeferredRow&)> refuses = [](const DeferredRow&) { return false; };
  std::atomic<int> calls = 0;

  std::vector<size_t> Decode(std::span<const DeferredRow> rows, const at::Tensor& images) override {
    ++calls;
    std::vector<size_t> failed;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (refuses(rows[i])) {
        failed.push_back(i);
        continue;
      }
      const auto& [box, flip] = std::any_cast<const ImageGeometry&>(rows[i].work);
      const cv::Mat crop = DecodeImage(rows[i].bytes)(cv::Rect(box.x, box.y, box.width, box.height)).clone();
      const kernels::Crop resized{crop.data, crop.cols, crop.rows, flip,
                                  images.select(0, rows[i].row).mutable_data_ptr<uint8_t>()};
      const kernels::ResizeArguments arguments{&resized, 1, static_cast<int32_t>(images.size(1)), false};
      for (int64_t thread = 0; thread < arguments.pixels(); ++thread) kernels::ResizePixel(arguments, thread);
    }
    return failed;
  }
};

struct ToStandIn : BatchTransport {
  explicit ToStandIn(StandIn& stand_in) : device(stand_in) {}
  Batch Start(Batch host) override { return CopyToDevice(std::move(host), at::kCPU, &device); }
  void Arrive(const Batch& /*batch*/) override { while_arriving(); }
  StandIn& device;
  std::function<void()> while_arriving = [] {};
};

BatchProvider SamplesInOrder(const RecordSource& source, int64_t first = 0) {
  return [&source, first](int64_t number) -> std::optional<std::vector<SampleRef>> {
    if (number >= first + kAllBatches) return std::nullopt;
    std::vector<SampleRef> samples;
    for (int64_t row = 0; row < kRowsOfBatch; ++row) {
      const int64_t sample = number * kRowsOfBatch + row;
      samples.push_back({.index = sample % source.size(), .epoch = sample / source.size()});
    }
    return samples;
  };
}

ImageDecoderOptions DecoderOptions(bool defer) {
  return {.image_size = kImageSide, .augment = Augment::kBasic, .seed = 3, .defer = defer};
}

struct LoadedRun {
  std::vector<Batch> batches;
  std::map<int64_t, std::string> bad;  // index → reason
  int64_t decoded_on_device = 0;
};

// If `device` is null, everything is decoded on the CPU.
LoadedRun AllBatches(const RecordSource& source, const SampleDecoder& decoder, StandIn* device,
                     LoaderOptions options = {}) {
  LoadedRun run;
  Quarantine quarantine(source.size(), {.max_bad_records = 1, .on_bad_record = [&run](const BadRecord& bad) {
                                          run.bad[bad.index] = bad.reason;
                                        }});
  Loader loader(source, decoder, SamplesInOrder(source, options.first_batch), options, &quarantine);
  DeviceFeed feed(loader, device ? std::make_unique<ToStandIn>(*device) : nullptr);
  while (auto batch = feed.Next()) {
    EXPECT_THAT(batch->deferred, IsNull());
    run.decoded_on_device += batch->decoded_on_device;
    run.batches.push_back(std::move(*batch));
  }
  return run;
}

void ExpectSameSamples(const LoadedRun& wanted, const LoadedRun& run) {
  ASSERT_EQ(wanted.batches.size(), run.batches.size());
  EXPECT_EQ(wanted.bad, run.bad);
  for (size_t i = 0; i < wanted.batches.size(); ++i) {
    EXPECT_EQ(wanted.batches[i].number, run.batches[i].number);
    for (const char* name : {"index", "labels", "crop", "flip"}) {
      EXPECT_TRUE(at::equal(wanted.batches[i][name], run.batches[i][name])) << name << " of batch " << i;
    }
  }
}

double LargestMeanDifference(const LoadedRun& wanted, const LoadedRun& run) {
  double largest = 0;
  for (size_t i = 0; i < wanted.batches.size(); ++i) {
    const at::Tensor difference = wanted.batches[i]["images"].to(at::kFloat) - run.batches[i]["images"].to(at::kFloat);
    largest = std::max(largest, difference.abs().mean({1, 2, 3}).max().item<double>());
  }
  return largest;
}

TEST(DeviceBatch, HasTheSamplesAndCropsOfTheCpuAndItsPixelsWithinRounding) {
  const FilesInMemory source = Photographs();
  const LoadedRun wanted = AllBatches(source, ImageDecoder(DecoderOptions(false)), nullptr);
  EXPECT_EQ(wanted.decoded_on_device, 0);
  for (const int64_t threads : {1, 4}) {
    StandIn device;
    const LoadedRun run = AllBatches(source, ImageDecoder(DecoderOptions(true)), &device, {.decode_threads = threads});
    ExpectSameSamples(wanted, run);
    EXPECT_LE(LargestMeanDifference(wanted, run), 2);
    EXPECT_GT(LargestMeanDifference(wanted, run), 0);  // the CPU did not decode them
    EXPECT_EQ(device.calls, kAllBatches);
    int64_t not_for_it = 0;
    for (int64_t sample = 0; sample < kRowsOfBatch * kAllBatches; ++sample) not_for_it += sample % 5 == 4;
    EXPECT_EQ(run.decoded_on_device, kRowsOfBatch * kAllBatches - not_for_it);
  }
}

TEST(DeviceBatch, WhatTheDeviceRefusesTheCpuDecodes) {
  const FilesInMemory source = Photographs();
  const LoadedRun wanted = AllBatches(source, ImageDecoder(DecoderOptions(false)), nullptr);
  StandIn refuses_all;
  refuses_all.refuses = [](const DeferredRow&) { return true; };
  const LoadedRun none = AllBatches(source, ImageDecoder(DecoderOptions(true)), &refuses_all);
  ExpectSameSamples(wanted, none);
  EXPECT_EQ(LargestMeanDifference(wanted, none), 0);
  EXPECT_EQ(none.decoded_on_device, 0);

  StandIn refuses_some;
  refuses_some.refuses = [](const DeferredRow& image) { return image.row % 3 == 1; };
  const LoadedRun some = AllBatches(source, ImageDecoder(DecoderOptions(true)), &refuses_some);
  ExpectSameSamples(wanted, some);
  EXPECT_LE(LargestMeanDifference(wanted, some), 2);
  for (size_t i = 0; i < wanted.batches.size(); ++i) {
    for (const int64_t row : {1, 4, 7}) {
      EXPECT_TRUE(at::equal(wanted.batches[i]["images"][row], some.batches[i]["images"][row])) << i << " " << row;
    }
  }
}

TEST(DeviceBatch, BadRecordsAreNotedAndReplacedAsOnTheCpu) {
  std::vector<std::vector<uint8_t>> files;
  for (int i = 0; i < 20; ++i) files.push_back(EncodeJpeg(TestPicture(100, 80 + i)));
  files[2].resize(files[2].size() / 2);                       // truncated
  files[5] = {'t', 'e', 'x', 't'};                            // not an image
  files[9].clear();                                           // empty
  files[11][3] = 0xC3;                                        // an invalid marker
  const std::vector<uint8_t> frame = {0xFF, 0xC0, 0, 17, 8};  // height and width follow
  const auto at = std::search(files[14].begin(), files[14].end(), frame.begin(), frame.end());
  ASSERT_NE(at, files[14].end());
  for (int i = 5; i < 9; ++i) at[i] = 0xFD;  // 65,021² pixels
  const FilesInMemory source(files);
  const LoadedRun wanted = AllBatches(source, ImageDecoder(DecoderOptions(false)), nullptr);
  EXPECT_THAT(wanted.bad, SizeIs(5));
  for (const int64_t threads : {1, 3}) {
    StandIn device;
    const LoadedRun run = AllBatches(source, ImageDecoder(DecoderOptions(true)), &device, {.decode_threads = threads});
    ExpectSameSamples(wanted, run);
    EXPECT_LE(LargestMeanDifference(wanted, run), 2);
  }
}

// Refuses images on the CPU whose header is intact, as a damaged scan does.
struct DislikesWidth : ImageDecoder {
  DislikesWidth(bool defer, int disliked) : ImageDecoder(DecoderOptions(defer)), width(disliked) {}
  void Decode(std::span<const uint8_t> bytes, const SampleRef& sample,
              std::span<const std::span<std::byte>> rows) const override {
    if (ReadImageSize(bytes).width == width) throw DataError("a damaged scan");
    ImageDecoder::Decode(bytes, sample, rows);
  }
  int width;
};

TEST(DeviceBatch, AScanThatNobodyDecodesIsReplacedWithItsLabel) {
  const FilesInMemory source = Photographs();
  const int width = 90 + 17 * 7;
  const LoadedRun wanted = AllBatches(source, DislikesWidth(false, width), nullptr);
  EXPECT_THAT(wanted.bad, ElementsAre(std::pair<int64_t, std::string>(7, "a damaged scan")));
  StandIn device;
  device.refuses = [width](const DeferredRow& image) { return ReadImageSize(image.bytes).width == width; };
  const LoadedRun run = AllBatches(source, DislikesWidth(true, width), &device);
  ExpectSameSamples(wanted, run);
  EXPECT_LE(LargestMeanDifference(wanted, run), 2);
}

TEST(DeviceBatch, TheFirstBadRecordIsAnErrorWhereNoneIsAllowed) {
  const FilesInMemory source = Photographs();
  const DislikesWidth decoder(true, 90 + 17 * 7);
  StandIn device;
  device.refuses = [](const DeferredRow&) { return true; };
  Quarantine quarantine(source.size(), {.strict = true});
  Loader loader(source, decoder, SamplesInOrder(source), {}, &quarantine);
  DeviceFeed feed(loader, std::make_unique<ToStandIn>(device));
  EXPECT_THROW(while (feed.Next()){}, DataError);
}

TEST(DeviceBatch, ARunThatGoesOnInTheMiddleSeesTheSame) {
  const FilesInMemory source = Photographs();
  StandIn device;
  const LoadedRun first = AllBatches(source, ImageDecoder(DecoderOptions(true)), &device);
  const LoadedRun later = AllBatches(source, ImageDecoder(DecoderOptions(true)), &device, {.first_batch = 3});
  for (size_t i = 3; i < kAllBatches; ++i) {
    for (const char* name : {"images", "index", "labels", "crop", "flip"}) {
      EXPECT_TRUE(at::equal(first.batches[i][name], later.batches[i - 3][name])) << name << i;
    }
  }
}

// Copies have their own memory; tensors that no network reads are not copied.
TEST(DeviceBatch, OnlyWhatNetworksEatTravels) {
  Batch host;
  for (const char* name : {"images", "labels", "index", "crop", "flip"}) host.tensors[name] = at::ones({2});
  const Batch batch = CopyToDevice(host, at::kCPU, nullptr);
  EXPECT_EQ(batch.tensors.size(), host.tensors.size());
  for (const auto& [name, tensor] : batch.tensors) {
    const bool travels = name == "images" || name == "labels";
    EXPECT_EQ(tensor.const_data_ptr() != host[name].const_data_ptr(), travels) << name;
  }
}

TEST(DeviceBatch, EvaluationLeavesNothingToTheDevice) {
  const FilesInMemory source = Photographs();
  StandIn device;
  const LoadedRun run =
      AllBatches(source, ImageDecoder(DecoderOptions(true)), &device, {.bad_records = BadRecordPolicy::kLeaveOut});
  EXPECT_EQ(run.decoded_on_device, 0);
  EXPECT_EQ(device.calls, 0);
}

TEST(DeviceBatch, TheNextOneIsDecodedWhileTheCallerComputes) {
  const FilesInMemory source = Photographs();
  const ImageDecoder decoder(DecoderOptions(true));
  Loader loader(source, decoder, SamplesInOrder(source), {}, nullptr);
  std::promise<void> begun, computed;
  StandIn device;
  device.refuses = [&](const DeferredRow& image) {
    if (device.calls == 2 && image.row == 0) {
      begun.set_value();
      computed.get_future().wait();
    }
    return false;
  };
  auto transport = std::make_unique<ToStandIn>(device);
  transport->while_arriving = [&] {
    while (device.calls == 1 && !loader.IsReady()) std::this_thread::yield();
  };
  DeviceFeed feed(loader, std::move(transport));
  EXPECT_EQ(feed.Next()->number, 0);
  begun.get_future().wait();
  computed.set_value();
  EXPECT_EQ(feed.Next()->number, 1);
}

// Bytes that wait for a device count: above the limit no further batch is begun.
TEST(DeviceBatch, DeferredBytesHoldBackReadingAhead) {
  const FilesInMemory source = Photographs();
  const ImageDecoder decoder(DecoderOptions(true));
  std::atomic<int> begun = 0;
  const BatchProvider in_order = SamplesInOrder(source);
  const auto counting = [&](int64_t number) {
    ++begun;
    return in_order(number);
  };
  Loader loader(source, decoder, counting,
                {.decode_threads = 1, .read_threads = 1, .prefetch_batches = 5, .max_bytes_in_flight = 0}, nullptr);
  for (int taken = 0; taken < kAllBatches; ++taken) {
    while (!loader.IsReady()) std::this_thread::yield();
    EXPECT_EQ(begun, taken + 1);
    EXPECT_TRUE(loader.Next());
  }
  EXPECT_FALSE(loader.Next());
}

}  // namespace
}  // namespace dtrain::data
