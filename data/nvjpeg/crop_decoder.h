// Crops of JPEGs → pixels in a GPU's memory. Two ways: GPUs with a JPEG engine (A100, H100 and newer) decode a batch in
// one call; what that engine does not take, and everything on other GPUs, is decoded on CUDA's cores one after the
// other, Huffman codes there or on the CPU. Where the engine fails, it fails as a whole: halves of the batch, halves of
// those and so on find the images that it stumbled over, which then go the second way.
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
  CropBox box;  // inside of the image
  uint8_t* to;  // box.height × box.width × 3, dense, the GPU's memory
};

// Where nvJPEG gets its memory. Null: from CUDA itself, whose cudaFree makes all of the GPU's streams wait.
struct Allocators {
  nvjpegDevAllocatorV2_t* device = nullptr;
  nvjpegPinnedAllocatorV2_t* pinned = nullptr;
};

class CropDecoder {
 public:
  // For the current device. `library` and what `allocators` point to outlive it. Throws Unavailable where nvJPEG does
  // not start.
  explicit CropDecoder(const Library& library, const Allocators& allocators = {});
  ~CropDecoder();

  // Decodes after what is queued on `stream`, all of it RGB. Where there is an engine, waits for the stream before it
  // decodes. The bytes must stay until that is done. True for each crop that nvJPEG took without a complaint; what goes
  // wrong later only shows in the pixels.
  std::vector<bool> Decode(std::span<const EncodedCrop> crops, cudaStream_t stream);

 private:
  class Engine;
  class OneByOne;
  std::unique_ptr<Engine> engine_;  // null: this GPU has none
  std::unique_ptr<OneByOne> one_by_one_;
};

// Where crops lie in one allocation.
struct ScratchLayout {
  std::vector<int64_t> offsets;  // bytes, of as many crops from the front as fit
  int64_t bytes = 0;
};

// As many as fit into `most_bytes`; at least one, if there is any.
ScratchLayout LayOutCrops(std::span<const CropBox> boxes, int64_t most_bytes);

}  // namespace dtrain::data::nvjpeg
