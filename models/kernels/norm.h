// y = activation(norm(x) [+ z | + norm(z)]) with norm(x) = (x − mean) · σ⁻¹ · γ + β, and its gradients, for
// channels-last tensors: all that lies between the convolutions of a network, in one pass forward and two backward.
// For the backward pass nothing of y is kept: it is computed again from x. But with ReLU of a sum, one bit per element
// is (whether ReLU lets the element pass), since reading z again takes longer. norm_pool.h has the fourth activation,
// ReLU and max pooling. Without ReLU, the activation may be scaled by a factor for each image and channel:
// y = activation(norm(x)) · s [+ z], for stochastic depth and squeeze-and-excitation (excitation.h).
#pragma once

#include <cmath>
#include <type_traits>

#include "models/kernels/channel_sums.h"

namespace dtrain::models::kernels {

enum class Activation { kNone, kRelu, kSilu, kReluPool };

// One float32 per channel. A gradient's kernel needs no bias unless it computes y again.
struct NormOfChannels {
  const float *mean, *inverse_std, *weight, *bias;
};

// Factors for the rows of each image. There are fewer than 2³¹ rows.
struct Scale {
  const void* factors;  // images × channels; null: none
  int64_t pixels;       // rows per image

  DTRAIN_HOST_DEVICE int64_t ImageOf(int64_t row) const {
    return static_cast<uint32_t>(row) / static_cast<uint32_t>(pixels);
  }
};

// All pointers are to the device's memory and aligned to 16 bytes. x, z, y, factors and the gradients have the type `T`
// that `Element` names.
struct ForwardArguments {
  const void *x, *z;  // z: null if nothing is added
  void* y;
  // Of ReLU of a sum: bit i of byte k is set if it lets element 8 k + i of y pass (above 0 or NaN). Otherwise null.
  uint8_t* mask;
  NormOfChannels norm, z_norm;
  bool normalises_z;
  int64_t rows, channels;
  Activation activation;
  Scale scale;  // of kNone and kSilu
};

// The constants of eight channels.
struct Affine {
  float mean[kWidth], scale[kWidth], bias[kWidth];

  DTRAIN_HOST_DEVICE Affine(const NormOfChannels& norm, int64_t channel) {
    for (int i = 0; i < kWidth; ++i) {
      mean[i] = norm.mean[channel + i];
      scale[i] = norm.inverse_std[channel + i] * norm.weight[channel + i];
      bias[i] = norm.bias[channel + i];
    }
  }
  DTRAIN_HOST_DEVICE float operator()(int i, float x) const { return (x - mean[i]) * scale[i] + bias[i]; }
};

// For half types, the fast instructions of a GPU are exact enough: their errors are below 1e-5. They are named, because
// nvcc adds others for denormal numbers, and instructions, not memory, limit the kernels with SiLU.
template <typename T>
DTRAIN_HOST_DEVICE float Sigmoid(float x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) < sizeof(float)) {
    constexpr float kLog2OfE = 1.44269504F;
    float power, sigmoid;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-kLog2OfE * x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(sigmoid) : "f"(1.0F + power));
    return sigmoid;
  }
#endif
  return 1.0F / (1.0F + expf(-x));
}

// NaN passes, as in ATen's ReLU: a step that is not finite must be seen.
inline DTRAIN_HOST_DEVICE bool PassesRelu(float value) { return !(value <= 0); }

template <typename T, Activation kActivation, bool kNormalisesZ>
DTRAIN_HOST_DEVICE void ForwardThread(const ForwardArguments& arguments, int64_t thread, int64_t threads) {
  const Rows of(arguments.channels, arguments.rows, thread, threads);
  if (of.first >= arguments.rows) return;
  const Affine norm(arguments.norm, of.channel);
  const Affine z_norm(kNormalisesZ ? arguments.z_norm : arguments.norm, of.channel);
  const Scale& scale = arguments.scale;
  const bool scales = kActivation != Activation::kRelu && scale.factors != nullptr;
  for (int64_t row = of.first; row < arguments.rows; row += of.step) {
    const int64_t at = row * arguments.channels + of.channel;
    const Eight<T> x = LoadEight<T>(arguments.x, at);
    Eight<T> z, y, factors;
    if (arguments.z != nullptr) z = LoadEight<T>(arguments.z, at);
    if (scales) factors = LoadEight<T>(scale.factors, scale.ImageOf(row) * arguments.channels + of.channel);
    unsigned mask = 0;
    for (int i = 0; i < kWidth; ++i) {
      float value = norm(i, static_cast<float>(x.values[i]));
      if constexpr (kActivation == Activation::kSilu) value *= Sigmoid<T>(value);
      if (scales) value *= static_cast<float>(factors.values[i]);
      if (arguments.z != nullptr) {
        const auto added = static_cast<float>(z.values[i]);
        value += kNormalisesZ ? z_norm(i, added) : added;
      }
      if constexpr (kActivation == Activation::kRelu) {
        const bool passes = PassesRelu(value);
        value = passes ? value : 0.0F;
        mask |= static_cast<unsigned>(passes) << i;
      }
      y.values[i] = static_cast<T>(value);
    }
    StoreEight<T>(arguments.y, at, y);
    if constexpr (kActivation == Activation::kRelu) {
      if (arguments.mask != nullptr) arguments.mask[at / kWidth] = static_cast<uint8_t>(mask);
    }
  }
}

// Size of the images whose norm, ReLU and max pooling are one operation (norm_pool.h).
struct PoolShape {
  int height, width;  // of x; rows are images × height × width
};

struct GradientArguments {
  const void *dy, *more_dy;  // more_dy: null, or a second gradient of y, which is added to dy
  const void* x;
  const void* aside;  // kRelu: the mask (uint8_t), or null; kReluPool: the places of the maxima (EightPlaces)
  NormOfChannels norm;
  int64_t rows, channels;
  Activation activation;  // kNone for a gradient that has been taken through it
  PoolShape pool;         // of kReluPool
  Scale scale;            // of kNone and kSilu
  const void* dmeans;     // of kSilu with a scale: the gradient of SiLU's means over the pixels, images × channels
};

// Sums over all rows: Σ du (β's gradient) and Σ du · (x − mean) · σ⁻¹ (γ's), for u = norm(x).
struct SumArguments {
  GradientArguments of;  // not SiLU with a scale, whose sums excitation.h finds
  SumsMemory sums;
  float *dbias, *dweight;
  // Null, or where the gradient of what the activation was applied to is written: du, but for the scale. The sums are
  // then of what was rounded to its type.
  void* dz;
};

struct BackwardArguments {
  GradientArguments of;  // its more_dy is null but for kReluPool
  // The results of SumArguments, or their sums over several ranks. Times `per_row`, they are means over all rows.
  const float *sum_dy, *sum_dy_normalised;
  float per_row;
  void* dx;
};

// The gradients below belong to one thread. Each is a function of a place `at` in the tensor, and of x there.
// ApplyScale makes of it the gradient of norm(x).

template <typename T>
struct PlainGradient {
  const void *dy, *more_dy;

  DTRAIN_HOST_DEVICE PlainGradient(const GradientArguments& of, int64_t /*channel*/) : dy(of.dy), more_dy(of.more_dy) {}

  DTRAIN_HOST_DEVICE void Load(int64_t at, float (&gradient)[kWidth]) const {
    const Eight<T> one = LoadEight<T>(dy, at);
    for (int i = 0; i < kWidth; ++i) gradient[i] = static_cast<float>(one.values[i]);
    if (more_dy == nullptr) return;
    const Eight<T> more = LoadEight<T>(more_dy, at);
    for (int i = 0; i < kWidth; ++i) gradient[i] += static_cast<float>(more.values[i]);
  }
  DTRAIN_HOST_DEVICE void operator()(int64_t /*row*/, int64_t at, const Eight<T>& /*x*/,
                                     float (&gradient)[kWidth]) const {
    Load(at, gradient);
  }
  DTRAIN_HOST_DEVICE void ApplyScale(int64_t /*row*/, float (&/*gradient*/)[kWidth]) const {}
};

// The factors of one thread's channels.
template <typename T>
struct Factors {
  Scale scale;
  int64_t channels, channel;

  DTRAIN_HOST_DEVICE Eight<T> At(const void* images_by_channels, int64_t row) const {
    return LoadEight<T>(images_by_channels, scale.ImageOf(row) * channels + channel);
  }
};

template <typename T>
struct ScaledGradient : PlainGradient<T> {
  Factors<T> factors;

  DTRAIN_HOST_DEVICE ScaledGradient(const GradientArguments& of, int64_t channel)
      : PlainGradient<T>(of, channel), factors{of.scale, of.channels, channel} {}

  DTRAIN_HOST_DEVICE void ApplyScale(int64_t row, float (&gradient)[kWidth]) const {
    const Eight<T> by = factors.At(factors.scale.factors, row);
    for (int i = 0; i < kWidth; ++i) gradient[i] *= static_cast<float>(by.values[i]);
  }
};

// Of y = ReLU(u).
template <typename T>
struct ReluGradient : PlainGradient<T> {
  Affine norm;

  DTRAIN_HOST_DEVICE ReluGradient(const GradientArguments& of, int64_t channel)
      : PlainGradient<T>(of, channel), norm(of.norm, channel) {}

  DTRAIN_HOST_DEVICE void operator()(int64_t /*row*/, int64_t at, const Eight<T>& x, float (&gradient)[kWidth]) const {
    this->Load(at, gradient);
    for (int i = 0; i < kWidth; ++i) {
      gradient[i] = PassesRelu(norm(i, static_cast<float>(x.values[i]))) ? gradient[i] : 0.0F;
    }
  }
};

// Of y = ReLU(u + z) and y = ReLU(u + norm(z)).
template <typename T>
struct MaskedGradient : PlainGradient<T> {
  const uint8_t* mask;

  DTRAIN_HOST_DEVICE MaskedGradient(const GradientArguments& of, int64_t channel)
      : PlainGradient<T>(of, channel), mask(static_cast<const uint8_t*>(of.aside)) {}

  DTRAIN_HOST_DEVICE void operator()(int64_t /*row*/, int64_t at, const Eight<T>& /*x*/,
                                     float (&gradient)[kWidth]) const {
    this->Load(at, gradient);
    const unsigned bits = mask[at / kWidth];
    for (int i = 0; i < kWidth; ++i) gradient[i] = (bits >> i & 1U) != 0 ? gradient[i] : 0.0F;
  }
};

template <typename T>
struct SiluGradient : PlainGradient<T> {
  Affine norm;

  DTRAIN_HOST_DEVICE SiluGradient(const GradientArguments& of, int64_t channel)
      : PlainGradient<T>(of, channel), norm(of.norm, channel) {}

  DTRAIN_HOST_DEVICE void operator()(int64_t /*row*/, int64_t at, const Eight<T>& x, float (&gradient)[kWidth]) const {
    this->Load(at, gradient);
    BeforeSilu(x, gradient);
  }
  DTRAIN_HOST_DEVICE void BeforeSilu(const Eight<T>& x, float (&gradient)[kWidth]) const {
    for (int i = 0; i < kWidth; ++i) {
      const float normalised = norm(i, static_cast<float>(x.values[i])), sigmoid = Sigmoid<T>(normalised);
      gradient[i] *= sigmoid * (1.0F + normalised * (1.0F - sigmoid));
    }
  }
};

// Of y = SiLU(u) · s, where the means of SiLU(u) over the pixels have a gradient, too.
template <typename T>
struct ExcitedGradient : SiluGradient<T> {
  Factors<T> factors;
  const void* dmeans;
  float per_pixel;

  DTRAIN_HOST_DEVICE ExcitedGradient(const GradientArguments& of, int64_t channel)
      : SiluGradient<T>(of, channel),
        factors{of.scale, of.channels, channel},
        dmeans(of.dmeans),
        per_pixel(1.0F / static_cast<float>(of.scale.pixels)) {}

  DTRAIN_HOST_DEVICE void operator()(int64_t row, int64_t at, const Eight<T>& x, float (&gradient)[kWidth]) const {
    this->Load(at, gradient);
    const Eight<T> by = factors.At(factors.scale.factors, row), of_mean = factors.At(dmeans, row);
    for (int i = 0; i < kWidth; ++i) {
      gradient[i] = gradient[i] * static_cast<float>(by.values[i]) + static_cast<float>(of_mean.values[i]) * per_pixel;
    }
    this->BeforeSilu(x, gradient);
  }
};

// The sums of a thread over its rows: Σ du and Σ du · (x − mean).
template <typename T, typename Gradient>
DTRAIN_HOST_DEVICE ChannelSums SumThread(const SumArguments& arguments, const Place& place) {
  const GradientArguments& of = arguments.of;
  ChannelSums sums = {};
  if (place.channel >= of.channels) return sums;
  float mean[kWidth];
  for (int i = 0; i < kWidth; ++i) mean[i] = of.norm.mean[place.channel + i];
  const Gradient gradient(of, place.channel);
  for (int64_t row = place.first_row; row < of.rows; row += place.row_step) {
    const int64_t at = row * of.channels + place.channel;
    const Eight<T> x = LoadEight<T>(of.x, at);
    float dz[kWidth];
    gradient(row, at, x, dz);
    if (arguments.dz != nullptr) {
      Eight<T> rounded;
      for (int i = 0; i < kWidth; ++i) {
        rounded.values[i] = static_cast<T>(dz[i]);
        dz[i] = static_cast<float>(rounded.values[i]);
      }
      StoreEight<T>(arguments.dz, at, rounded);
    }
    gradient.ApplyScale(row, dz);
    for (int i = 0; i < kWidth; ++i) {
      sums.first[i] += dz[i];
      sums.second[i] += dz[i] * (static_cast<float>(x.values[i]) - mean[i]);
    }
  }
  return sums;
}

// For SumArguments and AddImagesArguments.
template <typename Arguments>
DTRAIN_HOST_DEVICE void FinishSums(const Arguments& arguments, int64_t channel, double du, double du_centred) {
  arguments.dbias[channel] = static_cast<float>(du);
  arguments.dweight[channel] = static_cast<float>(du_centred * arguments.of.norm.inverse_std[channel]);
}

// Takes the gradient of eight channels through the normalisation.
struct ThroughNorm {
  float mean[kWidth], mean_dz[kWidth], slope[kWidth], scale[kWidth];
  void* dx;

  DTRAIN_HOST_DEVICE ThroughNorm(const BackwardArguments& arguments, int64_t first_channel) : dx(arguments.dx) {
    const NormOfChannels& norm = arguments.of.norm;
    for (int i = 0; i < kWidth; ++i) {
      const int64_t channel = first_channel + i;
      const float inverse_std = norm.inverse_std[channel];
      mean[i] = norm.mean[channel];
      mean_dz[i] = arguments.sum_dy[channel] * arguments.per_row;
      slope[i] = arguments.sum_dy_normalised[channel] * arguments.per_row * inverse_std;
      scale[i] = inverse_std * norm.weight[channel];
    }
  }

  template <typename T>
  DTRAIN_HOST_DEVICE void Store(int64_t at, const Eight<T>& x, const float (&dz)[kWidth]) const {
    Eight<T> of_x;
    for (int i = 0; i < kWidth; ++i) {
      of_x.values[i] =
          static_cast<T>((dz[i] - mean_dz[i] - (static_cast<float>(x.values[i]) - mean[i]) * slope[i]) * scale[i]);
    }
    StoreEight<T>(dx, at, of_x);
  }
};

template <typename T, typename Gradient>
DTRAIN_HOST_DEVICE void BackwardThread(const BackwardArguments& arguments, int64_t thread, int64_t threads) {
  const GradientArguments& of = arguments.of;
  const Rows rows(of.channels, of.rows, thread, threads);
  if (rows.first >= of.rows) return;
  const Gradient gradient(of, rows.channel);
  const ThroughNorm through_norm(arguments, rows.channel);
  for (int64_t row = rows.first; row < of.rows; row += rows.step) {
    const int64_t at = row * of.channels + rows.channel;
    const Eight<T> x = LoadEight<T>(of.x, at);
    float dz[kWidth];
    gradient(row, at, x, dz);
    gradient.ApplyScale(row, dz);
    through_norm.Store(at, x, dz);
  }
}

// Calls with(std::integral_constant<Activation, …>{}, std::bool_constant<kNormalisesZ>{}) for what a launch computes.
template <typename With>
void ForForward(const ForwardArguments& arguments, const With& with) {
  using Relu = std::integral_constant<Activation, Activation::kRelu>;
  if (arguments.activation == Activation::kSilu) {
    with(std::integral_constant<Activation, Activation::kSilu>{}, std::false_type{});
  } else if (arguments.activation == Activation::kNone) {
    with(std::integral_constant<Activation, Activation::kNone>{}, std::false_type{});
  } else if (arguments.normalises_z) {
    with(Relu{}, std::true_type{});
  } else {
    with(Relu{}, std::false_type{});
  }
}

// Names a type.
template <typename Type>
struct Named {
  using Of = Type;
};

// Call with(Named<the type of the gradient>{}) for the sums, and for the gradient of x; pooling is in norm_pool.h.
template <typename T, typename With>
void ForBackward(const GradientArguments& of, const With& with) {
  const bool scales = of.scale.factors != nullptr;
  if (of.activation == Activation::kNone)
    return scales ? with(Named<ScaledGradient<T>>{}) : with(Named<PlainGradient<T>>{});
  if (of.activation == Activation::kRelu) return with(Named<ReluGradient<T>>{});
  scales ? with(Named<ExcitedGradient<T>>{}) : with(Named<SiluGradient<T>>{});
}

// Returns in how many parts the rows are cut for the sums of LaunchStatistics and LaunchSum (SumsMemory::parts), on the
// current device. The same for every launch on it.
int NumParts(int64_t rows, int64_t channels);

// Start a kernel on `stream` (a cudaStream_t) of the current device. Return a cudaError_t.
int LaunchForward(const ForwardArguments& arguments, Element element, void* stream);
int LaunchSum(const SumArguments& arguments, Element element, void* stream);
int LaunchBackward(const BackwardArguments& arguments, Element element, void* stream);

}  // namespace dtrain::models::kernels
