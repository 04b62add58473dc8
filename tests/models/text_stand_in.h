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

// Replaces each thread's sums by those over the lanes of its row.
inline void RowSum(std::vector<SumsOfThread>& of_threads, int lanes) {
  for (auto first = of_threads.begin(); first != of_threads.end(); first += lanes) {
    for (int row = 0; row < kernels::kRowsAtOnce; ++row) {
      double total = 0;
      std::for_each_n(first, lanes, [&](const SumsOfThread& thread) { total += thread.values[row]; });
      std::for_each_n(first, lanes, [&](SumsOfThread& thread) { thread.values[row] = static_cast<float>(total); });
    }
  }
}

inline std::vector<kernels::RowPlace> RowPlaces(int64_t block, int64_t blocks, int64_t columns) {
  std::vector<kernels::RowPlace> places;
  for (int thread = 0; thread < kernels::ThreadsOfRows(columns); ++thread) {
    places.emplace_back(columns, block, blocks, thread);
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
  const auto run = [&](auto t, auto form) {
    const kernels::RandomNumbers random(arguments.random);
    for (int64_t block = 0; block < num_parts; ++block) {
      const auto places = RowPlaces(block, num_parts, arguments.columns);
      std::vector<SumsOfThread> sums(places.size()), squares(places.size());
      for (int64_t first = places[0].first_row; first < arguments.rows; first += places[0].row_step) {
        std::vector<kernels::AddNormRows<decltype(t), form.value>> threads;
        for (const auto& place : places) threads.emplace_back(arguments, place, first);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Add(random, sums[i].values);
        if constexpr (Normalises(form.value)) {
          RowSum(sums, places[0].lanes);
          for (size_t i = 0; i < threads.size(); ++i) threads[i].Centre(sums[i].values, squares[i].values);
          RowSum(squares, places[0].lanes);
          for (size_t i = 0; i < threads.size(); ++i) threads[i].Normalise(random, squares[i].values);
        }
      }
    }
  };
  ForElement(element, [&](auto type) { kernels::ForForm(arguments.form, [&](auto form) { run(type, form); }); });
}

inline void AddNormGradient(const kernels::AddNormGradientArguments& arguments, kernels::Element element) {
  const auto run = [&](auto t, auto form) {
    const int64_t blocks = arguments.sums.parts / kernels::RowsOfBlock(arguments.columns);
    for (int64_t block = 0; block < blocks; ++block) {
      const auto places = RowPlaces(block, blocks, arguments.columns);
      std::vector<SumsOfThread> sums(places.size()), products(places.size());
      std::vector<kernels::AddNormSums> columns(places.size());
      for (int64_t first = places[0].first_row; first < arguments.rows; first += places[0].row_step) {
        std::vector<kernels::AddNormGradientRows<decltype(t), form.value>> threads;
        for (const auto& place : places) threads.emplace_back(arguments, place, first);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Load(columns[i], sums[i].values, products[i].values);
        RowSum(sums, places[0].lanes);
        RowSum(products, places[0].lanes);
        for (size_t i = 0; i < threads.size(); ++i) threads[i].Store(sums[i].values, products[i].values, columns[i]);
      }
      for (size_t i = 0; i < places.size(); ++i) {
        kernels::WriteAddNormSums<form.value>(arguments, places[i], columns[i]);
      }
    }
  };
  ForElement(element, [&](auto type) { kernels::ForForm(arguments.form, [&](auto form) { run(type, form); }); });
  Finish(arguments.sums);
}

// Runs the blocks of a launch that adds up columns of `matrices` matrices of `columns` side by side. `add` writes a
// thread's sums, kWidth for each matrix.
template <int kMatrices, typename Add>
void AddUpColumns(int64_t columns, const kernels::ColumnSums& sums, const Add& add) {
  const auto memory = std::make_unique<kernels::ColumnMemory[]>(kMatrices);
  for (int64_t tile = 0; tile < kernels::NumTiles(columns); ++tile) {
    for (int part = 0; part < sums.parts; ++part) {
      for (int thread = 0; thread < kernels::kThreadsOfColumns; ++thread) {
        const kernels::ColumnPlace place(tile, part, sums.parts, thread);
        float of_thread[kMatrices][kernels::kWidth];
        add(place, of_thread);
        for (int i = 0; i < kMatrices; ++i) KeepColumns(place, of_thread[i], memory[i]);
      }
      if (sums.columns == 0) continue;
      for (int thread = 0; thread < kernels::kThreadsOfColumns; ++thread) {
        for (int i = 0; i < kMatrices; ++i) {
          WriteColumn(memory[i], i * columns + tile * kernels::kColumnsOfBlock, (i + 1) * columns, part, thread, sums);
        }
      }
    }
  }
  Finish(sums);
}

inline void Unit(const kernels::LinearUnitArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    kernels::ForUnit(arguments.unit, [&](auto unit) {
      ForThreads(arguments.columns, [&](int64_t thread, int64_t threads) {
        kernels::LinearUnitThread<decltype(type), unit.value>(arguments, thread, threads);
      });
    });
  });
}

inline void UnitGradient(const kernels::LinearUnitGradientArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    kernels::ForUnit(arguments.unit, [&](auto unit) {
      AddUpColumns<HalvesOf(unit.value)>(arguments.columns, arguments.dbias, [&](const auto& place, auto& sums) {
        kernels::LinearUnitGradientThread<decltype(type), unit.value>(arguments, place, sums);
      });
    });
  });
}

inline void Rotate(const kernels::RotationArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    ForThreads(kernels::kMostJoined * arguments.columns / 2, [&](int64_t thread, int64_t threads) {
      kernels::RotateThread<decltype(type)>(arguments, thread, threads);
    });
  });
}

inline void Join(const kernels::JoinArguments& arguments, kernels::Element element) {
  ForElement(element, [&](auto type) {
    AddUpColumns<1>(arguments.sums.columns, arguments.sums, [&](const auto& place, auto& sums) {
      kernels::JoinThread<decltype(type)>(arguments, place, sums[0]);
    });
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
    .norm_parts = [](int64_t, int64_t columns) { return num_parts * kernels::RowsOfBlock(columns); },
    .column_parts = [](int64_t, int64_t) { return num_parts; },
    .norm = &AddNorm,
    .norm_gradient = &AddNormGradient,
    .unit = &Unit,
    .unit_gradient = &UnitGradient,
    .rotate = &Rotate,
    .join = &Join,
    .cross_entropy = &CrossEntropy,
    .cross_entropy_gradient = &CrossEntropyGradient,
};

}  // namespace dtrain::models::stand_in
