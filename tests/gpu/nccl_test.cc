// Tests NCCL with a single rank: the group, the collectives and the reducer, as several ranks use them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trainer/device/device.h"
#include "trainer/device/nccl_environment.h"
#include "trainer/distributed/data_parallel.h"
#include "trainer/distributed/rendezvous.h"

namespace dtrain::distributed {
namespace {

constexpr double kTimeoutSeconds = 60;

TEST(Nccl, OneRankReducesItsOwnGradients) {
  const launch::Launch launch;
  const device::RankDevice place = device::ChooseDevice(launch, "nccl");
  EXPECT_FALSE(place.gpu.name.empty());
  EXPECT_FALSE(place.gpu.pci_id.empty());
  EXPECT_EQ(place.gpu.uuid.size(), 32U);
  Rendezvous rendezvous({.launch = launch, .init_timeout_seconds = kTimeoutSeconds}, {});
  rendezvous.WaitForAll("{}");
  RequireDistinctGpus(rendezvous, place.gpu, MachineId());
  device::Apply(device::NcclEnvironment("", kTimeoutSeconds, /*on_one_machine=*/true));
  Communicator communicator(rendezvous, place.device, kTimeoutSeconds);
  ASSERT_FALSE(communicator.is_alone());

  at::Tensor sums = at::arange(4, at::TensorOptions(at::kDouble).device(place.device));
  communicator.Sum(sums);
  EXPECT_TRUE(at::equal(sums.cpu(), at::arange(4, at::TensorOptions(at::kDouble))));
  communicator.BroadcastFromFirst({sums});
  communicator.Barrier();

  const at::Tensor weight =
      at::full({300, 300}, 0.01, at::TensorOptions(at::kFloat).device(place.device)).requires_grad_();
  const at::Tensor input = at::ones({5, 300}, weight.options().requires_grad(false));
  const at::Tensor wanted = at::full({300, 300}, 5.0);
  DataParallel data_parallel({{"weight", weight}}, communicator, {}, {});
  for (int step = 0; step < 3; ++step) {
    data_parallel.ZeroGradients();
    data_parallel.BeforeBackward(/*reduce=*/true);
    input.matmul(weight).sum().backward();
    data_parallel.AfterBackward();
    EXPECT_TRUE(at::allclose(weight.grad().cpu(), wanted)) << step;
  }
  rendezvous.control()->Leave();
}

}  // namespace
}  // namespace dtrain::distributed
