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
  int kernel, stride;  // 3 or 5, and 1 or 2; 7, and 1
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
  static DTRAIN_HOST_DEVICE Pair Of(const Pair& pair) { return pair; }
};

struct FloatPair {
  float values[kPair];

  DTRAIN_HOST_DEVICE void ToFloat(float (&to)[kPair]) const {
    for (int c = 0; c < kPair; ++c) to[c] = values[c];
  }
  template <typename T>
  static DTRAIN_HOST_DEVICE FloatPair Of(const Pair<T>& pair) {
    FloatPair floats;
    pair.ToFloat(floats.values);
    return floats;
  }
};

// What a thread keeps of its operands for many rows. As floats, those of 7×7 would need all registers.
template <typename T, int kKernel>
using Kept = std::conditional_t<kKernel == 7, Pair<T>, FloatPair>;

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

// kColumns neighbouring columns of an image's rows, one row after the other, for two channels. Columns outside of the
// image are zeros.
template <typename T, int kColumns>
class StripRows {
 public:
  using Element = std::remove_const_t<T>;

  template <typename Data>
  DTRAIN_HOST_DEVICE StripRows(Data* tensor, const Strip& strip, int channels, int height, int width, int first_row,
                               int first_column)
      : at_(static_cast<T*>(tensor) +
            ((static_cast<int64_t>(strip.image) * height + first_row) * width + first_column) * channels +
            strip.channel),
        channels_(static_cast<unsigned>(channels)),
        row_(width * channels) {
    DTRAIN_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      if (first_column + j >= 0 && first_column + j < width) inside_ |= 1U << j;
    }
  }

  DTRAIN_HOST_DEVICE void Next() { at_ += row_; }
  DTRAIN_HOST_DEVICE void Load(Pair<Element> (&columns)[kColumns]) const {
    DTRAIN_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      columns[j] = {};
      if (IsInside(j)) columns[j] = *reinterpret_cast<const Pair<Element>*>(Column(j));
    }
  }
  DTRAIN_HOST_DEVICE void Store(const FloatPair (&sums)[kColumns]) const {
    DTRAIN_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      if (IsInside(i)) *reinterpret_cast<Pair<T>*>(Column(i)) = Pair<T>::FromFloat(sums[i].values);
    }
  }

 private:
  DTRAIN_HOST_DEVICE bool IsInside(int j) const { return (inside_ & (1U << j)) != 0; }
  DTRAIN_HOST_DEVICE T* Column(int j) const {
    return at_ + static_cast<uint64_t>(channels_) * static_cast<unsigned>(j);
  }

  T* at_;
  unsigned channels_;
  int row_;
  unsigned inside_ = 0;  // a bit for each column
};

// Moves rows up by kBy. The last ones become zeros.
template <int kBy, int kRows, int kColumns, typename Values>
DTRAIN_HOST_DEVICE void MoveUp(Values (&rows)[kRows][kColumns]) {
  DTRAIN_UNROLL
  for (int a = 0; a < kRows; ++a) {
    DTRAIN_UNROLL
    for (int i = 0; i < kColumns; ++i) rows[a][i] = a + kBy < kRows ? rows[a + kBy < kRows ? a + kBy : a][i] : Values{};
  }
}

// The taps of two channels.
template <typename T, int kKernel>
struct Taps {
  Kept<T, kKernel> of[kKernel * kKernel];

  // `turned` by half a turn: the gradient of a convolution with stride 1 is a convolution with its turned taps.
  DTRAIN_HOST_DEVICE Taps(const void* taps, int channels, int channel, bool turned) {
    constexpr int kTaps = kKernel * kKernel;
    DTRAIN_UNROLL
    for (int tap = 0; tap < kTaps; ++tap) {
      const int from = turned ? kTaps - 1 - tap : tap;
      const Pair<T> pair = *reinterpret_cast<const Pair<T>*>(static_cast<const T*>(taps) + from * channels + channel);
      of[tap] = Kept<T, kKernel>::Of(pair);
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
  // Calls meet(open row, column of the strip, column of the input, tap) for all that meet: for one column of the input
  // after the other, or, so that taps and open rows that are kept as they are in memory are taken apart once, for one
  // tap after the other. The order of sums is the same.
  template <int kPhase, typename Meet>
  static DTRAIN_HOST_DEVICE void ForAll(const Meet& meet) {
    constexpr int kOuter = kKernel == 7 ? 1 : kColumns, kInner = kKernel == 7 ? kKernel : 1;
    DTRAIN_UNROLL
    for (int outer = 0; outer < kOuter; ++outer) {
      DTRAIN_UNROLL
      for (int a = 0; a < kOpen; ++a) {
        const int tap_row = TapRow(a, kPhase);
        if (tap_row < 0 || tap_row >= kKernel) continue;
        DTRAIN_UNROLL
        for (int inner = 0; inner < kInner; ++inner) {
          DTRAIN_UNROLL
          for (int i = 0; i < kStripColumns; ++i) {
            const int tap_column = kKernel == 7 ? inner : outer - i * kStride;
            if (tap_column < 0 || tap_column >= kKernel) continue;
            meet(a, i, i * kStride + tap_column, tap_row * kKernel + tap_column);
          }
        }
      }
    }
  }
};

// Calls work(phase, columns) with phase 0, then with phase 1 if the stride is 2, for each step, and done(step) after
// phase 0. `columns` are loaded from `tensor`; work is not called for rows outside of the image or of the strip.
template <typename T, int kKernel, int kStride, typename Work, typename Done>
DTRAIN_HOST_DEVICE void GoDown(const void* tensor, const Strip& strip, const DepthwiseShape& s, const Work& work,
                               const Done& done) {
  using M = Meeting<kKernel, kStride>;
  const int first_row = strip.first_row * kStride - kKernel / 2, height = s.height;
  StripRows<const T, M::kColumns> from(tensor, strip, s.channels, height, s.width, first_row,
                                       strip.first_column * kStride - kKernel / 2);
  const int steps = strip.rows + M::kOpen - 1, end_row = first_row + (strip.rows - 1) * kStride + kKernel;
  const auto has = [&](int row) { return row >= 0 && row < height && row < end_row; };
  Pair<T> next[M::kColumns] = {};
  if (has(first_row)) from.Load(next);
  for (int step = 0; step < steps; ++step) {
    DTRAIN_UNROLL
    for (int phase = 0; phase < kStride; ++phase) {
      const int row = first_row + step * kStride + phase;
      Pair<T> now[M::kColumns];
      DTRAIN_UNROLL
      for (int j = 0; j < M::kColumns; ++j) now[j] = next[j];
      from.Next();
      if (has(row + 1)) from.Load(next);
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
  StripRows<T, M::kStripColumns> to(arguments.to, strip, s.channels, s.out_height, s.out_width, strip.first_row,
                                    strip.first_column);
  const Taps<T, kKernel> taps(arguments.taps, s.channels, strip.channel, arguments.backward);
  FloatPair open[M::kOpen][M::kStripColumns] = {};
  const auto add = [&](auto phase, const Pair<T>(&columns)[M::kColumns]) {
    M::template ForAll<decltype(phase)::value>([&](int a, int i, int j, int tap) {
      float x[kPair], factor[kPair];
      columns[j].ToFloat(x);
      taps.of[tap].ToFloat(factor);
      for (int c = 0; c < kPair; ++c) open[a][i].values[c] += x[c] * factor[c];
    });
  };
  GoDown<T, kKernel, kStride>(arguments.from, strip, s, add, [&](int step) {
    if (step >= M::kOpen - 1) {
      to.Store(open[0]);
      to.Next();
    }
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
  const Taps<T, kKernel> taps(arguments.taps, s.channels, strip.channel, /*turned=*/false);
  // The strip begins at an even row and column.
  const int first_row = strip.first_row / 2 - kPadding / 2, end_row = strip.first_row + strip.rows;
  StripRows<const T, kColumns> from(arguments.from, strip, s.channels, s.out_height, s.out_width, first_row,
                                    strip.first_column / 2 - kPadding / 2);
  StripRows<T, kSpreadColumns> to(arguments.to, strip, s.channels, s.height, s.width, strip.first_row,
                                  strip.first_column);
  const auto has = [&](int row) { return row >= 0 && row < s.out_height && 2 * row - kPadding < end_row; };
  FloatPair open[kKernel][kSpreadColumns] = {};
  Pair<T> next[kColumns] = {};
  if (has(first_row)) from.Load(next);
  for (int row = first_row; 2 * row - kPadding < end_row; ++row) {
    Pair<T> now[kColumns];
    DTRAIN_UNROLL
    for (int j = 0; j < kColumns; ++j) now[j] = next[j];
    from.Next();
    if (has(row + 1)) from.Load(next);
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
            const FloatPair& factor = taps.of[a * kKernel + tap_column];
            for (int c = 0; c < kPair; ++c) open[a][i].values[c] += dy[c] * factor.values[c];
          }
        }
      }
    }
    DTRAIN_UNROLL
    for (int a = 0; a < 2; ++a) {
      const int complete = 2 * row - kPadding + a;
      if (complete < strip.first_row || complete >= end_row) continue;
      to.Store(open[a]);
      to.Next();
    }
    MoveUp<2>(open);
  }
}

// For the gradient of the taps, the threads of a block work on further strips of the same channels: as many as have
// room for their sums.
constexpr int kPairsOfBlock = 16;
constexpr DTRAIN_HOST_DEVICE int StripsOfBlock(int kernel) { return kernel == 7 ? 4 : 8; }
constexpr DTRAIN_HOST_DEVICE int TapsThreads(int kernel) { return kPairsOfBlock * StripsOfBlock(kernel); }

template <int kKernel>
struct TapsSums {
  float of[kKernel * kKernel][kPair];
};

template <int kKernel>
struct TapsMemory {
  float sums[StripsOfBlock(kKernel)][kKernel * kKernel][kPairsOfBlock * kPair];
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
  for (auto number = static_cast<unsigned>(part * StripsOfBlock(kKernel) + thread / kPairsOfBlock); number < strips;
       number += static_cast<unsigned>(arguments.parts * StripsOfBlock(kKernel))) {
    Strip strip = StripOf(number, /*pairs=*/1, s.out_height, s.out_width, arguments.rows_per_thread, M::kStripColumns);
    strip.channel = channel;
    StripRows<const T, M::kStripColumns> dy(arguments.dy, strip, s.channels, s.out_height, s.out_width, strip.first_row,
                                            strip.first_column);
    // The rows of dy that meet the row of x; the last one is in `last` until it is needed.
    Kept<T, kKernel> open[M::kOpen][M::kStripColumns] = {};
    Pair<T> last[M::kStripColumns];
    const auto load = [&](int row) {
      DTRAIN_UNROLL
      for (int i = 0; i < M::kStripColumns; ++i) last[i] = {};
      if (row < strip.rows) dy.Load(last);
      dy.Next();
    };
    const auto take = [&] {
      DTRAIN_UNROLL
      for (int i = 0; i < M::kStripColumns; ++i) open[M::kOpen - 1][i] = Kept<T, kKernel>::Of(last[i]);
    };
    load(0);
    take();
    load(1);
    const auto add = [&](auto phase, const Pair<T>(&columns)[M::kColumns]) {
      M::template ForAll<decltype(phase)::value>([&](int a, int i, int j, int tap) {
        float value[kPair], factor[kPair];
        columns[j].ToFloat(value);
        open[a][i].ToFloat(factor);
        for (int c = 0; c < kPair; ++c) sums.of[tap][c] += value[c] * factor[c];
      });
    };
    GoDown<T, kKernel, kStride>(arguments.x, strip, s, add, [&](int step) {
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
  for (int i = thread; i < kTaps * kChannels; i += TapsThreads(kKernel)) {
    const int tap = i / kChannels, channel = column * kChannels + i % kChannels;
    if (channel >= channels) continue;
    float total = 0;
    for (int strip = 0; strip < StripsOfBlock(kKernel); ++strip) total += memory.sums[strip][tap][i % kChannels];
    arguments.sums[(static_cast<int64_t>(part) * kTaps + tap) * channels + channel] = total;
  }
}

// Returns DepthwiseTapsArguments::parts for the current device. The same for every launch on it.
int NumTapsParts(const DepthwiseShape& shape);

// Start a kernel for a half type on `stream` (a cudaStream_t) of the current device. Return a cudaError_t.
int LaunchDepthwise(const DepthwiseArguments& arguments, Element element, void* stream);
int LaunchDepthwiseTaps(const DepthwiseTapsArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
