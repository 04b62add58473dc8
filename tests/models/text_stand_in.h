// The kernels of transformers on the CPU: the functions of their threads in loops.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "models/text_kernels.h"
#include "tests/models/norm_stand_in.h"

namespace dtrain::models::stand_in {

struct SumsOfThread {
  kernels::RowSums values;
};

// Replaces each thread's sums by the block's.
inline void BlockSum(std::vector<SumsOfThread>& of_threads) {
  for (int row = 0; row < kernels::kRowsAtOnce; ++row) {
    double total = 0;
    for (const SumsOfThread& thread : of_threads) total += thread.values[row];
    for (SumsOfThread& thread : of_threads) thread.values[row] = static_cast<float>(total);
  }
}

inline std::vector<kernels::RowPlace> RowPlaces(int64_t block, int64_t blocks, int64_t columns) {
  std::vector<kernels::RowPlace> places;
  for (int thread = 0; thread < kernels::WarpsOfRow(columns) * kernels::kLanes; ++thread) {
    places.emplace_back(block, blocks, thread);
  }
  return places;
}

inline void Finish(const kernels::ColumnSums& sums) {
  const auto memory = std::make_unique<kernels::FinishMemory>();
  for (int64_t block = 0; block * kernels::kLanes < sums.columns; ++block) {
    for (int thread = 0; thread < kernels::kThreadsOfFinish; ++thread) AddColumnSlice(sums, block, thread, *memory);
    for (int thread = 0; thread < kernels::kThreadsOfFinish; ++thread) FinishColumn(sums, block, thread, *memory);
  }
}

inline void AddNorm(const kernels::AddNormArguments& arguments, kernels::Element element) {
  const auto run = [&](auto t, auto x, auto first_norm) {
    const kernels::RandomNumbers random(arguments.random);
    for (int64_t block = 0; block < num_parts; ++block) {
      const auto places = RowPlaces(block, num_parts, arguments.columns);
      std::vector<SumsOfThread> sums(places.size()), squares(places.size());
      for (int64_t first = places[0].first_row; first < arguments.rows; first += places[0].row_step) {
        std::vector<kernels::AddNormRows<decltype(t), decltype(x), first_norm.value>> threads;
        for (const auto& place : places) threads.emplace_back(arguments, place, first);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Add(random, sums[i].values);
        BlockSum(sums);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Centre(sums[i].values, squares[i].values);
        BlockSum(squares);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Normalise(random, squares[i].values);
      }
    }
  };
  ForElement(element, [&](auto type) { kernels::ForForm<decltype(type)>(arguments.form, run); });
}

inline void AddNormGradient(const kernels::AddNormGradientArguments& arguments, kernels::Element element) {
  const auto run = [&](auto t, auto x, auto first_norm) {
    for (int64_t block = 0; block < arguments.sums.parts; ++block) {
      const auto places = RowPlaces(block, arguments.sums.parts, arguments.columns);
      std::vector<SumsOfThread> sums(places.size()), products(places.size());
      std::vector<kernels::AddNormSums> columns(places.size());
      for (int64_t first = places[0].first_row; first < arguments.rows; first += places[0].row_step) {
        std::vector<kernels::AddNormGradientRows<decltype(t), decltype(x), first_norm.value>> threads;
        for (const auto& place : places) threads.emplace_back(arguments, place, first);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Load(columns[i], sums[i].values, products[i].values);
        BlockSum(sums);
        BlockSum(products);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Store(sums[i].values, products[i].values, columns[i]);
      }
      for (size_t i = 0; i < places.size(); ++i) WriteAddNormSums(arguments, places[i], block, columns[i]);
    }
  };
  ForElement(element, [&](auto type) { kernels::ForForm<decltype(type)>(arguments.form, run); });
  Finish(arguments.sums);
}

// Runs the blocks of a launch that adds up columns. `add` writes a thread's sums.
template <typename Add>
void AddUpColumns(const kernels::ColumnSums& sums, const Add& add) {
  const auto memory = std::make_unique<kernels::ColumnMemory>();
  for (int64_t tile = 0; tile < kernels::NumTiles(sums.columns); ++tile) {
    for (int part = 0; part < sums.parts; ++part) {
      for (int thread = 0; thread < kernels::kThreadsOfColumns; ++thread) {
        const kernels::ColumnPlace place(tile, part, sums.parts, thread);
        float of_thread[kernels::kWidth];
        add(place, of_thread);
        KeepColumns(place, of_thread, *memory);
      }
      for (int thread = 0; thread < kernels::kThreadsOfColumns; ++thread) {
        WriteColumn(*memory, tile * kernels::kColumnsOfBlock, part, thread, sums);
      }
    }
  }
  Finish(sums);
}

inline void Gelu(const kernels::GeluArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    ForThreads(arguments.columns, [&](int64_t thread, int64_t threads) {
      kernels::GeluThread<decltype(type)>(arguments, thread, threads);
    });
  });
}

inline void GeluGradient(const kernels::GeluGradientArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    AddUpColumns(arguments.dbias, [&](const auto& place, auto& sums) {
      kernels::GeluGradientThread<decltype(type)>(arguments, place, sums);
    });
  });
}

inline void Join(const kernels::JoinArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    AddUpColumns(arguments.sums,
                 [&](const auto& place, auto& sums) { kernels::JoinThread<decltype(type)>(arguments, place, sums); });
  });
}

// Returns the sum over the `warp`-th 32 of these.
template <typename T>
kernels::ExpSum WarpSum(const std::vector<kernels::ExpSum>& of_threads, int warp) {
  const auto first = of_threads.begin() + static_cast<std::ptrdiff_t>(warp) * kernels::kLanes;
  kernels::ExpSum total{-INFINITY, 0};
  std::for_each_n(first, kernels::kLanes, [&](const auto& of) { total.largest = fmaxf(total.largest, of.largest); });
  std::for_each_n(first, kernels::kLanes, [&](const auto& of) { total.sum += RelativeTo<T>(total.largest, of); });
  return total;
}

inline void CrossEntropy(const kernels::CrossEntropyArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < arguments.rows; ++row) {
      if (arguments.answers[row] == arguments.ignored) {
        IgnoreRow(arguments, row);
        continue;
      }
      std::vector<kernels::ExpSum> of_threads;
      for (int thread = 0; thread < kernels::kThreadsOfLogits; ++thread) {
        of_threads.push_back(kernels::SumLogits<T>(arguments, row, thread));
      }
      kernels::ExpSum of_warps[kernels::kWarpsOfLogits];
      for (int warp = 0; warp < kernels::kWarpsOfLogits; ++warp) of_warps[warp] = WarpSum<T>(of_threads, warp);
      kernels::FinishRow<T>(arguments, row, of_warps);
    }
  });
}

inline void CrossEntropyGradient(const kernels::CrossEntropyGradientArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    for (int64_t row = 0; row < arguments.rows; ++row) {
      for (int thread = 0; thread < kernels::kThreadsOfLogits; ++thread) {
        kernels::CrossEntropyGradientThread<decltype(type)>(arguments, row, thread);
      }
    }
  });
}

inline kernels::RandomState Random() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return {.seed = generator.get<at::CPUGeneratorImpl>()->random64()};
}

inline constexpr TextKernels kTextKernels = {
    .random = &Random,
    .norm_parts = [](int64_t, int64_t) { return num_parts; },
    .column_parts = [](int64_t, int64_t) { return num_parts; },
    .norm = &AddNorm,
    .norm_gradient = &AddNormGradient,
    .gelu = &Gelu,
    .gelu_gradient = &GeluGradient,
    .join = &Join,
    .cross_entropy = &CrossEntropy,
    .cross_entropy_gradient = &CrossEntropyGradient,
};

}  // namespace dtrain::models::stand_in
