// The environments of the other launchers: one row for each as it really looks, and one row for each trap.
#include <gmock/gmock.h>

#include "tests/trainer/launch/launches.h"
#include "trainer/launch/detectors.h"
#include "trainer/launch/launch.h"

namespace dtrain::launch {
namespace {

using testing::HasSubstr;

config::RanksConfig Master(const std::string& address, std::optional<int64_t> port = {}) {
  config::RanksConfig ranks;
  ranks.master_addr = address;
  ranks.master_port = port;
  return ranks;
}

config::RanksConfig Nodes(const std::string& nnodes, std::optional<int64_t> node_rank = {},
                          const std::string& address = "", const std::string& nproc = "") {
  config::RanksConfig ranks = Master(address);
  ranks.nnodes = nnodes;
  ranks.node_rank = node_rank;
  ranks.nproc_per_node = nproc;
  return ranks;
}

// mpirun 4.1 of Debian 12, the second of two ranks on each of two hosts.
const std::string kOpenMpi =
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
    "OMPI_COMM_WORLD_NODE_RANK=1 OMPI_MCA_orte_precondition_transports=c5a2fe9641321626-0c964c4b3be927ea "
    "PMIX_NAMESPACE=1651638273 OMPI_MCA_orte_hnp_uri=1651638272.0;tcp://192.168.7.7:47887";

TEST(OpenMpi, PublishesItsAddressWhereNoneIsGiven) {
  EXPECT_EQ(TextOf({}, kOpenMpi), "openmpi 3/4 1/2 1/2 :0 0");
  const Launch launch = Detect({}, kOpenMpi);
  EXPECT_FALSE(launch.address_key.empty());
  // Another mpirun has another key, even with the same process ids; the ranks of one mpirun have the same key.
  EXPECT_EQ(Detect({}, kOpenMpi + " OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=0").address_key,
            launch.address_key);
  EXPECT_NE(Detect({}, kOpenMpi + " OMPI_MCA_orte_precondition_transports=another").address_key, launch.address_key);
  EXPECT_THAT(launch.address_key, testing::Not(HasSubstr("c5a2")));  // the secret does not become a file's name
}

TEST(OpenMpi, Environments) {
  ExpectLaunches(kOpenMpi,
                 {
                     {{}, "MASTER_ADDR=h", "openmpi 3/4 1/2 1/2 h:29500 0"},
                     {{}, "MASTER_ADDR=h MASTER_PORT=7", "openmpi 3/4 1/2 1/2 h:7 0"},
                     {Master("flag", 8), "MASTER_ADDR=h", "openmpi 3/4 1/2 1/2 flag:8 0"},
                     {Nproc("2"), {}, "openmpi 3/4 1/2 1/2 :0 0"},
                     // Round robin over the nodes (--map-by node): rank 2 is the second of node 0.
                     {{}, "OMPI_COMM_WORLD_RANK=2", "openmpi 2/4 1/2 0/2 :0 0"},
                     {{}, "OMPI_COMM_WORLD_LOCAL_SIZE=", "openmpi 3/4 1/4 0/1 :0 0"},
                     // mpirun starts its daemons with srun, whose variables reach the ranks.
                     {{}, "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0", "openmpi 3/4 1/2 1/2 :0 0"},
                     // Many scripts export WORLD_SIZE without a launcher.
                     {{}, "WORLD_SIZE=16", "openmpi 3/4 1/2 1/2 :0 0"},
                 });
  EXPECT_EQ(TextOf({}, "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0"),
            "openmpi 0/1 0/1 0/1 127.0.0.1:0 0");
}

TEST(OpenMpi, Refused) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    const std::string text = TextOf({}, kOpenMpi + " " + name + "=");
    EXPECT_THAT(text, HasSubstr("Open MPI's variables are half set: OMPI_COMM_WORLD_"));
    EXPECT_THAT(text, HasSubstr(std::string(name) + " missing"));
  }
  ExpectRefused(kOpenMpi, {{{}, "OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_RANK (4)"},
                           {{}, "OMPI_COMM_WORLD_SIZE=x", "OMPI_COMM_WORLD_SIZE=x"},
                           {{}, "OMPI_COMM_WORLD_LOCAL_SIZE=5", "LOCAL_SIZE - 1 (4)"},
                           {Nproc("4"), "", "--nproc_per_node=4 contradicts the 2 local ranks"},
                           {Nodes("3"), "", "--nnodes=3 contradicts the 2 machines of openmpi"}});
}

// As Flux does, whose tasks do not learn how many of them are on their machine.
TEST(RankLevel, TheNumberOfMachinesTellsThatOfLocalRanks) {
  const RankVariables names = {.title = "Flux",
                               .hint = "",
                               .rank = "FLUX_TASK_RANK",
                               .world_size = "FLUX_JOB_SIZE",
                               .local_rank = "FLUX_TASK_LOCAL_ID",
                               .nnodes = "FLUX_JOB_NNODES"};
  const config::RanksConfig ranks;
  const Machine machine{.gpus = 8};
  const auto launch_of = [&](const Environment& environment) {
    return RankLevel({ranks, environment, machine}, names).value();
  };
  Environment environment = {
      {"FLUX_TASK_RANK", "3"}, {"FLUX_JOB_SIZE", "5"}, {"FLUX_TASK_LOCAL_ID", "0"}, {"FLUX_JOB_NNODES", "2"}};
  const Launch launch = launch_of(environment);
  EXPECT_EQ(launch.local_world_size, 3);
  EXPECT_EQ(launch.nnodes, 2);
  EXPECT_EQ(launch.node_rank, 1);
  environment.erase("FLUX_JOB_NNODES");
  EXPECT_EQ(launch_of(environment).local_world_size, 5);  // one for each GPU
}

// mpirun of MPICH 4.0; Intel MPI's sets the same two.
TEST(OtherMpi, IsRefusedUnlessItsProcessIsAlone) {
  const std::string mpich = "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2";
  EXPECT_THAT(TextOf({}, mpich), HasSubstr("each of its processes would train alone: PMI_RANK=1, PMI_SIZE=2"));
  EXPECT_THAT(TextOf(Nproc("2"), mpich), HasSubstr("refused"));
  EXPECT_THAT(TextOf({}, mpich + " PMI_RANK=0 PMI_SIZE=1"), HasSubstr("single 0/1"));
  EXPECT_THAT(TextOf({}, kOpenMpi + " " + mpich), HasSubstr("openmpi 3/4"));
  // Below a step of Slurm, which is one task; srun --mpi=pmi2 gives each task its own number.
  const std::string step = " SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_STEP_NODELIST=h SLURM_STEP_NUM_NODES=1";
  EXPECT_THAT(TextOf({}, mpich + step + " SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"), HasSubstr("would train alone"));
  EXPECT_THAT(TextOf({}, mpich + step + " PMI_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"), HasSubstr("alone"));
  EXPECT_THAT(TextOf({}, mpich + step + " SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2"), HasSubstr("slurm 1/2"));
  const std::string inherited = mpich + step + " PMI_RANK=0 PMI_SIZE=1";  // of the shell, itself a step
  EXPECT_THAT(TextOf({}, inherited + " SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2"), HasSubstr("slurm 1/2"));
}

// srun -N2 -n5 of Slurm 22.05: the second task of the second node.
const std::string kSlurm =
    "SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_PROCID=4 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_NUM_TASKS=5 "
    "SLURM_NTASKS=5 SLURM_STEP_NUM_NODES=2 SLURM_JOB_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=3,2 "
    "SLURM_STEP_NODELIST=gpu[07,09] SLURM_JOB_NODELIST=gpu[07,09]";

const std::string kOneTaskPerNode =
    "SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2)";

TEST(Slurm, Steps) {
  ExpectLaunches(
      kSlurm,
      {
          {{}, "", "slurm 4/5 1/2 1/2 gpu07:20113 0"},  // the port: of job 7, step 1
          {{}, "SLURM_STEP_ID=2", "slurm 4/5 1/2 1/2 gpu07:20114 0"},
          // A step that runs on some of the job's nodes.
          {{}, "SLURM_JOB_NODELIST=a[1-9] SLURM_JOB_NUM_NODES=9 SLURM_NTASKS=99", "slurm 4/5 1/2 1/2 gpu07:20113 0"},
          {{}, "SLURM_STEP_NODELIST= SLURM_STEP_NUM_TASKS= SLURM_STEP_NUM_NODES=", "slurm 4/5 1/2 1/2 gpu07:20113 0"},
          {{}, "MASTER_ADDR=h MASTER_PORT=5", "slurm 4/5 1/2 1/2 h:5 0"},
          {Master("flag", 6), "MASTER_ADDR=h MASTER_PORT=5", "slurm 4/5 1/2 1/2 flag:6 0"},
          {{}, "WORLD_SIZE=5 LOCAL_RANK=1", "slurm 4/5 1/2 1/2 gpu07:20113 0"},
          {{}, "SLURM_STEP_NODELIST= SLURM_JOB_NODELIST=", "slurm 4/5 1/2 1/2 :0 0"},
          // One task per node counts as a process per machine only if --nproc_per_node is given.
          {{}, kOneTaskPerNode, "slurm 1/2 0/1 1/2 gpu07:20113 0", 8},
          {Nproc("4"), kOneTaskPerNode, "slurm 4/8 0/4 1/2 gpu07:20113 4"},
          {Nproc("auto"), kOneTaskPerNode, "slurm 8/16 0/8 1/2 gpu07:20113 8", 8},
          {Nproc("auto"), kOneTaskPerNode, "slurm 1/2 0/1 1/2 gpu07:20113 0"},
          {Nproc("2"), "", "slurm 4/5 1/2 1/2 gpu07:20113 0"},
          // The shell of sbatch has these without a step; that of salloc is a step with a special number.
          {{}, kOneTaskPerNode + " SLURM_STEP_ID=", "single 0/1 0/1 0/1 127.0.0.1:0 0"},
          {Nproc("2"), kOneTaskPerNode + " SLURM_STEP_ID=", "single 0/2 0/2 0/1 127.0.0.1:0 2"},
          {{}, "SLURM_STEP_ID=4294967290", "single 0/1 0/1 0/1 127.0.0.1:0 0"},
      });
  EXPECT_FALSE(Detect({}, kSlurm + " SLURM_STEP_NODELIST= SLURM_JOB_NODELIST=").address_key.empty());
}

TEST(Slurm, GpusOfTasks) {
  // With --gpus-per-task each task sees its own GPU as number 0. Without it the second task has no GPU if one is
  // visible.
  EXPECT_EQ(Detect({}, kSlurm + " SLURM_GPUS_PER_TASK=1", 1).gpu, 0);
  EXPECT_EQ(Detect({}, kSlurm, 2).gpu, -1);
  EXPECT_THAT(TextOf({}, kSlurm, 1), HasSubstr("local rank 1 has no GPU: this machine shows 1"));
  EXPECT_EQ(TextOf({}, kSlurm + " NCCL_MULTI_RANK_GPU_ENABLE=1", 1), TextOf({}, kSlurm, 2));
}

TEST(Slurm, ThePortIsOfTheRangeWhateverTheJob) {
  for (const char* job : {"9223372036854775807", "-5", "x", ""}) {
    EXPECT_THAT(TextOf({}, kSlurm + " SLURM_JOB_ID=" + job), HasSubstr("gpu07:20001 ")) << job;
  }
}

TEST(Slurm, Refused) {
  ExpectRefused(kSlurm, {{{}, "SLURM_LOCALID=", "Slurm's variables are half set: SLURM_JOB_ID=7, SLURM_STEP_ID=1"},
                         {{}, "SLURM_STEP_NUM_TASKS= SLURM_NTASKS=", "SLURM_STEP_NUM_TASKS missing"},
                         {{}, "SLURM_NODEID=", "SLURM_NODEID missing"},
                         {{}, "SLURM_PROCID=5", "SLURM_PROCID (5)"},
                         {{}, "SLURM_LOCALID=2", "SLURM_LOCALID (2)"},
                         {{}, "SLURM_STEP_NODELIST=gpu[1", "'gpu[1' cannot be read"},
                         {Nproc("8"), "", "contradicts the 2 local ranks that srun has started"}});
}

const std::string kKubeflow =
    "PET_NNODES=4 PET_NODE_RANK=3 PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29400";

const std::string kPyTorchJob = "RANK=1 WORLD_SIZE=3 MASTER_ADDR=job-master-0 MASTER_PORT=23456";

// The second of two nodes; the first is the main one.
const std::string kBatch =
    "AWS_BATCH_JOB_ID=abc#1 AWS_BATCH_JOB_ATTEMPT=1 AWS_BATCH_JOB_NODE_INDEX=1 AWS_BATCH_JOB_NUM_NODES=2 "
    "AWS_BATCH_JOB_MAIN_NODE_INDEX=0 AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.1";

const std::string kMainOfBatch = "AWS_BATCH_JOB_NODE_INDEX=0 AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=";

TEST(NodeLevel, Environments) {
  ExpectLaunches("", {{Nodes("2", 1, "h", "4"), {}, "flags 4/8 0/4 1/2 h:29500 4"},
                      {Nodes("2:2", 1, "h", "auto"), {}, "flags 8/16 0/8 1/2 h:29500 8", 8},
                      {{}, "PET_NNODES=1 PET_NPROC_PER_NODE=2", "kubeflow 0/2 0/2 0/1 127.0.0.1:0 2"},
                      {{}, "RANK=0 WORLD_SIZE=1", "pytorchjob 0/1 0/1 0/1 127.0.0.1:0 0"},
                      {{}, "AWS_BATCH_JOB_ID=abc AWS_BATCH_JOB_ATTEMPT=1", "single 0/1 0/1 0/1 127.0.0.1:0 0"}});
  ExpectLaunches(kKubeflow, {{Nodes("1", 0, "", "2"), "", "flags 0/2 0/2 0/1 127.0.0.1:0 2"},
                             {{}, "", "kubeflow 24/32 0/8 3/4 job-node-0-0.job:29400 8", 8},
                             {{}, "", "kubeflow 3/4 0/1 3/4 job-node-0-0.job:29400 0"},
                             {{}, "PET_NPROC_PER_NODE=2", "kubeflow 6/8 0/2 3/4 job-node-0-0.job:29400 2"},
                             {{}, "PET_NPROC_PER_NODE=cpu", "kubeflow 18/24 0/6 3/4 job-node-0-0.job:29400 6"},
                             {{}, "PET_NPROC_PER_NODE=gpu", "kubeflow 6/8 0/2 3/4 job-node-0-0.job:29400 2", 2},
                             {Nproc("3"), "", "kubeflow 9/12 0/3 3/4 job-node-0-0.job:29400 3", 8},
                             {{}, "PET_NNODES=4:4", "kubeflow 3/4 0/1 3/4 job-node-0-0.job:29400 0"},
                             {{}, "PET_MASTER_PORT=", "kubeflow 3/4 0/1 3/4 job-node-0-0.job:29500 0"},
                             {Nodes("2:8"), "", "kubeflow 3/4 0/1 3/4 job-node-0-0.job:29400 0"}});
  ExpectLaunches(kPyTorchJob,
                 {{{}, "", "pytorchjob 1/3 0/1 1/3 job-master-0:23456 0"},
                  {{}, "", "pytorchjob 4/12 0/4 1/3 job-master-0:23456 4", 4},
                  {Nproc("2"), "", "pytorchjob 2/6 0/2 1/3 job-master-0:23456 2"},
                  // Newer operators set PET_* besides, and multiply WORLD_SIZE by the local ranks.
                  {{},
                   "WORLD_SIZE=6 PET_NNODES=3 PET_NODE_RANK=1 PET_NPROC_PER_NODE=2",
                   "pytorchjob 2/6 0/2 1/3 job-master-0:23456 2"},
                  {{}, "PET_NNODES=3 PET_NPROC_PER_NODE=auto", "pytorchjob 2/6 0/2 1/3 job-master-0:23456 2", 2},
                  // MASTER_ADDR of the first pod is localhost, where the others cannot reach it.
                  {{}, "RANK=0 MASTER_ADDR=localhost", "pytorchjob 0/3 0/1 0/3 10.0.0.9:23456 0"}});
  const std::string last = "AWS_BATCH_JOB_MAIN_NODE_INDEX=1 AWS_BATCH_JOB_NODE_INDEX=";  // of the two is the main node
  ExpectLaunches(kBatch, {{{}, "", "aws_batch 1/2 0/1 1/2 10.0.0.1:29500 0"},
                          {{}, "", "aws_batch 8/16 0/8 1/2 10.0.0.1:29500 8", 8},
                          {{}, kMainOfBatch, "aws_batch 0/16 0/8 0/2 10.0.0.9:29500 8", 8},
                          // The main node becomes node 0.
                          {{}, kMainOfBatch + " " + last + "1", "aws_batch 0/2 0/1 0/2 10.0.0.9:29500 0"},
                          {{}, last + "0", "aws_batch 1/2 0/1 1/2 10.0.0.1:29500 0"}});
}

TEST(NodeLevel, NodesOfExplicitRanks) {
  config::RanksConfig ranks = Nodes("2", {}, "h");
  ranks.rank = 3;
  ranks.world_size = 4;
  ranks.master_port = 1;
  EXPECT_EQ(TextOf(ranks, {}), "flags 3/4 1/2 1/2 h:1 0");
  ranks.node_rank = 1;
  EXPECT_THAT(TextOf(ranks, {}), HasSubstr("--node_rank and --rank cannot be given together"));
}

TEST(NodeLevel, Refused) {
  ExpectRefused("", {{Nodes("", 1), {}, "--node_rank=1 given, --nnodes, --master_addr missing"},
                     {Nodes("2", 1), {}, "--nnodes=2, --node_rank=1 given, --master_addr missing"},
                     {Nodes("2", 2, "h"), {}, "--node_rank (2)"},
                     {Nodes("2"), {}, "--nnodes=2 given, --node_rank, --master_addr missing"},
                     {Nodes("1:2", 0, "h"), {}, "--nnodes=1:2: a number of machines that may change needs torchrun"},
                     {Nodes("x", 0, "h"), {}, "--nnodes=x: expected a number of machines, or MIN:MAX"},
                     {Nodes("3:2", 0, "h"), {}, "--nnodes=3:2: expected"}});
  ExpectRefused(kKubeflow, {{{}, "PET_NNODES=2:4", "PET_NNODES=2:4: a number of machines that may change"},
                            {{}, "PET_NNODES=", "PET_MASTER_PORT=29400 set, PET_NNODES missing"},
                            {{}, "PET_NODE_RANK=", "PET_NODE_RANK missing"},
                            {{}, "PET_MASTER_ADDR=", "PET_MASTER_ADDR missing"},
                            {{}, "PET_NODE_RANK=4", "PET_NODE_RANK (4)"},
                            {{}, "PET_NPROC_PER_NODE=some", "PET_NPROC_PER_NODE=some: expected auto, gpu, cpu"},
                            {{}, "PET_NPROC_PER_NODE=gpu", "PET_NPROC_PER_NODE=gpu, but this machine has no GPU"},
                            {{},
                             "PET_NNODES=1000000 PET_NPROC_PER_NODE=2",
                             "1000000 machines with 2 ranks each are more than 1000000 ranks"}});
  ExpectRefused(kPyTorchJob, {{{}, "WORLD_SIZE=", "PyTorchJob's variables are half set: RANK=1"},
                              {{}, "MASTER_ADDR=", "MASTER_ADDR missing"},
                              {{}, "RANK=3", "RANK (3) is not from 0 to WORLD_SIZE - 1 (2)"},
                              {{}, "PET_NNODES=2", "WORLD_SIZE=3 is neither the number of pods, PET_NNODES=2"}});
  const std::string address = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS";
  ExpectRefused(kBatch, {{{}, "AWS_BATCH_JOB_NUM_NODES=", "AWS_BATCH_JOB_NUM_NODES missing"},
                         {{}, address + "=", address + " missing"},
                         {{}, "AWS_BATCH_JOB_NODE_INDEX=2", "AWS_BATCH_JOB_NODE_INDEX (2)"},
                         {Nodes("3"), "", "--nnodes=3 contradicts the 2 machines of aws_batch"}});
}

TEST(Gpus, EachRankNeedsOne) {
  EXPECT_THAT(TextOf(Nproc("4"), {}, 2), HasSubstr("4 local ranks need as many GPUs: this machine shows 2"));
  EXPECT_THAT(TextOf(Nproc("2"), "CUDA_VISIBLE_DEVICES=0", 1), HasSubstr("(CUDA_VISIBLE_DEVICES=0)"));
  config::RanksConfig cpu = Nproc("4");
  cpu.backend = "gloo";
  EXPECT_EQ(TextOf(cpu, "CUDA_VISIBLE_DEVICES=3,3", 2), "single 0/4 0/4 0/1 127.0.0.1:0 4");
}

TEST(Restarts, OfTheSchedulerCountAndItNamesTheJob) {
  EXPECT_EQ(Detect({}, "AWS_BATCH_JOB_ATTEMPT=1").restart_count, 0);
  EXPECT_EQ(Detect({}, "AWS_BATCH_JOB_ATTEMPT=3 AWS_BATCH_JOB_ID=ab#1").restart_count, 2);
  EXPECT_EQ(Detect({}, "AWS_BATCH_JOB_ATTEMPT=3 AWS_BATCH_JOB_ID=ab#1").job, "AWS_BATCH_JOB_ID=ab");
  const Launch nested = Detect({},
                               "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1 SLURM_JOB_ID=7 "
                               "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=3 SLURM_RESTART_COUNT=4");
  EXPECT_EQ(nested.restart_count, 7);
  EXPECT_EQ(nested.job, "SLURM_JOB_ID=7");
}

}  // namespace
}  // namespace dtrain::launch
