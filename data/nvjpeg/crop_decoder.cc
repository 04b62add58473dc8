#include "data/nvjpeg/crop_decoder.h"

#include <array>
#include <string>
#include <type_traits>

namespace dtrain::data::nvjpeg {
namespace {

// An object of nvJPEG with the function that destroys it.
template <typename T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, nvjpegStatus_t (*)(T)>;

template <typename T, typename Create, typename... Arguments>
Owned<T> Make(nvjpegStatus_t (*destroy)(T), Create create, Arguments... arguments) {
  T made = nullptr;
  const nvjpegStatus_t status = create(arguments..., &made);
  if (status == NVJPEG_STATUS_SUCCESS) return {made, destroy};
  throw Unavailable("nvJPEG does not start (its status is " + std::to_string(status) + ")", "use --decode=cpu");
}

// Asks nvJPEG to interpolate colour as libjpeg does, if this version has the flag; some backends do not support it.
Owned<nvjpegHandle_t> MakeHandle(const Library& nvjpeg, nvjpegBackend_t backend, const Allocators& memory) {
  const auto make = [&](unsigned flags) {
    return Make<nvjpegHandle_t>(nvjpeg.Destroy, nvjpeg.CreateExV2, backend, memory.device, memory.pinned, flags);
  };
#ifdef NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION
  try {
    return make(NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION);
  } catch (const Unavailable&) {  // the attempt below throws with the reason
  }
#endif
  return make(NVJPEG_FLAGS_DEFAULT);
}

Owned<nvjpegDecodeParams_t> MakeParams(const Library& nvjpeg, nvjpegHandle_t handle) {
  auto params = Make<nvjpegDecodeParams_t>(nvjpeg.DecodeParamsDestroy, nvjpeg.DecodeParamsCreate, handle);
  nvjpeg.DecodeParamsSetOutputFormat(params.get(), NVJPEG_OUTPUT_RGBI);
  return params;
}

bool IsDone(nvjpegStatus_t status) { return status == NVJPEG_STATUS_SUCCESS; }

bool SetBox(const Library& nvjpeg, nvjpegDecodeParams_t params, const CropBox& box) {
  return IsDone(nvjpeg.DecodeParamsSetROI(params, box.x, box.y, box.width, box.height));
}

nvjpegImage_t PlaceOf(const EncodedCrop& crop) {
  nvjpegImage_t image{};
  image.channel[0] = crop.to;
  image.pitch[0] = 3 * static_cast<size_t>(crop.box.width);
  return image;
}

}  // namespace

// Decodes on the GPU's JPEG engine. The engine does not honour the stream that it is given (others have seen this on
// H100s): it writes while work queued before is still to run. So the host waits for the stream first.
class CropDecoder::Engine {
 public:
  Engine(const Library& nvjpeg, const Allocators& memory)
      : nvjpeg_(nvjpeg),
        handle_(MakeHandle(nvjpeg, NVJPEG_BACKEND_HARDWARE, memory)),
        state_(Make<nvjpegJpegState_t>(nvjpeg.JpegStateDestroy, nvjpeg.JpegStateCreate, handle_.get())),
        header_(Make<nvjpegJpegStream_t>(nvjpeg.JpegStreamDestroy, nvjpeg.JpegStreamCreate, handle_.get())) {}

  // Sets `done` for the crops that it decoded.
  void Decode(std::span<const EncodedCrop> crops, cudaStream_t stream, std::vector<bool>& done) {
    std::vector<Item> items;
    while (params_.size() < crops.size()) params_.push_back(MakeParams(nvjpeg_, handle_.get()));
    for (size_t i = 0; i < crops.size(); ++i) {
      if (Supports(crops[i], params_[i].get())) items.push_back({i, &crops[i], params_[i].get()});
    }
    if (items.empty()) return;
    if (nvjpeg_.StreamSynchronize(stream) != cudaSuccess) return;
    int failures_left = kMostFailures;
    DecodeOrHalve(items, stream, failures_left, done);
  }

 private:
  struct Item {
    size_t index;
    const EncodedCrop* crop;
    nvjpegDecodeParams_t params;
  };
  // The number of failed calls after which the engine is not used for the rest of the batch, because it seems to fail
  // for other reasons than an image. One damaged image in 256 causes nine.
  static constexpr int kMostFailures = 40;

  void DecodeOrHalve(std::span<const Item> items, cudaStream_t stream, int& failures_left, std::vector<bool>& done) {
    if (failures_left == 0) return;
    if (DecodeTogether(items, stream)) {
      for (const Item& item : items) done[item.index] = true;
      return;
    }
    --failures_left;
    nvjpeg_.DeviceSynchronize();  // a call that has begun may still write to the same memory
    if (items.size() == 1) return;
    DecodeOrHalve(items.first(items.size() / 2), stream, failures_left, done);
    DecodeOrHalve(items.subspan(items.size() / 2), stream, failures_left, done);
  }

  bool DecodeTogether(std::span<const Item> items, cudaStream_t stream) {
    std::vector<const unsigned char*> bytes;
    std::vector<size_t> lengths;
    std::vector<nvjpegImage_t> places;
    std::vector<nvjpegDecodeParams_t> params;
    for (const Item& item : items) {
      bytes.push_back(item.crop->bytes.data());
      lengths.push_back(item.crop->bytes.size());
      places.push_back(PlaceOf(*item.crop));
      params.push_back(item.params);
    }
    constexpr int kHostThreads = 1;
    return IsDone(nvjpeg_.DecodeBatchedInitialize(handle_.get(), state_.get(), static_cast<int>(items.size()),
                                                  kHostThreads, NVJPEG_OUTPUT_RGBI)) &&
           IsDone(nvjpeg_.DecodeBatchedEx(handle_.get(), state_.get(), bytes.data(), lengths.data(), places.data(),
                                          params.data(), stream));
  }

  bool Supports(const EncodedCrop& crop, nvjpegDecodeParams_t params) {
    int is_unsupported = 1;  // nvJPEG sets 0 if it is supported
    return SetBox(nvjpeg_, params, crop.box) &&
           IsDone(nvjpeg_.JpegStreamParseHeader(handle_.get(), crop.bytes.data(), crop.bytes.size(), header_.get())) &&
           IsDone(nvjpeg_.DecodeBatchedSupportedEx(handle_.get(), header_.get(), params, &is_unsupported)) &&
           is_unsupported == 0;
  }

  const Library& nvjpeg_;
  Owned<nvjpegHandle_t> handle_;
  Owned<nvjpegJpegState_t> state_;
  Owned<nvjpegJpegStream_t> header_;
  std::vector<Owned<nvjpegDecodeParams_t>> params_;  // one for each image of the largest batch so far
};

// Decodes on CUDA's cores. While the GPU works on an image, the CPU prepares the next one in the other of two slots.
class CropDecoder::OneByOne {
 public:
  OneByOne(const Library& nvjpeg, const Allocators& memory)
      : nvjpeg_(nvjpeg),
        handle_(MakeHandle(nvjpeg, NVJPEG_BACKEND_DEFAULT, memory)),
        params_(MakeParams(nvjpeg, handle_.get())),
        device_(Make<nvjpegBufferDevice_t>(nvjpeg.BufferDeviceDestroy, nvjpeg.BufferDeviceCreateV2, handle_.get(),
                                           memory.device)),
        ways_{Way(*this, NVJPEG_BACKEND_GPU_HYBRID), Way(*this, NVJPEG_BACKEND_HYBRID)},
        slots_{Slot(*this, memory), Slot(*this, memory)} {}

  bool Decode(const EncodedCrop& crop, cudaStream_t stream) {
    Slot& slot = slots_[next_slot_];
    next_slot_ = 1 - next_slot_;
    nvjpeg_.EventSynchronize(slot.free.get());
    if (!SetBox(nvjpeg_, params_.get(), crop.box) ||
        !IsDone(nvjpeg_.JpegStreamParse(handle_.get(), crop.bytes.data(), crop.bytes.size(), /*save_metadata=*/0,
                                        /*save_stream=*/0, slot.jpeg.get()))) {
      return false;
    }
    for (Way& way : ways_) {
      int is_unsupported = 1;  // nvJPEG sets 0 if it is supported
      if (!IsDone(nvjpeg_.DecoderJpegSupported(way.decoder.get(), slot.jpeg.get(), params_.get(), &is_unsupported)) ||
          is_unsupported != 0) {
        continue;
      }
      const bool done = Decode(crop, way, slot, stream);
      nvjpeg_.EventRecord(slot.free.get(), stream);
      return done;
    }
    return false;
  }

 private:
  // Huffman codes are decoded on the GPU or, if that does not support the image, on the CPU.
  struct Way {
    Way(const OneByOne& owner, nvjpegBackend_t backend)
        : decoder(Make<nvjpegJpegDecoder_t>(owner.nvjpeg_.DecoderDestroy, owner.nvjpeg_.DecoderCreate,
                                            owner.handle_.get(), backend)),
          state(Make<nvjpegJpegState_t>(owner.nvjpeg_.JpegStateDestroy, owner.nvjpeg_.DecoderStateCreate,
                                        owner.handle_.get(), decoder.get())) {}
    Owned<nvjpegJpegDecoder_t> decoder;
    Owned<nvjpegJpegState_t> state;
  };

  struct Slot {
    Slot(const OneByOne& owner, const Allocators& memory)
        : jpeg(Make<nvjpegJpegStream_t>(owner.nvjpeg_.JpegStreamDestroy, owner.nvjpeg_.JpegStreamCreate,
                                        owner.handle_.get())),
          pinned(Make<nvjpegBufferPinned_t>(owner.nvjpeg_.BufferPinnedDestroy, owner.nvjpeg_.BufferPinnedCreateV2,
                                            owner.handle_.get(), memory.pinned)),
          free(nullptr, owner.nvjpeg_.EventDestroy) {
      cudaEvent_t event = nullptr;
      if (owner.nvjpeg_.EventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
        throw Unavailable("nvJPEG does not start: CUDA cannot create events", "use --decode=cpu");
      }
      free.reset(event);
    }
    Owned<nvjpegJpegStream_t> jpeg;
    Owned<nvjpegBufferPinned_t> pinned;
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, cudaError_t (*)(cudaEvent_t)>
        free;  // recorded when the slot may be used again
  };

  bool Decode(const EncodedCrop& crop, Way& way, Slot& slot, cudaStream_t stream) {
    nvjpegImage_t place = PlaceOf(crop);
    nvjpegHandle_t handle = handle_.get();
    nvjpegJpegDecoder_t decoder = way.decoder.get();
    nvjpegJpegState_t state = way.state.get();
    nvjpegJpegStream_t jpeg = slot.jpeg.get();
    return IsDone(nvjpeg_.StateAttachPinnedBuffer(state, slot.pinned.get())) &&
           IsDone(nvjpeg_.StateAttachDeviceBuffer(state, device_.get())) &&
           IsDone(nvjpeg_.DecodeJpegHost(handle, decoder, state, params_.get(), jpeg)) &&
           IsDone(nvjpeg_.DecodeJpegTransferToDevice(handle, decoder, state, jpeg, stream)) &&
           IsDone(nvjpeg_.DecodeJpegDevice(handle, decoder, state, &place, stream));
  }

  const Library& nvjpeg_;
  Owned<nvjpegHandle_t> handle_;
  Owned<nvjpegDecodeParams_t> params_;
  Owned<nvjpegBufferDevice_t> device_;  // used by one image after the other, in the order of the stream
  std::array<Way, 2> ways_;
  std::array<Slot, 2> slots_;
  size_t next_slot_ = 0;
};

CropDecoder::CropDecoder(const Library& library, const Allocators& allocators) {
  one_by_one_ = std::make_unique<OneByOne>(library, allocators);
  try {
    engine_ = std::make_unique<Engine>(library, allocators);
  } catch (const Unavailable&) {  // most GPUs have no engine
  }
}

CropDecoder::~CropDecoder() = default;

std::vector<bool> CropDecoder::Decode(std::span<const EncodedCrop> crops, cudaStream_t stream) {
  std::vector<bool> done(crops.size(), false);
  if (engine_) engine_->Decode(crops, stream, done);
  for (size_t i = 0; i < crops.size(); ++i) {
    if (!done[i]) done[i] = one_by_one_->Decode(crops[i], stream);
  }
  return done;
}

ScratchLayout LayOutCrops(std::span<const CropBox> boxes, int64_t most_bytes) {
  constexpr int64_t kAlignment = 256;
  ScratchLayout layout;
  for (const CropBox& box : boxes) {
    const int64_t bytes = int64_t{3} * box.width * box.height;
    const int64_t end = layout.bytes + (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (!layout.offsets.empty() && end > most_bytes) break;
    layout.offsets.push_back(layout.bytes);
    layout.bytes = end;
  }
  return layout;
}

}  // namespace dtrain::data::nvjpeg
