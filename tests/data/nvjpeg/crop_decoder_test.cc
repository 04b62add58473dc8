// Tests how the two ways of decoding share a batch, and how failures are treated. Substitutes for nvJPEG's functions
// "decode" a crop to the first byte of its file; gpu_test tests the real ones.
#include "data/nvjpeg/crop_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>

#include "tests/message_of.h"

namespace dtrain::data::nvjpeg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The state of the substitutes. Each object that nvJPEG makes is a Thing.
struct Thing {
  std::string kind;
  CropBox box;                           // set in parameters
  const unsigned char* bytes = nullptr;  // set by parsing
  nvjpegBackend_t backend = NVJPEG_BACKEND_DEFAULT;
};

struct Fake {
  bool has_engine = true, starts = true, engine_breaks = false;
  std::set<unsigned char> not_for_engine, not_for_gpu_huffman, broken_header, broken_scan;
  std::vector<std::string> calls;    // calls that decode or wait
  std::set<const void*> allocators;  // allocators with which objects were made
  std::set<Thing*> alive;
  Thing* parsed = nullptr;  // set by the host's phase for the device's
  CropBox box;
  size_t batch_size = 0;  // the size that the engine was told
};
Fake fake;

template <typename T>
Thing* Of(T handle) {
  return reinterpret_cast<Thing*>(handle);
}

template <typename T>
nvjpegStatus_t New(const char* kind, T* made, nvjpegBackend_t backend = NVJPEG_BACKEND_DEFAULT) {
  auto* thing = new Thing{kind, {}, nullptr, backend};
  fake.alive.insert(thing);
  *made = reinterpret_cast<T>(thing);
  return NVJPEG_STATUS_SUCCESS;
}

template <typename T>
nvjpegStatus_t Delete(T handle) {
  EXPECT_EQ(fake.alive.erase(Of(handle)), 1U);
  delete Of(handle);
  return NVJPEG_STATUS_SUCCESS;
}

void Paint(const CropBox& box, unsigned char colour, const nvjpegImage_t& place) {
  EXPECT_EQ(place.pitch[0], 3U * static_cast<size_t>(box.width));
  std::memset(place.channel[0], colour, 3 * static_cast<size_t>(box.width) * static_cast<size_t>(box.height));
}

nvjpegStatus_t Parse(const unsigned char* bytes, nvjpegJpegStream_t stream) {
  Of(stream)->bytes = bytes;
  return fake.broken_header.contains(bytes[0]) ? NVJPEG_STATUS_BAD_JPEG : NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t DecodeBatch(nvjpegHandle_t, nvjpegJpegState_t, const unsigned char* const* data, const size_t* lengths,
                           nvjpegImage_t* places, nvjpegDecodeParams_t* params, cudaStream_t) {
  if (fake.engine_breaks) {
    fake.calls.push_back("engine broke");
    return NVJPEG_STATUS_INTERNAL_ERROR;
  }
  std::string call = "engine ";
  for (size_t i = 0; i < fake.batch_size; ++i) {
    EXPECT_EQ(lengths[i], 2U);
    call += static_cast<char>(data[i][0]);
    if (fake.broken_scan.contains(data[i][0])) {
      fake.calls.push_back(call + " failed");
      return NVJPEG_STATUS_EXECUTION_FAILED;
    }
    Paint(Of(params[i])->box, data[i][0], places[i]);
  }
  fake.calls.push_back(call);
  return NVJPEG_STATUS_SUCCESS;
}

nvjpegStatus_t DecodeOnHost(nvjpegHandle_t, nvjpegJpegDecoder_t decoder, nvjpegJpegState_t, nvjpegDecodeParams_t params,
                            nvjpegJpegStream_t stream) {
  fake.parsed = Of(stream);
  fake.box = Of(params)->box;
  const std::string way = Of(decoder)->backend == NVJPEG_BACKEND_GPU_HYBRID ? "gpu " : "cpu ";
  fake.calls.push_back(way + static_cast<char>(fake.parsed->bytes[0]));
  return fake.broken_scan.contains(fake.parsed->bytes[0]) ? NVJPEG_STATUS_BAD_JPEG : NVJPEG_STATUS_SUCCESS;
}

Library FakeLibrary() {
  Library f;
  f.CreateExV2 = [](nvjpegBackend_t backend, nvjpegDevAllocatorV2_t* device, nvjpegPinnedAllocatorV2_t* pinned,
                    unsigned flags, nvjpegHandle_t* made) {
    fake.allocators.insert({device, pinned});
    if (backend == NVJPEG_BACKEND_HARDWARE ? !fake.has_engine : !fake.starts) return NVJPEG_STATUS_ARCH_MISMATCH;
    if (flags != NVJPEG_FLAGS_DEFAULT && backend == NVJPEG_BACKEND_HARDWARE) return NVJPEG_STATUS_INVALID_PARAMETER;
    return New("handle", made);
  };
  f.Destroy = &Delete<nvjpegHandle_t>;
  f.JpegStateCreate = [](nvjpegHandle_t, nvjpegJpegState_t* made) { return New("state", made); };
  f.JpegStateDestroy = &Delete<nvjpegJpegState_t>;
  f.JpegStreamCreate = [](nvjpegHandle_t, nvjpegJpegStream_t* made) { return New("stream", made); };
  f.JpegStreamDestroy = &Delete<nvjpegJpegStream_t>;
  f.JpegStreamParse = [](nvjpegHandle_t, const unsigned char* bytes, size_t, int, int, nvjpegJpegStream_t stream) {
    return Parse(bytes, stream);
  };
  f.JpegStreamParseHeader = [](nvjpegHandle_t, const unsigned char* bytes, size_t, nvjpegJpegStream_t stream) {
    return Parse(bytes, stream);
  };
  f.DecodeParamsCreate = [](nvjpegHandle_t, nvjpegDecodeParams_t* made) { return New("params", made); };
  f.DecodeParamsDestroy = &Delete<nvjpegDecodeParams_t>;
  f.DecodeParamsSetOutputFormat = [](nvjpegDecodeParams_t, nvjpegOutputFormat_t format) {
    EXPECT_EQ(format, NVJPEG_OUTPUT_RGBI);
    return NVJPEG_STATUS_SUCCESS;
  };
  f.DecodeParamsSetROI = [](nvjpegDecodeParams_t params, int x, int y, int width, int height) {
    Of(params)->box = {x, y, width, height};
    return NVJPEG_STATUS_SUCCESS;
  };
  f.DecodeBatchedInitialize = [](nvjpegHandle_t, nvjpegJpegState_t, int count, int, nvjpegOutputFormat_t format) {
    fake.batch_size = static_cast<size_t>(count);
    EXPECT_EQ(format, NVJPEG_OUTPUT_RGBI);
    return NVJPEG_STATUS_SUCCESS;
  };
  f.DecodeBatchedSupportedEx = [](nvjpegHandle_t, nvjpegJpegStream_t stream, nvjpegDecodeParams_t, int* unsupported) {
    *unsupported = fake.not_for_engine.contains(Of(stream)->bytes[0]);
    return NVJPEG_STATUS_SUCCESS;
  };
  f.DecodeBatchedEx = &DecodeBatch;
  f.DecoderCreate = [](nvjpegHandle_t, nvjpegBackend_t backend, nvjpegJpegDecoder_t* made) {
    return New("decoder", made, backend);
  };
  f.DecoderDestroy = &Delete<nvjpegJpegDecoder_t>;
  f.DecoderStateCreate = [](nvjpegHandle_t, nvjpegJpegDecoder_t, nvjpegJpegState_t* made) {
    return New("state", made);
  };
  f.DecoderJpegSupported = [](nvjpegJpegDecoder_t decoder, nvjpegJpegStream_t stream, nvjpegDecodeParams_t,
                              int* unsupported) {
    *unsupported =
        Of(decoder)->backend == NVJPEG_BACKEND_GPU_HYBRID && fake.not_for_gpu_huffman.contains(Of(stream)->bytes[0]);
    return NVJPEG_STATUS_SUCCESS;
  };
  f.BufferPinnedCreateV2 = [](nvjpegHandle_t, nvjpegPinnedAllocatorV2_t* pinned, nvjpegBufferPinned_t* made) {
    fake.allocators.insert(pinned);
    return New("pinned", made);
  };
  f.BufferPinnedDestroy = &Delete<nvjpegBufferPinned_t>;
  f.BufferDeviceCreateV2 = [](nvjpegHandle_t, nvjpegDevAllocatorV2_t* device, nvjpegBufferDevice_t* made) {
    fake.allocators.insert(device);
    return New("device", made);
  };
  f.BufferDeviceDestroy = &Delete<nvjpegBufferDevice_t>;
  f.StateAttachPinnedBuffer = [](nvjpegJpegState_t, nvjpegBufferPinned_t) { return NVJPEG_STATUS_SUCCESS; };
  f.StateAttachDeviceBuffer = [](nvjpegJpegState_t, nvjpegBufferDevice_t) { return NVJPEG_STATUS_SUCCESS; };
  f.DecodeJpegHost = &DecodeOnHost;
  f.DecodeJpegTransferToDevice = [](nvjpegHandle_t, nvjpegJpegDecoder_t, nvjpegJpegState_t, nvjpegJpegStream_t,
                                    cudaStream_t) { return NVJPEG_STATUS_SUCCESS; };
  f.DecodeJpegDevice = [](nvjpegHandle_t, nvjpegJpegDecoder_t, nvjpegJpegState_t, nvjpegImage_t* place, cudaStream_t) {
    Paint(fake.box, fake.parsed->bytes[0], *place);
    return NVJPEG_STATUS_SUCCESS;
  };
  f.EventCreateWithFlags = [](cudaEvent_t* made, unsigned) {
    New("event", made);
    return cudaSuccess;
  };
  f.EventDestroy = [](cudaEvent_t event) {
    Delete(event);
    return cudaSuccess;
  };
  f.EventRecord = [](cudaEvent_t, cudaStream_t) { return cudaSuccess; };
  f.EventSynchronize = [](cudaEvent_t) { return cudaSuccess; };
  f.StreamSynchronize = [](cudaStream_t) {
    fake.calls.push_back("stream");
    return cudaSuccess;
  };
  f.DeviceSynchronize = [] {
    fake.calls.push_back("device");
    return cudaSuccess;
  };
  return f;
}

// Files of one letter each, and the memory for their crops.
struct Letters {
  explicit Letters(const std::string& letters) : pixels(letters.size()) {
    for (const char letter : letters) files.push_back({static_cast<uint8_t>(letter), 0});
    for (size_t i = 0; i < files.size(); ++i) crops.push_back({files[i], {1, 2, 3, 4}, pixels[i].data()});
  }
  // Returns the letters with which the crops were painted, and a space for each that was not.
  std::string Seen() const {
    std::string seen;
    for (const auto& crop : pixels) {
      const bool flat = std::count(crop.begin(), crop.end(), crop[0]) == static_cast<ptrdiff_t>(crop.size());
      seen += !flat ? '?' : crop[0] == 0 ? ' ' : static_cast<char>(crop[0]);
    }
    return seen;
  }
  std::vector<std::vector<uint8_t>> files;
  std::vector<std::array<uint8_t, 3 * 3 * 4>> pixels;
  std::vector<EncodedCrop> crops;
};

class CropDecoderTest : public testing::Test {
 protected:
  CropDecoderTest() { fake = {}; }
  ~CropDecoderTest() override { EXPECT_THAT(fake.alive, IsEmpty()); }
  const Library library_ = FakeLibrary();
};

TEST_F(CropDecoderTest, AnEngineDecodesABatchInOneCall) {
  CropDecoder decoder(library_);
  for (const std::string letters : {"abc", "de", "fghij"}) {
    fake.calls.clear();
    Letters batch(letters);
    EXPECT_EQ(decoder.Decode(batch.crops, nullptr), std::vector<bool>(letters.size(), true));
    EXPECT_EQ(batch.Seen(), letters);
    EXPECT_THAT(fake.calls, ElementsAre("stream", "engine " + letters));
  }
  EXPECT_THAT(decoder.Decode({}, nullptr), IsEmpty());
}

TEST_F(CropDecoderTest, WhatTheEngineDoesNotTakeIsDecodedOneByOne) {
  fake.not_for_engine = {'b', 'd'};
  fake.not_for_gpu_huffman = {'d'};
  CropDecoder decoder(library_);
  Letters batch("abcd");
  EXPECT_THAT(decoder.Decode(batch.crops, nullptr), ElementsAre(true, true, true, true));
  EXPECT_EQ(batch.Seen(), "abcd");
  EXPECT_THAT(fake.calls, ElementsAre("stream", "engine ac", "gpu b", "cpu d"));
}

// Halves of the batch go to the engine again, each after the work of the failed call has ended; only the damaged images
// are left.
TEST_F(CropDecoderTest, WhereABatchFailsTheCulpritsAreFound) {
  fake.broken_scan = {'b', 'e'};
  CropDecoder decoder(library_);
  Letters batch("abcdefgh");
  EXPECT_THAT(decoder.Decode(batch.crops, nullptr), ElementsAre(true, false, true, true, false, true, true, true));
  EXPECT_EQ(batch.Seen(), "a cd fgh");
  EXPECT_THAT(fake.calls, ElementsAre("stream", "engine ab failed", "device", "engine ab failed", "device",
                                      "engine ab failed", "device", "engine a", "engine b failed", "device",
                                      "engine cd", "engine e failed", "device", "engine e failed", "device",
                                      "engine e failed", "device", "engine f", "engine gh", "gpu b", "gpu e"));
  fake.broken_scan.clear();
  EXPECT_THAT(decoder.Decode(batch.crops, nullptr), testing::Each(true));  // the engine stays in use
  EXPECT_EQ(fake.calls.back(), "engine abcdefgh");
}

TEST_F(CropDecoderTest, OneBadFileIn256SendsNoOtherOneByOne) {
  fake.broken_scan = {'!'};
  CropDecoder decoder(library_);
  std::string letters(256, 'a');
  letters[77] = '!';
  Letters batch(letters);
  const std::vector<bool> done = decoder.Decode(batch.crops, nullptr);
  EXPECT_EQ(std::count(done.begin(), done.end(), true), 255);
  EXPECT_FALSE(done[77]);
  EXPECT_THAT(fake.calls, testing::Contains(testing::StartsWith("gpu")).Times(1));
}

TEST_F(CropDecoderTest, AnEngineThatAlwaysFailsIsLeftAlone) {
  fake.engine_breaks = true;
  CropDecoder decoder(library_);
  Letters batch(std::string(256, 'a'));
  EXPECT_THAT(decoder.Decode(batch.crops, nullptr), testing::Each(true));
  EXPECT_THAT(fake.calls, testing::Contains("engine broke").Times(40));
  EXPECT_THAT(fake.calls, testing::Contains("gpu a").Times(256));
}

TEST_F(CropDecoderTest, AllOfItsMemoryComesFromTheAllocators) {
  nvjpegDevAllocatorV2_t device{};
  nvjpegPinnedAllocatorV2_t pinned{};
  CropDecoder decoder(library_, {&device, &pinned});
  EXPECT_THAT(fake.allocators, testing::UnorderedElementsAre(&device, &pinned));
}

TEST_F(CropDecoderTest, ABrokenHeaderIsNobodysElse) {
  fake.broken_header = {'b'};
  CropDecoder decoder(library_);
  Letters batch("abc");
  EXPECT_THAT(decoder.Decode(batch.crops, nullptr), ElementsAre(true, false, true));
  EXPECT_EQ(batch.Seen(), "a c");
  EXPECT_THAT(fake.calls, ElementsAre("stream", "engine ac"));
}

TEST_F(CropDecoderTest, AGpuWithoutAnEngineDecodesOneByOne) {
  fake.has_engine = false;
  fake.broken_scan = {'b'};
  CropDecoder decoder(library_);
  Letters batch("abc");
  EXPECT_THAT(decoder.Decode(batch.crops, nullptr), ElementsAre(true, false, true));
  EXPECT_EQ(batch.Seen(), "a c");
  EXPECT_THAT(fake.calls, ElementsAre("gpu a", "gpu b", "gpu c"));
}

TEST_F(CropDecoderTest, WhereNothingStartsItSaysSo) {
  fake.starts = false;
  EXPECT_THAT(MessageOf([this] { CropDecoder decoder(library_); }), HasSubstr("status is 7"));
}

TEST(LayOutCrops, AsManyAsFitAndAtLeastOne) {
  const std::vector<CropBox> boxes = {{0, 0, 10, 10}, {0, 0, 1, 1}, {0, 0, 100, 100}, {0, 0, 2, 2}};
  struct Case {
    int64_t most;
    std::vector<int64_t> offsets;
    int64_t bytes;
  };
  // 300 bytes take 512, 3 take 256, 30,000 take 30,208.
  for (const Case& c : {Case{1 << 20, {0, 512, 768, 30'976}, 31'232}, Case{31'231, {0, 512, 768}, 30'976},
                        Case{768, {0, 512}, 768}, Case{767, {0}, 512}, Case{0, {0}, 512}}) {
    const ScratchLayout layout = LayOutCrops(boxes, c.most);
    EXPECT_EQ(layout.offsets, c.offsets) << c.most;
    EXPECT_EQ(layout.bytes, c.bytes) << c.most;
  }
  EXPECT_THAT(LayOutCrops({}, 100).offsets, IsEmpty());
  EXPECT_EQ(LayOutCrops({}, 100).bytes, 0);
}

}  // namespace
}  // namespace dtrain::data::nvjpeg
