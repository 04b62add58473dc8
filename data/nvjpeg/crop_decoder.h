// Decodes crops of JPEGs into a GPU's memory. There are two ways. GPUs with a JPEG engine (A100, H100 and newer) decode
// a batch in one call. Images that the engine does not support, and all images on other GPUs, are decoded on CUDA's
// cores one after the other, with the Huffman codes decoded there or on the CPU. If the engine fails, it fails for the
// whole batch; the batch is then halved again and again to find the images at fault, which are decoded in the second
// way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/image/crop.h"
#include "data/nvjpeg/library.h"

namespace dtrain::data::nvjpeg {

struct EncodedCrop {
  std::span<const uint8_t> bytes;
  CropBox box;  // inside the image
  uint8_t* to;  // box.height × box.width × 3, dense, in the GPU's memory
};

// nvJPEG's allocators. With null it uses CUDA itself, whose cudaFree waits for all of the GPU's streams.
struct Allocators {
  nvjpegDevAllocatorV2_t* device = nullptr;
  nvjpegPinnedAllocatorV2_t* pinned = nullptr;
};

class CropDecoder {
 public:
  // Decodes on the current device. `library` and the allocators must outlive it. Throws Unavailable if nvJPEG does not
  // start.
  explicit CropDecoder(const Library& library, const Allocators& allocators = {});
  ~CropDecoder();

  // Decodes to RGB after the work queued on `stream`; if the GPU has an engine, waits for the stream first. The bytes
  // must stay valid until the decoding is done. Returns true for each crop that nvJPEG accepted; later errors show only
  // in the pixels.
  std::vector<bool> Decode(std::span<const EncodedCrop> crops, cudaStream_t stream);

 private:
  class Engine;
  class OneByOne;
  std::unique_ptr<Engine> engine_;  // null if the GPU has no engine
  std::unique_ptr<OneByOne> one_by_one_;
};

// The places of crops in one allocation.
struct ScratchLayout {
  std::vector<int64_t> offsets;  // bytes; for as many crops from the front as fit
  int64_t bytes = 0;
};

// Lays out as many crops as fit into `most_bytes`, but at least one if there is any.
ScratchLayout LayOutCrops(std::span<const CropBox> boxes, int64_t most_bytes);

}  // namespace dtrain::data::nvjpeg
