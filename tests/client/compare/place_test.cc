#include "client/compare/place.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ampd::client {
namespace {

v1::Worker WorkerWith(const std::string& name, int num_gpus, int gib, v1::Worker::State state = v1::Worker::READY) {
  v1::Worker worker;
  worker.set_name(name);
  worker.set_state(state);
  v1::Device* const cpu = worker.add_devices();
  cpu->set_id("cpu");
  cpu->set_kind(v1::Device::CPU);
  cpu->set_memory_total_bytes(int64_t{gib} << 30);
  for (int i = 0; i < num_gpus; ++i) {
    v1::Device* const gpu = worker.add_devices();
    gpu->set_id(absl::StrCat("gpu", i));
    gpu->set_kind(v1::Device::GPU);
    gpu->set_memory_total_bytes(int64_t{gib} << 30);
  }
  return worker;
}

// Returns where ChoosePlace would run the job: "GPU of w1", or "none".
std::string PlaceIn(const std::vector<v1::Worker>& workers, const v1::ResourceSpec& wanted = {}) {
  const auto place = ChoosePlace(workers, wanted);
  return place.has_value() ? absl::StrCat(v1::ResourceSpec::Kind_Name(place->kind), " of ", place->worker) : "none";
}

TEST(ChoosePlace, PrefersAGpuThenAFreeWorkerThenMemoryThenTheName) {
  EXPECT_EQ(PlaceIn({WorkerWith("a", 0, 64), WorkerWith("b", 1, 8)}), "GPU of b");
  EXPECT_EQ(PlaceIn({WorkerWith("a", 1, 64, v1::Worker::BUSY), WorkerWith("b", 1, 8)}), "GPU of b");
  EXPECT_EQ(PlaceIn({WorkerWith("a", 0, 8), WorkerWith("b", 0, 16)}), "CPU of b");
  EXPECT_EQ(PlaceIn({WorkerWith("b", 0, 8), WorkerWith("a", 0, 8)}), "CPU of a");
}

TEST(ChoosePlace, KeepsToWhatTheJobWants) {
  v1::ResourceSpec wanted;
  wanted.set_kind(v1::ResourceSpec::CPU);
  EXPECT_EQ(PlaceIn({WorkerWith("a", 4, 8)}, wanted), "CPU of a");
  wanted.set_kind(v1::ResourceSpec::GPU);
  wanted.set_devices(2);
  EXPECT_EQ(PlaceIn({WorkerWith("a", 1, 64), WorkerWith("b", 2, 8)}, wanted), "GPU of b");
  wanted.set_worker("a");
  EXPECT_EQ(PlaceIn({WorkerWith("a", 1, 64), WorkerWith("b", 2, 8)}, wanted), "none");
}

TEST(ChoosePlace, LeavesOutWorkersThatTakeNoJobs) {
  EXPECT_EQ(PlaceIn({WorkerWith("a", 1, 8, v1::Worker::LOST), WorkerWith("b", 1, 8, v1::Worker::DRAINING)}), "none");
  v1::Worker drained = WorkerWith("a", 1, 8);
  drained.set_drained(true);
  EXPECT_EQ(PlaceIn({drained}), "none");
  v1::Worker broken = WorkerWith("a", 1, 8);
  broken.mutable_devices(1)->set_unhealthy(true);
  EXPECT_EQ(PlaceIn({broken}), "CPU of a");
  EXPECT_EQ(PlaceIn({}), "none");
}

}  // namespace
}  // namespace ampd::client
