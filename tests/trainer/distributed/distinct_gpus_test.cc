// Ranks exchange invented GPUs, so the test needs none.
#include "trainer/distributed/rendezvous.h"

#include <gtest/gtest.h>

#include "tests/message_of.h"
#include "tests/trainer/distributed/ranks_in_threads.h"

namespace dtrain::distributed {
namespace {

// Returns the error of each rank, empty if it has none.
std::vector<std::string> Agree(const std::vector<std::string>& pci_ids, const std::vector<std::string>& uuids,
                               const std::vector<std::string>& machines) {
  std::vector<std::string> told(pci_ids.size());
  RunMet(static_cast<int>(pci_ids.size()), [&](int rank, Rendezvous& rendezvous) {
    const auto index = static_cast<size_t>(rank);
    told[index] = MessageOf([&] {
      RequireDistinctGpus(rendezvous, {"", 0, 0, pci_ids[index], uuids[index]}, machines[index]);
    });
  });
  return told;
}

TEST(DistinctGpus, TwoRanksOnOneGpuAreRefusedOnAllRanks) {
  const auto told = Agree({"0000:17:00.0", "0000:18:00.0", "0000:17:00.0"}, {"e1", "f2", "e1"}, {"a", "a", "a"});
  for (const std::string& message : told) {
    EXPECT_NE(message.find("ranks 0 and 2 compute on the same GPU 0000:17:00.0 of "), std::string::npos) << message;
  }
}

TEST(DistinctGpus, OthersArePassed) {  // in another machine, unknown ones, and parts of one
  EXPECT_EQ(Agree({"0000:17:00.0", "0000:17:00.0"}, {"e1", "e1"}, {"a", "b"}), std::vector<std::string>(2));
  EXPECT_EQ(Agree({"", ""}, {"", ""}, {"a", "a"}), std::vector<std::string>(2));
  EXPECT_EQ(Agree({"0000:17:00.0", "0000:17:00.0"}, {"e1", "e2"}, {"a", "a"}), std::vector<std::string>(2));
  EXPECT_FALSE(MachineId().empty());
}

}  // namespace
}  // namespace dtrain::distributed
