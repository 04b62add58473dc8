#include "trainer/distributed/backward_end.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>

namespace dtrain::distributed {
namespace {

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
