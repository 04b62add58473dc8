// The kernels of batch normalisation on the CPU: the functions of their threads in loops.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "models/norm_kernels.h"

namespace dtrain::models::stand_in {

// What a GPU would decide. Tests change it.
inline int64_t num_threads = 1000;
inline int num_parts = 3, num_image_parts = 2;
inline bool last_part_first = false;

// Calls `with` with a value of the type that `element` names.
template <typename With>
void ForElement(kernels::Element element, const With& with) {
  if (element == kernels::Element::kFloat) return with(float{});
  if (element == kernels::Element::kHalf) return with(c10::Half{});
  with(c10::BFloat16{});
}

// Calls `work` for each thread of a launch that needs one thread for each group of channels at least.
template <typename Work>
void ForThreads(int64_t channels, const Work& work) {
  const int64_t threads = std::max(num_threads, channels / kernels::kWidth);
  for (int64_t thread = 0; thread < threads; ++thread) work(thread, threads);
}

// Runs the blocks of a launch that adds up. `prepare` fills a block's memory, `add` returns a thread's sums.
template <typename Prepare, typename Add, typename Finish>
void AddUp(int64_t channels, const kernels::SumsMemory& sums, const Prepare& prepare, const Add& add,
           const Finish& finish) {
  const auto memory = std::make_unique<kernels::BlockMemory>();
  for (int64_t column = 0; column < kernels::NumColumns(channels); ++column) {
    for (int turn = 0; turn < sums.parts; ++turn) {
      const int part = last_part_first ? sums.parts - 1 - turn : turn;
      std::vector<kernels::Place> places;
      for (int thread = 0; thread < kernels::kThreadsOfBlock; ++thread) {
        places.emplace_back(column, part, sums.parts, thread);
      }
      prepare(places, *memory);
      std::vector<kernels::ChannelSums> of_threads;
      for (const auto& place : places) of_threads.push_back(add(place, *memory));
      for (size_t i = 0; i < places.size(); ++i) kernels::KeepSums(places[i], of_threads[i], *memory);
      const auto for_each = [](const auto& step) {
        for (int thread = 0; thread < kernels::kThreadsOfBlock; ++thread) step(thread);
      };
      const int64_t first = places[0].first_channel;
      for_each([&](int t) { kernels::WritePartialSums(*memory, first, part, channels, t, sums.partial); });
      if (++sums.finished[column] < static_cast<unsigned>(sums.parts)) continue;
      sums.finished[column] = 0;
      for_each([&](int t) { kernels::AddSlice(sums, first, channels, t, *memory); });
      for_each([&](int t) {
        kernels::FinishChannels(*memory, first, channels, t, [&](int64_t channel, int of_block, double a, double b) {
          finish(channel, memory->shift[of_block], a, b);
        });
      });
    }
  }
}

inline void Statistics(const kernels::StatisticsArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    using T = decltype(type);
    const auto prepare = [&](const std::vector<kernels::Place>& places, kernels::BlockMemory& memory) {
      for (const auto& place : places) kernels::SampleRow<T>(arguments, place, memory);
      for (int thread = 0; thread < kernels::kThreadsOfBlock; ++thread) kernels::FindShift(thread, memory);
    };
    const auto add = [&](const auto& place, const auto& memory) {
      return kernels::StatisticsThread<T>(arguments, place, memory);
    };
    AddUp(arguments.channels, arguments.sums, prepare, add, [&](int64_t channel, double shift, double a, double b) {
      kernels::FinishStatistics(arguments, channel, shift, a, b);
    });
  });
}

inline void Forward(const kernels::ForwardArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    kernels::ForForward(arguments, [&](auto activation, auto normalises_z) {
      ForThreads(arguments.channels, [&](int64_t thread, int64_t threads) {
        kernels::ForwardThread<decltype(type), activation.value, normalises_z.value>(arguments, thread, threads);
      });
    });
  });
}

inline void Pool(const kernels::PoolArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    ForThreads(arguments.channels, [&](int64_t thread, int64_t threads) {
      kernels::PoolThread<decltype(type)>(arguments, thread, threads);
    });
  });
}

inline void Sum(const kernels::SumArguments& arguments, kernels::Element element) {
  const auto nothing = [](const auto&, auto&) {};
  ForElement(element, [&](auto type) {
    kernels::ForSum<decltype(type)>(arguments.of, [&](auto gradient) {
      using Gradient = typename decltype(gradient)::Of;
      const auto add = [&](const auto& place, const auto&) {
        return kernels::SumThread<decltype(type), Gradient>(arguments, place);
      };
      AddUp(arguments.of.channels, arguments.sums, nothing, add,
            [&](int64_t channel, double, double a, double b) { kernels::FinishSums(arguments, channel, a, b); });
    });
  });
}

inline void Backward(const kernels::BackwardArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    using T = decltype(type);
    ForThreads(arguments.of.channels, [&](int64_t thread, int64_t threads) {
      if (arguments.of.activation == Activation::kReluPool) {
        return kernels::PoolBackwardThread<T>(arguments, thread, threads);
      }
      kernels::ForBackward<T>(arguments.of, [&](auto gradient) {
        kernels::BackwardThread<T, typename decltype(gradient)::Of>(arguments, thread, threads);
      });
    });
  });
}

inline void PairSum(const kernels::PairSumArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    const auto nothing = [](const auto&, auto&) {};
    const auto add = [&](const auto& place) { return kernels::PairSumThread<decltype(type)>(arguments, place); };
    const int64_t channels = arguments.of_x.of.channels;
    AddUp(
        channels, arguments.of_x.sums, nothing, [&](const auto& place, const auto&) { return add(place).of_x; },
        [&](int64_t channel, double, double a, double b) { kernels::FinishSums(arguments.of_x, channel, a, b); });
    AddUp(
        channels, arguments.z_sums, nothing, [&](const auto& place, const auto&) { return add(place).of_z; },
        [&](int64_t channel, double, double a, double b) { kernels::FinishZSums(arguments, channel, a, b); });
  });
}

inline void PairBackward(const kernels::PairBackwardArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    ForThreads(arguments.of_x.of.channels, [&](int64_t thread, int64_t threads) {
      kernels::PairBackwardThread<decltype(type)>(arguments, thread, threads);
    });
  });
}

// Runs the blocks of a launch that adds up each image's pixels. `add` returns a thread's sums.
template <int kSums, typename Add>
void AddUpImages(int64_t images, int64_t channels, int parts, float factor, float* sums, const Add& add) {
  const auto memory = std::make_unique<kernels::ImageMemory<kSums>>();
  for (int64_t number = 0; number < kernels::NumImageBlocks(images, channels, parts); ++number) {
    const kernels::ImageBlock block(number, channels, parts);
    for (int thread = 0; thread < kernels::kThreadsOfBlock; ++thread) {
      const kernels::Place place(block.column, block.part, parts, thread);
      kernels::KeepSums(place, add(block, place), *memory);
    }
    for (int thread = 0; thread < kernels::kThreadsOfBlock; ++thread) {
      kernels::WriteImageSums(*memory, block, images, channels, thread, factor, sums);
    }
  }
}

inline void Squeeze(const kernels::SqueezeArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    AddUpImages<1>(arguments.images, arguments.channels, arguments.parts, 1.0F / static_cast<float>(arguments.pixels),
                   arguments.means, [&](const auto& block, const auto& place) {
                     return kernels::SqueezeThread<decltype(type)>(arguments, block, place);
                   });
  });
}

inline void ImageSums(const kernels::ImageSumsArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    AddUpImages<kernels::kImageSums>(kernels::ImagesOf(arguments.of), arguments.of.channels, arguments.parts, 1.0F,
                                     arguments.sums, [&](const auto& block, const auto& place) {
                                       return kernels::ImageSumsThread<decltype(type)>(arguments, block, place);
                                     });
  });
}

inline void AddImages(const kernels::AddImagesArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    const auto nothing = [](const auto&, auto&) {};
    const auto add = [&](const auto& place, const auto&) {
      return kernels::AddImagesThread<decltype(type)>(arguments, place);
    };
    AddUp(arguments.of.channels, arguments.sums, nothing, add,
          [&](int64_t channel, double, double a, double b) { kernels::FinishSums(arguments, channel, a, b); });
  });
}

inline constexpr NormKernels kKernels = {
    .num_parts = [](int64_t, int64_t) { return num_parts; },
    .statistics = &Statistics,
    .forward = &Forward,
    .pool = &Pool,
    .sum = &Sum,
    .backward = &Backward,
    .pair_sum = &PairSum,
    .pair_backward = &PairBackward,
    .num_image_parts = [](int64_t, int64_t, int64_t) { return num_image_parts; },
    .squeeze = &Squeeze,
    .image_sums = &ImageSums,
    .add_images = &AddImages,
};

}  // namespace dtrain::models::stand_in
