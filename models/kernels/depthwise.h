// Depthwise convolution (each channel has a filter of its own) of channels-last tensors, padded by ⌊k/2⌋, and its
// gradients. A thread works on two channels and a strip of neighbouring columns. It goes down the rows: each row that
// it loads is multiplied with all taps that meet it, and added to the rows of the result that are still open. Taps and
// sums stay in registers, so an element is loaded about once. The next row is on its way while one is worked on.
#pragma once

#include <cstring>
#include <type_traits>

#include "models/kernels/channels_last.h"

namespace dtrain::models::kernels {

// Sizes of x and of y, the convolution's result. A tensor has fewer than 2³¹ elements; channels are even.
struct DepthwiseShape {
  int images, channels, height, width, out_height, out_width;
  int kernel, stride;  // 3 or 5; 1 or 2
};

constexpr int kPair = 2;  // channels per thread

// y from x, or dx from dy. Pointers are aligned to 4 bytes. The tensors have the type `T` that `Element` names.
struct DepthwiseArguments {
  const void *from, *taps;  // taps: kernel² × channels
  void* to;
  DepthwiseShape shape;
  bool backward;
  int rows_per_thread;  // of the result; even. Launches set it
};

// The gradient of the taps.
struct DepthwiseTapsArguments {
  const void *x, *dy;
  DepthwiseShape shape;
  int rows_per_thread;  // rows of dy that a thread works on before it takes the next strip. Launches set it
  int parts;            // blocks that share the strips of their channels
  float* sums;          // parts × kernel² × channels: the gradient is the sum over the parts
};

// Two values as they are in memory. They are taken apart where they are used: if they were taken apart where they are
// loaded, a thread would wait there.
template <typename T>
struct Pair {
  using Bits = std::conditional_t<sizeof(T) == sizeof(uint16_t), uint32_t, uint64_t>;
  Bits bits;

  DTRAIN_HOST_DEVICE void ToFloat(float (&values)[kPair]) const {
    const Bits copy = bits;  // nvcc loads the copy as a whole, but `bits` byte by byte
    T parts[kPair];
    memcpy(parts, &copy, sizeof parts);
    for (int c = 0; c < kPair; ++c) values[c] = static_cast<float>(parts[c]);
  }
  static DTRAIN_HOST_DEVICE Pair FromFloat(const float (&values)[kPair]) {
    T parts[kPair];
    for (int c = 0; c < kPair; ++c) parts[c] = static_cast<T>(values[c]);
    Pair pair;
    memcpy(&pair.bits, parts, sizeof parts);
    return pair;
  }
};

// The work of a thread: rows and columns of one image, for two channels.
struct Strip {
  int image, channel, first_row, rows, first_column;
};

// `number` counts pairs of channels first, then strips from left to right, from top to bottom, and through the images.
inline DTRAIN_HOST_DEVICE Strip StripOf(unsigned number, unsigned pairs, int height, int width, int rows, int columns) {
  const unsigned across = static_cast<unsigned>((width + columns - 1) / columns);
  const unsigned down = static_cast<unsigned>((height + rows - 1) / rows);
  const unsigned strip = number / pairs, row = strip / across % down * static_cast<unsigned>(rows);
  return {static_cast<int>(strip / across / down), static_cast<int>(number % pairs * kPair), static_cast<int>(row),
          rows < height - static_cast<int>(row) ? rows : height - static_cast<int>(row),
          static_cast<int>(strip % across) * columns};
}

inline DTRAIN_HOST_DEVICE int64_t NumStrips(int images, int height, int width, int rows, int columns) {
  return static_cast<int64_t>(images) * ((height + rows - 1) / rows) * ((width + columns - 1) / columns);
}

// One image's two channels. Columns outside of it are zeros.
template <typename T>
struct Image {
  T* data;  // at the first pixel
  int channels, width;

  template <typename Data>
  DTRAIN_HOST_DEVICE Image(Data* tensor, const Strip& strip, int of_channels, int height, int of_width)
      : data(static_cast<T*>(tensor) + static_cast<int64_t>(strip.image) * height * of_width * of_channels +
             strip.channel),
        channels(of_channels),
        width(of_width) {}

  template <int kColumns>
  DTRAIN_HOST_DEVICE void Load(int row, int first_column, Pair<std::remove_const_t<T>> (&columns)[kColumns]) const {
    const T* const at = data + (static_cast<int64_t>(row) * width + first_column) * channels;
    DTRAIN_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const int column = first_column + j;
      columns[j] = {};
      if (column >= 0 && column < width) {
        columns[j] = *reinterpret_cast<const Pair<std::remove_const_t<T>>*>(at + j * channels);
      }
    }
  }
  template <int kColumns>
  DTRAIN_HOST_DEVICE void Store(int row, int first_column, const float (&sums)[kColumns][kPair]) const {
    T* const at = data + (static_cast<int64_t>(row) * width + first_column) * channels;
    DTRAIN_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      if (first_column + i >= width) continue;
      *reinterpret_cast<Pair<T>*>(at + i * channels) = Pair<T>::FromFloat(sums[i]);
    }
  }
};

// Moves rows up by kBy. The last ones become zeros.
template <int kBy, int kRows, int kColumns>
DTRAIN_HOST_DEVICE void MoveUp(float (&rows)[kRows][kColumns][kPair]) {
  DTRAIN_UNROLL
  for (int a = 0; a < kRows; ++a) {
    DTRAIN_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      for (int c = 0; c < kPair; ++c)
        rows[a][i][c] = a + kBy < kRows ? rows[a + kBy < kRows ? a + kBy : a][i][c] : 0.0F;
    }
  }
}

// The taps of two channels.
template <typename T, int kKernel>
struct Taps {
  float of[kKernel * kKernel][kPair];

  // `turned` by half a turn: the gradient of a convolution with stride 1 is a convolution with its turned taps.
  DTRAIN_HOST_DEVICE Taps(const void* taps, int channels, int channel, bool turned) {
    constexpr int kTaps = kKernel * kKernel;
    DTRAIN_UNROLL
    for (int tap = 0; tap < kTaps; ++tap) {
      const int from = turned ? kTaps - 1 - tap : tap;
      const Pair<T> pair = *reinterpret_cast<const Pair<T>*>(static_cast<const T*>(taps) + from * channels + channel);
      pair.ToFloat(of[tap]);
    }
  }
};

// How rows of a convolution's input meet those of its result. In step s, input rows s · stride + phase (counted from
// the first one that the strip needs) meet the kOpen rows from s − kOpen + 1 on, whose first one is then complete: they
// move up before phase 1.
template <int kKernel, int kStride>
struct Meeting {
  // Of the result. The maps of networks for 224 pixels are multiples of 7; with stride 2, it needs too many registers.
  static constexpr int kStripColumns = kStride == 1 ? 7 : 4;
  static constexpr int kColumns = (kStripColumns - 1) * kStride + kKernel, kOpen = (kKernel - 1) / kStride + 1;

  // Returns the tap's row that meets open row `a`. There is none if it is outside of 0 … kKernel − 1.
  static constexpr DTRAIN_HOST_DEVICE int TapRow(int a, int phase) {
    return kStride * (kOpen - 1 - a) + phase - (phase > 0 ? kStride : 0);
  }
  // Calls meet(open row, column of the strip, tap) for all that meet the column `j` of the input.
  template <int kPhase, typename Meet>
  static DTRAIN_HOST_DEVICE void ForColumn(int j, const Meet& meet) {
    DTRAIN_UNROLL
    for (int a = 0; a < kOpen; ++a) {
      const int tap_row = TapRow(a, kPhase);
      if (tap_row < 0 || tap_row >= kKernel) continue;
      DTRAIN_UNROLL
      for (int i = 0; i < kStripColumns; ++i) {
        const int tap_column = j - i * kStride;
        if (tap_column >= 0 && tap_column < kKernel) meet(a, i, tap_row * kKernel + tap_column);
      }
    }
  }
};

// Calls work(step, row, columns) with phase 0, then with phase 1 if the stride is 2, for each step, and done(step)
// after phase 0. `columns` are loaded; work is not called for rows outside of the image or of the strip.
template <int kKernel, int kStride, typename T, typename Work, typename Done>
DTRAIN_HOST_DEVICE void GoDown(const Image<const T>& from, const Strip& strip, int height, const Work& work,
                               const Done& done) {
  using M = Meeting<kKernel, kStride>;
  const int first_row = strip.first_row * kStride - kKernel / 2;
  const int first_column = strip.first_column * kStride - kKernel / 2;
  const int steps = strip.rows + M::kOpen - 1, end_row = first_row + (strip.rows - 1) * kStride + kKernel;
  const auto has = [&](int row) { return row >= 0 && row < height && row < end_row; };
  Pair<T> next[M::kColumns] = {};
  if (has(first_row)) from.Load(first_row, first_column, next);
  for (int step = 0; step < steps; ++step) {
    DTRAIN_UNROLL
    for (int phase = 0; phase < kStride; ++phase) {
      const int row = first_row + step * kStride + phase;
      Pair<T> now[M::kColumns];
      DTRAIN_UNROLL
      for (int j = 0; j < M::kColumns; ++j) now[j] = next[j];
      if (has(row + 1)) from.Load(row + 1, first_column, next);
      if (has(row)) {
        if (phase == 0) {
          work(std::integral_constant<int, 0>{}, now);
        } else {
          work(std::integral_constant<int, 1>{}, now);
        }
      }
      if (phase == 0) done(step);
    }
  }
}

// y from x, or, with stride 1, dx from dy.
template <typename T, int kKernel, int kStride>
DTRAIN_HOST_DEVICE void ConvolveThread(const DepthwiseArguments& arguments, unsigned thread) {
  using M = Meeting<kKernel, kStride>;
  const DepthwiseShape& s = arguments.shape;
  const Strip strip = StripOf(thread, static_cast<unsigned>(s.channels / kPair), s.out_height, s.out_width,
                              arguments.rows_per_thread, M::kStripColumns);
  if (strip.image >= s.images) return;
  const Image<const T> from(arguments.from, strip, s.channels, s.height, s.width);
  const Image<T> to(arguments.to, strip, s.channels, s.out_height, s.out_width);
  const Taps<T, kKernel> taps(arguments.taps, s.channels, strip.channel, arguments.backward);
  float open[M::kOpen][M::kStripColumns][kPair] = {};
  const auto add = [&](auto phase, const Pair<T>(&columns)[M::kColumns]) {
    DTRAIN_UNROLL
    for (int j = 0; j < M::kColumns; ++j) {
      float x[kPair];
      columns[j].ToFloat(x);
      M::template ForColumn<decltype(phase)::value>(j, [&](int a, int i, int tap) {
        for (int c = 0; c < kPair; ++c) open[a][i][c] += x[c] * taps.of[tap][c];
      });
    }
  };
  GoDown<kKernel, kStride>(from, strip, s.height, add, [&](int step) {
    const int row = step - (M::kOpen - 1);
    if (row >= 0) to.Store(strip.first_row + row, strip.first_column, open[0]);
    MoveUp<1>(open);
  });
}

constexpr int kSpreadColumns = 4;  // of dx in a strip

// dx from dy, with stride 2. Row r of dy meets rows 2 r − padding … 2 r + padding of dx, of which two are then
// complete.
template <typename T, int kKernel>
DTRAIN_HOST_DEVICE void SpreadThread(const DepthwiseArguments& arguments, unsigned thread) {
  constexpr int kPadding = kKernel / 2, kColumns = kKernel == 3 ? 3 : 4;
  const DepthwiseShape& s = arguments.shape;
  const Strip strip = StripOf(thread, static_cast<unsigned>(s.channels / kPair), s.height, s.width,
                              arguments.rows_per_thread, kSpreadColumns);
  if (strip.image >= s.images) return;
  const Image<const T> from(arguments.from, strip, s.channels, s.out_height, s.out_width);
  const Image<T> to(arguments.to, strip, s.channels, s.height, s.width);
  const Taps<T, kKernel> taps(arguments.taps, s.channels, strip.channel, /*turned=*/false);
  // The strip begins at an even row and column.
  const int first_row = strip.first_row / 2 - kPadding / 2, first_column = strip.first_column / 2 - kPadding / 2;
  const int end_row = strip.first_row + strip.rows;
  const auto has = [&](int row) { return row >= 0 && row < s.out_height && 2 * row - kPadding < end_row; };
  float open[kKernel][kSpreadColumns][kPair] = {};
  Pair<T> next[kColumns] = {};
  if (has(first_row)) from.Load(first_row, first_column, next);
  for (int row = first_row; 2 * row - kPadding < end_row; ++row) {
    Pair<T> now[kColumns];
    DTRAIN_UNROLL
    for (int j = 0; j < kColumns; ++j) now[j] = next[j];
    if (has(row + 1)) from.Load(row + 1, first_column, next);
    if (has(row)) {
      DTRAIN_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        float dy[kPair];
        now[j].ToFloat(dy);
        DTRAIN_UNROLL
        for (int i = 0; i < kSpreadColumns; ++i) {
          const int tap_column = i + kPadding + kPadding / 2 * 2 - 2 * j;
          if (tap_column < 0 || tap_column >= kKernel) continue;
          DTRAIN_UNROLL
          for (int a = 0; a < kKernel; ++a) {
            for (int c = 0; c < kPair; ++c) open[a][i][c] += dy[c] * taps.of[a * kKernel + tap_column][c];
          }
        }
      }
    }
    DTRAIN_UNROLL
    for (int a = 0; a < 2; ++a) {
      const int complete = 2 * row - kPadding + a;
      if (complete >= strip.first_row && complete < end_row) to.Store(complete, strip.first_column, open[a]);
    }
    MoveUp<2>(open);
  }
}

// For the gradient of the taps, the threads of a block work on further strips of the same channels.
constexpr int kPairsOfBlock = 16, kStripsOfBlock = 8, kTapsThreads = kPairsOfBlock * kStripsOfBlock;

template <int kKernel>
struct TapsSums {
  float of[kKernel * kKernel][kPair];
};

template <int kKernel>
struct TapsMemory {
  float sums[kStripsOfBlock][kKernel * kKernel][kPairsOfBlock * kPair];
};

inline DTRAIN_HOST_DEVICE int TapsColumns(int channels) {
  return (channels / kPair + kPairsOfBlock - 1) / kPairsOfBlock;
}

// The sums of a thread of block (`column`, `part`) over its strips.
template <typename T, int kKernel, int kStride>
DTRAIN_HOST_DEVICE TapsSums<kKernel> TapsThread(const DepthwiseTapsArguments& arguments, int column, int part,
                                                int thread) {
  using M = Meeting<kKernel, kStride>;
  const DepthwiseShape& s = arguments.shape;
  TapsSums<kKernel> sums = {};
  const int channel = (column * kPairsOfBlock + thread % kPairsOfBlock) * kPair;
  if (channel >= s.channels) return sums;
  const auto strips = static_cast<unsigned>(
      NumStrips(s.images, s.out_height, s.out_width, arguments.rows_per_thread, M::kStripColumns));
  for (auto number = static_cast<unsigned>(part * kStripsOfBlock + thread / kPairsOfBlock); number < strips;
       number += static_cast<unsigned>(arguments.parts * kStripsOfBlock)) {
    Strip strip = StripOf(number, /*pairs=*/1, s.out_height, s.out_width, arguments.rows_per_thread, M::kStripColumns);
    strip.channel = channel;
    const Image<const T> x(arguments.x, strip, s.channels, s.height, s.width);
    const Image<const T> dy(arguments.dy, strip, s.channels, s.out_height, s.out_width);
    // The rows of dy that meet the row of x; the last one is in `last` until it is needed.
    float open[M::kOpen][M::kStripColumns][kPair] = {};
    Pair<T> last[M::kStripColumns];
    const auto load = [&](int row) {
      DTRAIN_UNROLL
      for (int i = 0; i < M::kStripColumns; ++i) last[i] = {};
      if (row < strip.rows) dy.Load(strip.first_row + row, strip.first_column, last);
    };
    const auto take = [&] {
      DTRAIN_UNROLL
      for (int i = 0; i < M::kStripColumns; ++i) last[i].ToFloat(open[M::kOpen - 1][i]);
    };
    load(0);
    take();
    load(1);
    const auto add = [&](auto phase, const Pair<T>(&columns)[M::kColumns]) {
      DTRAIN_UNROLL
      for (int j = 0; j < M::kColumns; ++j) {
        float value[kPair];
        columns[j].ToFloat(value);
        M::template ForColumn<decltype(phase)::value>(j, [&](int a, int i, int tap) {
          for (int c = 0; c < kPair; ++c) sums.of[tap][c] += value[c] * open[a][i][c];
        });
      }
    };
    GoDown<kKernel, kStride>(x, strip, s.height, add, [&](int step) {
      MoveUp<1>(open);
      take();
      load(step + 2);
    });
  }
  return sums;
}

// Step 1 for each thread of a block.
template <int kKernel>
DTRAIN_HOST_DEVICE void KeepTapsSums(const TapsSums<kKernel>& sums, int thread, TapsMemory<kKernel>& memory) {
  DTRAIN_UNROLL
  for (int tap = 0; tap < kKernel * kKernel; ++tap) {
    for (int c = 0; c < kPair; ++c) {
      memory.sums[thread / kPairsOfBlock][tap][thread % kPairsOfBlock * kPair + c] = sums.of[tap][c];
    }
  }
}

// Step 2 for each thread: writes the block's sums.
template <int kKernel>
DTRAIN_HOST_DEVICE void WriteTapsSums(const DepthwiseTapsArguments& arguments, int column, int part, int thread,
                                      const TapsMemory<kKernel>& memory) {
  constexpr int kChannels = kPairsOfBlock * kPair, kTaps = kKernel * kKernel;
  const int channels = arguments.shape.channels;
  for (int i = thread; i < kTaps * kChannels; i += kTapsThreads) {
    const int tap = i / kChannels, channel = column * kChannels + i % kChannels;
    if (channel >= channels) continue;
    float total = 0;
    for (int strip = 0; strip < kStripsOfBlock; ++strip) total += memory.sums[strip][tap][i % kChannels];
    arguments.sums[(static_cast<int64_t>(part) * kTaps + tap) * channels + channel] = total;
  }
}

// Returns DepthwiseTapsArguments::parts for the current device. The same for every launch on it.
int NumTapsParts(const DepthwiseShape& shape);

// Start a kernel for a half type on `stream` (a cudaStream_t) of the current device. Return a cudaError_t.
int LaunchDepthwise(const DepthwiseArguments& arguments, Element element, void* stream);
int LaunchDepthwiseTaps(const DepthwiseTapsArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
