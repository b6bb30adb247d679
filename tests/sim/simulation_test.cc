// AMPD_SIM_SEEDS sets the number of seeds to run (default 400; `scripts/test --long` runs 2000). AMPD_SIM_SEED runs a
// single seed. A failed test prints its seed. To repeat the failure:
//   AMPD_SIM_SEED=<seed> build/<preset>/tests/sim_simulation_test --gtest_filter=Simulation.EverySeed*
#include "tests/sim/simulation.h"

#include <gtest/gtest.h>

#include <future>
#include <set>

#include "tests/count_from_environment.h"

namespace ampd::sim {
namespace {

constexpr uint64_t kSeedsEveryDay = 400;
// The long search for unknown bugs (`scripts/test --long`) runs the same number of seeds.
constexpr uint64_t kSeedsForPlantedBugs = 2000;

// Returns the number of seeds to run. Sanitizer builds set AMPD_SIM_SEEDS to run fewer seeds.
uint64_t LastSeed(uint64_t otherwise) {
  return static_cast<uint64_t>(CountFromEnvironment("AMPD_SIM_SEEDS", static_cast<int64_t>(otherwise)));
}

Result RunSeed(uint64_t seed, Bug bug = Bug::NONE) { return Simulation(seed, bug).Run(); }

// Runs each seed twice at the same time. The second run is on another thread, so its memory addresses differ.
TEST(Simulation, EverySeed_KeepsEveryInvariantAndReplaysToTheSameHash) {
  const auto only = static_cast<uint64_t>(CountFromEnvironment("AMPD_SIM_SEED", 0));
  const uint64_t first = only == 0 ? 1 : only;
  const uint64_t last = only == 0 ? LastSeed(kSeedsEveryDay) : only;
  int64_t num_events = 0, num_faults = 0, num_jobs = 0, num_attempts = 0;
  std::set<uint64_t> hashes;
  uint64_t hash_of_all = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    std::future<Result> replay = std::async(std::launch::async, RunSeed, seed, Bug::NONE);
    const Result result = RunSeed(seed);
    const Result replayed = replay.get();
    ASSERT_EQ(result.violation, "") << "repeat with AMPD_SIM_SEED=" << seed;
    ASSERT_EQ(replayed.hash, result.hash) << "the replay differs; repeat with AMPD_SIM_SEED=" << seed;
    ASSERT_EQ(replayed.num_events, result.num_events) << "the replay differs; repeat with AMPD_SIM_SEED=" << seed;
    hashes.insert(result.hash);
    hash_of_all = hash_of_all * 0x100000001b3 ^ result.hash;
    num_events += result.num_events;
    num_faults += result.num_faults;
    num_jobs += result.num_jobs;
    num_attempts += result.num_attempts;
  }
  const int64_t num_seeds = static_cast<int64_t>(last - first + 1);
  EXPECT_GT(num_faults, 10 * num_seeds) << "the faults never fired";
  EXPECT_GE(num_attempts, num_jobs) << "hardly a job ever ran";
  EXPECT_EQ(static_cast<int64_t>(hashes.size()), num_seeds) << "different seeds ran the same";
  // The printed hash covers all runs. A refactoring that changes no behaviour does not change the hash.
  printf("%ld seeds, %ld events, %ld faults, %ld jobs, %ld attempts, hash %016lx\n", static_cast<long>(num_seeds),
         static_cast<long>(num_events), static_cast<long>(num_faults), static_cast<long>(num_jobs),
         static_cast<long>(num_attempts), static_cast<unsigned long>(hash_of_all));
}

class PlantedBug : public testing::TestWithParam<Bug> {};

// Every planted bug must be found within the number of seeds that the long search for unknown bugs runs.
TEST_P(PlantedBug, IsFound) {
  const uint64_t last = LastSeed(kSeedsForPlantedBugs);
  for (uint64_t seed = 1; seed <= last; ++seed) {
    const Result result = RunSeed(seed, GetParam());
    if (!result.violation.empty()) {
      printf("%s found by seed %ld, %s\n", NameOf(GetParam()), static_cast<long>(seed), result.violation.c_str());
      return;
    }
  }
  if (last < kSeedsForPlantedBugs) GTEST_SKIP() << "AMPD_SIM_SEEDS allows " << last << " seeds";
  FAIL() << NameOf(GetParam()) << " was not found by " << last << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBug, testing::ValuesIn(kAllBugs),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace ampd::sim
