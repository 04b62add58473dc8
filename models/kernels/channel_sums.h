// Two sums over all rows for each channel, in one launch and always in the same order: the threads of a block that have
// the same channels are added up in shared memory, each block writes its partial sums, and the last block to finish for
// its channels adds up all blocks' in the order of their numbers. The steps of a block are functions here. The kernel
// calls them with barriers between, a test in loops.
#pragma once

#include "models/kernels/channels_last.h"

namespace dtrain::models::kernels {

// A block has this many groups of channels side by side; its other threads work on further rows.
constexpr int kGroupsOfBlock = 8, kRowsOfBlock = 32, kThreadsOfBlock = kGroupsOfBlock * kRowsOfBlock;
constexpr int kChannelsOfBlock = kGroupsOfBlock * kWidth;
// In the last block, this many threads share a channel.
constexpr int kSlices = kThreadsOfBlock / kChannelsOfBlock;

// The sums of one thread for its eight channels.
struct ChannelSums {
  float first[kWidth], second[kWidth];
};

// What the threads of a block share.
struct BlockMemory {
  float sums[kRowsOfBlock][2][kChannelsOfBlock];
  double slices[kSlices][2][kChannelsOfBlock];
  float shift[kChannelsOfBlock];
};

// Where a launch keeps its partial sums.
struct SumsMemory {
  float* partial;      // parts × 2 × channels
  unsigned* finished;  // for each column of blocks, how many have finished: 0 before and after each launch
  int parts;           // blocks that share the rows of a channel
};

inline DTRAIN_HOST_DEVICE int64_t NumColumns(int64_t channels) {
  return (channels + kChannelsOfBlock - 1) / kChannelsOfBlock;
}

// The place of a thread: block (`column`, `part`) works on kChannelsOfBlock channels and every parts-th group of rows.
struct Place {
  int64_t channel, first_row, row_step;  // of this thread
  int group, row;                        // within its block
  int64_t first_channel;                 // of its block

  DTRAIN_HOST_DEVICE Place(int64_t column, int64_t part, int64_t parts, int thread)
      : row_step(parts * kRowsOfBlock),
        group(thread % kGroupsOfBlock),
        row(thread / kGroupsOfBlock),
        first_channel(column * kChannelsOfBlock) {
    channel = first_channel + static_cast<int64_t>(group) * kWidth;
    first_row = part * kRowsOfBlock + row;
  }
};

// Step 1, for each thread.
inline DTRAIN_HOST_DEVICE void KeepSums(const Place& place, const ChannelSums& sums, BlockMemory& memory) {
  for (int i = 0; i < kWidth; ++i) {
    memory.sums[place.row][0][place.group * kWidth + i] = sums.first[i];
    memory.sums[place.row][1][place.group * kWidth + i] = sums.second[i];
  }
}

// Step 2, for each thread: writes the block's partial sums.
inline DTRAIN_HOST_DEVICE void WritePartialSums(const BlockMemory& memory, int64_t first_channel, int64_t part,
                                                int64_t channels, int thread, float* partial) {
  const int which = thread / kChannelsOfBlock, of_block = thread % kChannelsOfBlock;
  if (which >= 2 || first_channel + of_block >= channels) return;
  float total = 0;
  for (int row = 0; row < kRowsOfBlock; ++row) total += memory.sums[row][which][of_block];
  partial[(part * 2 + which) * channels + first_channel + of_block] = total;
}

// Other blocks have written what is read here, so a value in the cache of this block's processor may be old.
inline DTRAIN_HOST_DEVICE float LoadFromOtherBlock(const float* from) {
#ifdef __CUDA_ARCH__
  return __ldcg(from);
#else
  return *from;
#endif
}

// Step 3, for each thread of the last block.
inline DTRAIN_HOST_DEVICE void AddSlice(const SumsMemory& sums, int64_t first_channel, int64_t channels, int thread,
                                        BlockMemory& memory) {
  const int slice = thread / kChannelsOfBlock, of_block = thread % kChannelsOfBlock;
  if (first_channel + of_block >= channels) return;
  const float* from = sums.partial + first_channel + of_block;
  double first = 0, second = 0;
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
  for (int64_t part = slice; part < sums.parts; part += kSlices) {
    first += LoadFromOtherBlock(from + 2 * part * channels);
    second += LoadFromOtherBlock(from + (2 * part + 1) * channels);
  }
  memory.slices[slice][0][of_block] = first;
  memory.slices[slice][1][of_block] = second;
}

// Step 4, for each thread of the last block: calls finish(channel, number in the block, first sum, second sum) for each
// channel.
template <typename Finish>
DTRAIN_HOST_DEVICE void FinishChannels(const BlockMemory& memory, int64_t first_channel, int64_t channels, int thread,
                                       const Finish& finish) {
  if (thread >= kChannelsOfBlock || first_channel + thread >= channels) return;
  double first = 0, second = 0;
  for (int slice = 0; slice < kSlices; ++slice) {
    first += memory.slices[slice][0][thread];
    second += memory.slices[slice][1][thread];
  }
  finish(first_channel + thread, thread, first, second);
}

}  // namespace dtrain::models::kernels
