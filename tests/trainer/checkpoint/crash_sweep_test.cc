// Kills a saving process at each of its writes, fsyncs, closes and renames, and lets each of them fail once. After each
// of these the old or the new checkpoint must be whole. The weights have an average (--ema_decay).
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/fault_record.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/snapshots.h"
#include "trainer/errors.h"

namespace dtrain::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kOld = 10;
constexpr int64_t kNew = 20;
constexpr int kMaxOperations = 200;

// Saves once and prunes. Exits with 0, or with 5 on StorageError.
[[noreturn]] void SaveInChild(const char* hook, int operation, const fs::path& run_directory) {
  ::setenv(hook, std::to_string(operation).c_str(), 1);
  try {
    Store store(run_directory);
    const Checkpoint saved = store.Publish(MakeSnapshot(kNew));
    WriteSafetensors(run_directory / "model.safetensors", MakeSnapshot(kNew).model);
    WriteSafetensors(run_directory / "model_ema.safetensors", MakeSnapshot(kNew).average);
    store.Prune(saved, 1);
    ::_exit(0);
  } catch (const StorageError&) {
    ::_exit(5);
  }
}

// Checks that a restart would find nothing damaged but what was damaged before.
void ExpectOldOrNewWhole(const fs::path& run_directory, int operation, bool damaged_new) {
  Store store(run_directory);
  store.RemoveLeftovers();
  int damaged = 0;
  const auto newest = store.FindNewestValid([&](const fs::path&, const std::string&) { ++damaged; });
  ASSERT_TRUE(newest) << "operation " << operation;
  EXPECT_LE(damaged, damaged_new ? 1 : 0) << "operation " << operation;
  EXPECT_TRUE(newest->step == kOld || newest->step == kNew);
  EXPECT_TRUE(HoldsItsSnapshot(*newest)) << "operation " << operation;
  const std::string latest = ReadAll(run_directory / "latest");
  EXPECT_TRUE(latest == "checkpoints/step-000000010\n" || latest == "checkpoints/step-000000020\n") << latest;
  for (const auto& entry : fs::directory_iterator(run_directory / "checkpoints")) {
    EXPECT_EQ(entry.path().filename().string().rfind("step-", 0), 0u) << entry.path();
  }
  // The restart can save again.
  EXPECT_TRUE(HoldsItsSnapshot(store.Publish(MakeSnapshot(kNew))));
}

// Prepares a run directory with a checkpoint of step 10, and one of step 20 that is damaged where asked for.
void Prepare(const fs::path& run_directory, bool damaged_new) {
  Store store(run_directory);
  store.Publish(MakeSnapshot(kOld));
  WriteSafetensors(run_directory / "model.safetensors", MakeSnapshot(kOld).model);
  WriteSafetensors(run_directory / "model_ema.safetensors", MakeSnapshot(kOld).average);
  if (damaged_new) fs::resize_file(store.Publish(MakeSnapshot(kNew)).directory / "state.json", 1);
}

class Sweep : public ::testing::TestWithParam<bool> {
 protected:
  // Saves with the hook at each operation in turn. The last child meets no operation any more and exits with 0; of the
  // others the status is looked at. Returns the number of operations.
  int Run(const char* hook, const std::function<bool(int status)>& is_right, bool weights_stay_whole) {
    int operation = 0;
    for (bool completed = false; !completed;) {
      EXPECT_LT(++operation, kMaxOperations);
      if (operation == kMaxOperations) break;
      TemporaryFolder run;
      Prepare(run.path(), GetParam());
      const pid_t child = ::fork();
      if (child == 0) SaveInChild(hook, operation, run.path());
      int status = 0;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      completed = status == 0;
      EXPECT_TRUE(completed || is_right(status)) << "operation " << operation << ": " << status;
      ExpectOldOrNewWhole(run.path(), operation, GetParam());
      if (!weights_stay_whole) continue;
      ReadSafetensors(run / "model.safetensors");  // throws unless whole
      ReadSafetensors(run / "model_ema.safetensors");
    }
    EXPECT_GT(operation, 20);  // the sweep covered files, folders, `latest` and the weights
    return operation - 1;
  }
};

TEST_P(Sweep, KilledAtAnyOperation) {
  const auto is_killed = [](int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; };
  RecordFault(2, "killed at each write, sync, close and rename of a save, with an average of the weights",
              "the old or the new checkpoint is whole", Run("DTRAIN_CRASH_AT", is_killed, true));
}

TEST_P(Sweep, AnyOperationFails) {
  const auto has_exited = [](int status) { return WIFEXITED(status); };
  RecordFault(11, "each write, sync, close and rename of a save fails once", "the old or the new checkpoint is whole",
              Run("DTRAIN_FAIL_AT", has_exited, false));
}

INSTANTIATE_TEST_SUITE_P(WithADamagedCheckpointInTheWay, Sweep, ::testing::Bool());

}  // namespace
}  // namespace dtrain::checkpoint
