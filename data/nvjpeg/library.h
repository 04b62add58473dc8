// nvJPEG's functions, which are looked up in the library at run time. Nothing is linked with it, so machines without it
// (or without a GPU) need not have it. A test fills the table with functions of its own.
#pragma once

#include <nvjpeg.h>

#include <string>
#include <vector>

#include "data/error.h"

namespace dtrain::data::nvjpeg {

// clang-format off
#define DTRAIN_NVJPEG_FUNCTIONS(F)                                                                     \
  F(CreateExV2) F(Destroy) F(JpegStateCreate) F(JpegStateDestroy)                                      \
  F(JpegStreamCreate) F(JpegStreamDestroy) F(JpegStreamParse) F(JpegStreamParseHeader)                 \
  F(DecodeParamsCreate) F(DecodeParamsDestroy) F(DecodeParamsSetOutputFormat) F(DecodeParamsSetROI)    \
  F(DecodeBatchedInitialize) F(DecodeBatchedSupportedEx) F(DecodeBatchedEx)                            \
  F(DecoderCreate) F(DecoderDestroy) F(DecoderStateCreate) F(DecoderJpegSupported)                     \
  F(BufferPinnedCreateV2) F(BufferPinnedDestroy) F(BufferDeviceCreateV2) F(BufferDeviceDestroy)        \
  F(StateAttachPinnedBuffer) F(StateAttachDeviceBuffer)                                                \
  F(DecodeJpegHost) F(DecodeJpegTransferToDevice) F(DecodeJpegDevice)
// clang-format on

struct Library {
#define DTRAIN_DECLARE(name) decltype(&nvjpeg##name) name{};  // NOLINT(bugprone-macro-parentheses): a declaration
  DTRAIN_NVJPEG_FUNCTIONS(DTRAIN_DECLARE)
#undef DTRAIN_DECLARE
  // CUDA's functions that are used together with nvJPEG's.
  decltype(&cudaEventCreateWithFlags) EventCreateWithFlags = &cudaEventCreateWithFlags;
  decltype(&cudaEventRecord) EventRecord = &cudaEventRecord;
  decltype(&cudaEventSynchronize) EventSynchronize = &cudaEventSynchronize;
  decltype(&cudaEventDestroy) EventDestroy = &cudaEventDestroy;
  decltype(&cudaStreamSynchronize) StreamSynchronize = &cudaStreamSynchronize;
  decltype(&cudaDeviceSynchronize) DeviceSynchronize = &cudaDeviceSynchronize;
};

// Thrown with the reason why nvJPEG cannot be used, and with what to do.
class Unavailable : public Error {
 public:
  Unavailable(const std::string& why, const std::string& hint) : Error(ExitCode::kUsage, why, hint) {}
};

// The advice for a machine without nvJPEG, which has one package for CUDA 13 and another for CUDA 12.
constexpr const char* kInstall =
    "pip install nvidia-nvjpeg (for CUDA 12: nvidia-nvjpeg-cu12) beside PyTorch, or use --decode=cpu";

// Returns the places where the library may be, best first, for CUDA of this major version: its name, which the loader
// looks for in LD_LIBRARY_PATH (which a bundle sets) and in the system's folders, then PyPI's packages beside the one
// that holds `torch_libraries`, LibTorch's own folder.
std::vector<std::string> LibraryPlaces(const std::string& torch_libraries, int cuda_major);

// Loads the first of `places` that can be loaded; it is never unloaded. Throws Unavailable if none can be loaded or a
// function is missing.
Library LoadLibrary(const std::vector<std::string>& places);

}  // namespace dtrain::data::nvjpeg
