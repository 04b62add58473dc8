// Compares gradients that the reducer has averaged over ranks in threads with sums computed without it.
#include "trainer/distributed/data_parallel.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/engine.h>

#include "tests/trainer/distributed/ranks_in_threads.h"
#include "trainer/distributed/step_exchange.h"
#include "trainer/errors.h"

namespace dtrain::distributed {
namespace {

const DataParallelOptions kSmallBuckets{.bucket_cap_mb = 0.01};
constexpr int64_t kWidth = 300;  // makes 350 KB per parameter, so that the first bucket (1 MiB) does not hold them all

using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

Parameters MakeParameters() {
  Parameters parameters;
  for (int i = 0; i < 6; ++i) {
    parameters.emplace_back("w" + std::to_string(i), at::full({kWidth, kWidth}, 0.01 * (i + 1)).requires_grad_());
  }
  return parameters;
}

void Backward(const Parameters& parameters, const at::Tensor& input) {
  at::Tensor x = input;
  for (const auto& [name, weight] : parameters) x = at::tanh(x.matmul(weight) * 0.1);
  x.sum().backward();
}

at::Tensor InputOf(int rank, int micro_step) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(10 * rank + micro_step));
  return at::randn({5, kWidth}, generator);
}

// Runs a whole step with reduction, in which only the parameters `taking_part` are used.
void StepOf(DataParallel& data_parallel, const Parameters& taking_part, int rank) {
  data_parallel.ZeroGradients();
  data_parallel.BeforeBackward(/*reduce=*/true);
  Backward(taking_part, InputOf(rank, 0));
  data_parallel.AfterBackward();
}

TEST(DataParallel, CompressedGradientsAreTheSameToFewerDigits) {
  Parameters reference = MakeParameters();
  for (int rank = 0; rank < 2; ++rank) Backward(reference, InputOf(rank, 0));
  for (const auto& [compression, digits] : {std::pair{"fp16", 2e-3}, std::pair{"bf16", 2e-2}}) {
    RunConnected(2, [&](int rank, Communicator& communicator) {
      const Parameters parameters = MakeParameters();
      DataParallel data_parallel(parameters, communicator,
                                 {.bucket_cap_mb = kSmallBuckets.bucket_cap_mb, .compression = compression}, {});
      data_parallel.BeforeBackward(true);
      Backward(parameters, InputOf(rank, 0));
      data_parallel.AfterBackward();
      for (size_t i = 0; i < parameters.size(); ++i) {
        const at::Tensor gradient = parameters[i].second.grad() * 2, expected = reference[i].second.grad();
        EXPECT_TRUE(at::allclose(gradient, expected, digits, 1e-3)) << compression << " " << i;
        EXPECT_FALSE(at::equal(gradient, expected)) << compression << " " << i;
      }
    });
  }
}

// After an interruption a run's first step is the first one of a new reducer, with the layout of the old one. The bits
// must be equal, including the signs of zeros, also for numbers of ranks by which division rounds (no powers of two).
TEST(DataParallel, ANewReducerGivesTheBitsOfTheOldOne) {
  for (const auto& [world, compression] : {std::pair{2, "none"}, {3, "none"}, {5, "none"}, {3, "bf16"}}) {
    RunConnected(world, [&, type = compression](int rank, Communicator& communicator) {
      Parameters parameters = MakeParameters();
      const at::Tensor minus_zero = at::ones({3}).requires_grad_();
      parameters.emplace_back("minus_zero", minus_zero);
      const Parameters layers(parameters.begin(), parameters.end() - 1);
      const auto gradients_of_step = [&](DataParallel& data_parallel) {
        data_parallel.ZeroGradients();
        data_parallel.BeforeBackward(/*reduce=*/true);
        at::Tensor x = InputOf(rank, 0);
        for (const auto& [name, weight] : layers) x = at::tanh(x.matmul(weight) * 0.1);
        (x.sum() + (minus_zero * -0.0).sum()).backward();
        data_parallel.AfterBackward();
        std::vector<at::Tensor> bits;
        for (const at::Tensor& gradient : data_parallel.gradients()) bits.push_back(gradient.view(at::kInt).clone());
        return bits;
      };
      const DataParallelOptions options{.bucket_cap_mb = kSmallBuckets.bucket_cap_mb, .compression = type};
      BucketLayout layout;
      std::vector<at::Tensor> of_second_step;
      {
        DataParallel first(parameters, communicator, options, {});
        gradients_of_step(first);
        layout = first.bucket_layout();
        of_second_step = gradients_of_step(first);
      }
      for (auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
      EXPECT_GT(layout.size(), 1U);
      DataParallel second(parameters, communicator, options, layout);
      EXPECT_EQ(second.bucket_layout(), layout);
      const std::vector<at::Tensor> of_first_step = gradients_of_step(second);
      EXPECT_EQ(second.bucket_layout(), layout);
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(at::equal(of_first_step[i], of_second_step[i])) << communicator.world_size() << type << i;
      }
    });
  }
}

TEST(DataParallel, ALayoutThatDoesNotFitIsRefused) {
  RunConnected(1, [](int, Communicator& communicator) {
    for (const BucketLayout& layout : {BucketLayout{{0, 1, 2}}, BucketLayout{{0, 1, 2, 3, 4, 4}},
                                       BucketLayout{{0, 1, 2, 3, 4, 6}}, BucketLayout{{0, 1, 2, 3, 4, 5}, {}}}) {
      EXPECT_THROW(DataParallel(MakeParameters(), communicator, kSmallBuckets, layout), StorageError);
    }
  });
}

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  } catch (const std::exception&) {
    return "another error";
  }
  return "";
}

// Gradients are missing in the first or in a later step, on one rank or on all. Each rank that misses some names them.
TEST(DataParallel, ParametersWithoutGradientAreNamed) {
  constexpr int kWorld = 2;
  for (const auto& [step_of_fault, last_rank] : {std::pair{0, 0}, {0, 1}, {2, 0}, {2, 1}}) {
    std::vector<std::string> errors(kWorld);
    const auto body = [&, faulty_step = step_of_fault, last_faulty = last_rank](int rank, Communicator& communicator) {
      const Parameters parameters = MakeParameters();
      const Parameters used = {parameters[0], parameters[1], parameters[3], parameters[5]};
      DataParallel data_parallel(parameters, communicator, kSmallBuckets, {});
      for (int i = 0; i < faulty_step; ++i) StepOf(data_parallel, parameters, rank);
      errors[static_cast<size_t>(rank)] =
          ErrorOf([&] { StepOf(data_parallel, rank <= last_faulty ? used : parameters, rank); });
      throw std::runtime_error("this rank leaves without a word, and with it its connections");
    };
    EXPECT_THROW(RunConnected(kWorld, body), std::runtime_error);
    const std::string expected = "parameters w2, w4 got no gradient in this step on rank ";
    EXPECT_EQ(errors[0], expected + "0");
    EXPECT_EQ(errors[1], last_rank == 1 ? expected + "1" : "another error");
  }
}

TEST(DataParallel, ParametersWithoutGradientAreNamedInARunOfOneRank) {
  Communicator alone;
  const Parameters parameters = MakeParameters();
  DataParallel data_parallel(parameters, alone, kSmallBuckets, {});
  for (int step = 0; step < 2; ++step) {
    data_parallel.ZeroGradients();
    Backward(parameters, InputOf(0, 0));
    data_parallel.AfterBackward();
  }
  data_parallel.ZeroGradients();
  Backward({parameters[0]}, InputOf(0, 0));
  EXPECT_EQ(ErrorOf([&] { data_parallel.AfterBackward(); }),
            "parameters w1, w2, w3, w4, w5 got no gradient in this step");
}

// Recorded micro-steps add to the same tensors in all steps.
TEST(DataParallel, GradientsOfMicroStepsStayInPlaceInARunOfOneRank) {
  Communicator alone;
  const Parameters parameters = MakeParameters(), reference = MakeParameters();
  for (int micro_step = 0; micro_step < 2; ++micro_step) Backward(reference, InputOf(0, micro_step));
  DataParallel data_parallel(parameters, alone, {.accumulates = true}, {});
  const void* place = nullptr;
  for (int step = 0; step < 3; ++step) {
    data_parallel.ZeroGradients();
    for (int micro_step = 0; micro_step < 2; ++micro_step) Backward(parameters, InputOf(0, micro_step));
    data_parallel.AfterBackward();
    const at::Tensor& gradient = parameters[0].second.grad();
    EXPECT_TRUE(at::equal(gradient, reference[0].second.grad()));
    if (step > 0) {
      EXPECT_EQ(gradient.const_data_ptr(), place);
    }
    place = gradient.const_data_ptr();
  }
  const at::Tensor alone_weight = at::ones({2}).requires_grad_();
  DataParallel zeros({{"w", alone_weight}}, alone, {.accumulates = true}, {});
  (alone_weight * at::full({2}, -0.0)).sum().backward();
  zeros.AfterBackward();
  EXPECT_FALSE(alone_weight.grad().signbit().any().item<bool>());  // as where it is added to zeros
}

TEST(DataParallel, ReducingAfterwardsGivesTheSameBits) {
  for (const char* compression : {"none", "bf16"}) {
    RunConnected(3, [&](int rank, Communicator& communicator) {
      const Parameters parameters = MakeParameters();
      DataParallel data_parallel(parameters, communicator,
                                 {.bucket_cap_mb = kSmallBuckets.bucket_cap_mb, .compression = compression}, {});
      std::vector<at::Tensor> overlapped;
      for (const bool reduce : {true, true, false}) {
        data_parallel.ZeroGradients();
        data_parallel.BeforeBackward(reduce);
        Backward(parameters, InputOf(rank, 0));
        data_parallel.AfterBackward();
        if (!reduce) break;
        overlapped.clear();
        for (const auto& gradient : data_parallel.gradients()) overlapped.push_back(gradient.clone());
      }
      EXPECT_FALSE(at::equal(data_parallel.gradients()[0], overlapped[0]));
      data_parallel.ReduceNow();
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(at::equal(data_parallel.gradients()[i], overlapped[i])) << compression << " " << i;
      }
    });
  }
}

TEST(StepExchange, AveragesStatisticsAndAddsSums) {
  RunConnected(3, [](int rank, Communicator& communicator) {
    at::Tensor mean = at::full({4}, rank), variance = at::full({2, 2}, 10.0 * rank);
    StepExchange exchange({mean, variance}, 2, at::kCPU, communicator);
    for (int step = 0; step < 2; ++step) {
      at::Tensor sums = at::full({2}, 1.0 + rank);
      exchange.Run(sums);
      exchange.Keep();
      EXPECT_TRUE(at::equal(sums, at::full({2}, 6.0)));
      EXPECT_TRUE(at::allclose(mean, at::full({4}, 1.0)));
      EXPECT_TRUE(at::allclose(variance, at::full({2, 2}, 10.0)));
    }
  });
}

TEST(StepExchange, TakesBackWhatIsNotFiniteAndWhatIsSkipped) {
  RunConnected(1, [](int, Communicator& communicator) {
    at::Tensor mean = at::zeros({2}), sums = at::zeros({1});
    StepExchange exchange({mean}, 1, at::kCPU, communicator);
    const auto after = [&](double first, double second, std::optional<at::Tensor> skipped) {
      mean[0] = first;
      mean[1] = second;
      exchange.Run(sums);
      exchange.Keep(skipped);
      return std::pair(mean[0].item<double>(), mean[1].item<double>());
    };
    EXPECT_EQ(after(1, 2, std::nullopt), std::pair(1.0, 2.0));
    EXPECT_EQ(after(3, HUGE_VAL, std::nullopt), std::pair(3.0, 2.0));
    EXPECT_EQ(after(5, 6, at::ones({})), std::pair(3.0, 2.0));
    EXPECT_EQ(after(7, 8, at::zeros({})), std::pair(7.0, 8.0));
  });
}

// Plays the reducer, which queues its wait when the last gradient arrives.
TEST(AfterLastGradient, ComesAfterGradientsAndBeforeTheReducersWait) {
  at::Tensor first = at::ones({2}).requires_grad_(), second = at::ones({2}).requires_grad_();
  std::vector<std::string> heard;
  int gradients = 0;
  const auto arrived = [&](const at::Tensor&) {
    if (++gradients < 2) return;
    heard.emplace_back("last gradient");
    torch::autograd::Engine::get_default_engine().queue_callback([&] { heard.emplace_back("reducer waits"); });
  };
  first.register_hook(arrived);
  second.register_hook(arrived);
  for (int pass = 0; pass < 2; ++pass) {
    gradients = 0;
    const at::Tensor loss = (first * second * second).sum();
    AfterLastGradient(loss, [&] { heard.emplace_back("after"); });
    loss.backward();
    heard.emplace_back("done");
  }
  EXPECT_THAT(heard, testing::ElementsAre("last gradient", "after", "reducer waits", "done",  //
                                          "last gradient", "after", "reducer waits", "done"));
  EXPECT_TRUE(at::equal(first.grad(), at::full({2}, 2.0)));
}

}  // namespace
}  // namespace dtrain::distributed
