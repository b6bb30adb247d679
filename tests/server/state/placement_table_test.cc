#include "server/state/placement_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "server/state/job_rules.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kGibibyte = int64_t{1} << 30;
constexpr uint64_t kSeeds = 60;
constexpr int kChanges = 300;

std::string ToString(const std::vector<Placement>& placements) {
  return absl::StrJoin(placements, " ", [](std::string* out, const Placement& placement) {
    absl::StrAppend(out, placement.job->job().id(), "@", placement.worker, "/", placement.device, "=",
                    placement.precision.preset, placement.precision.emulated ? "*" : "",
                    placement.start_from.has_value() ? placement.start_from->path() : "");
  });
}

// A cluster that changes at random, with a placement table that receives each changed record.
class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {}

  void Change();
  // Returns the decision of the placement table, and that of a new table with the same records. Both must be equal.
  std::pair<std::string, std::string> Decide();
  // Returns the content of the placement table, and that of a new table with the same records. Both must be equal.
  std::pair<std::string, std::string> Known() const { return {Show(table_), Show(FillTable(state_, live_))}; }
  int num_placed() const { return num_placed_; }

 private:
  static std::string Show(const PlacementTable& table) {
    return absl::StrCat(table.num_waiting(), " wait; free: ", absl::StrJoin(table.FreeDevices(), " "));
  }
  int Below(int limit) { return static_cast<int>(random_.Next() % static_cast<uint64_t>(limit)); }
  std::string AnyJob() { return absl::StrCat("j", Below(num_jobs_ + 1)); }
  std::string AnyWorker() { return absl::StrCat("w", Below(5)); }
  bool Apply(const internal::Update& update);
  void ChangeJob();
  void ChangeWorker();
  void ChangeFacts();
  void PassTime();
  internal::Update Register();
  internal::Update Create();

  SeededRandom random_;
  UpdateMaker make_;
  ClusterState state_;
  LiveWorkers live_;
  PlacementTable table_;
  int num_jobs_ = 0;
  int num_placed_ = 0;
  int64_t now_ = 1'700'000'000'000'000;
  absl::Duration now_since_boot_;
};

bool Cluster::Apply(const internal::Update& update) {
  const absl::StatusOr<Applied> applied = state_.Apply(update);
  if (!applied.ok()) {
    return false;
  }
  for (const JobRecordPtr& record : applied->jobs) {
    table_.PutJob(record->job().id(), record);
  }
  for (const JobRecordPtr& record : applied->archived) {
    table_.PutJob(record->job().id(), nullptr);
  }
  for (const DeletedJob& job : applied->deleted_jobs) {
    table_.PutJob(job.id, nullptr);
  }
  for (const WorkerRecordPtr& record : applied->workers) {
    table_.PutWorker(record->worker().name(), record);
  }
  for (const std::string& worker : applied->removed_workers) {
    table_.PutWorker(worker, nullptr);
  }
  return true;
}

internal::Update Cluster::Create() {
  internal::Update update = make_.Create(absl::StrCat("j", ++num_jobs_));
  v1::JobSpec& spec = *update.mutable_create_job()->mutable_spec();
  constexpr const char* kPresets[] = {"fp32", "bf16", "fp16", "tf32"};
  spec.mutable_precision()->set_preset(kPresets[Below(4)]);
  spec.set_priority(Below(3));
  spec.mutable_resources()->set_memory_bytes(Below(3) * kGibibyte);
  if (Below(4) == 0) {
    spec.mutable_resources()->set_kind(Below(2) == 0 ? v1::ResourceSpec::GPU : v1::ResourceSpec::CPU);
  }
  if (Below(6) == 0) {
    spec.mutable_resources()->set_worker(AnyWorker());
  }
  return update;
}

internal::Update Cluster::Register() {
  internal::Update update = make_.Register(AnyWorker());
  v1::Worker& worker = *update.mutable_register_worker()->mutable_worker();
  worker.clear_devices();
  for (int i = Below(3); i >= 0; --i) {
    v1::Device& device = *worker.add_devices();
    device.set_id(absl::StrCat("d", i));
    device.set_kind(Below(2) == 0 ? v1::Device::GPU : v1::Device::CPU);
    device.set_capability_major(7 + Below(3));
    device.set_memory_total_bytes(4 * kGibibyte);
    device.set_unhealthy(Below(8) == 0);
  }
  return update;
}

void Cluster::ChangeJob() {
  const std::string id = AnyJob();
  const JobRecordPtr record = state_.FindJob(id);
  const int attempt = record == nullptr ? 0 : record->job().num_attempts();
  internal::Update update = make_.New();
  switch (Below(9)) {
    case 0:
      Apply(make_.Desire(id, v1::Job::CANCEL));
      break;
    case 1:
      Apply(make_.Desire(id, Below(2) == 0 ? v1::Job::PAUSE : v1::Job::RUN));
      break;
    case 2:
      update.mutable_change_job()->set_job(id);
      update.mutable_change_job()->set_priority(Below(5));
      Apply(update);
      break;
    case 3:
      Apply(make_.Advance(id, attempt, v1::Attempt::RUNNING));
      break;
    case 4:
      update = make_.Save(id, attempt, 1 + Below(50));
      update.mutable_record_checkpoint()->mutable_checkpoint()->set_local(Below(2) == 0);
      Apply(update);
      break;
    case 5:
      update.mutable_archive_jobs()->add_jobs(id);
      Apply(update);
      break;
    case 6:
      update.mutable_delete_job()->set_job(id);
      Apply(update);
      break;
    default:
      Apply(make_.End(id, attempt, v1::Outcome::FAILED,
                      Below(2) == 0 ? v1::Reason::DEVICE_ERROR : v1::Reason::WORKER_LOST));
  }
}

void Cluster::ChangeWorker() {
  const std::string worker = AnyWorker();
  internal::Update update = make_.New();
  switch (Below(5)) {
    case 0:
      Apply(make_.Drain(worker, Below(3) == 0));
      break;
    case 1:
      Apply(make_.Lose(worker));
      break;
    case 2:
      update.mutable_remove_worker()->set_worker(worker);
      Apply(update);
      break;
    default:
      Apply(Register());
  }
}

void Cluster::ChangeFacts() {
  const std::string worker = AnyWorker();
  std::optional<WorkerFacts> facts;
  if (Below(5) > 0) {
    facts.emplace();
    facts->is_stopping = Below(8) == 0;
    facts->fresh_until = now_since_boot_ + absl::Seconds(Below(20));
    for (int i = 0; i < 3; ++i) {
      facts->free_bytes[absl::StrCat("d", i)] = Below(4) * kGibibyte;
    }
    live_[worker] = *facts;
  } else {
    live_.erase(worker);
  }
  table_.PutFacts(worker, std::move(facts), now_since_boot_);
}

void Cluster::PassTime() {
  now_since_boot_ += absl::Seconds(Below(10));
  now_ += Below(10) == 0 ? (Below(2) == 0 ? -1 : 1) * int64_t{3'600'000'000} : Below(20) * int64_t{1'000'000};
}

void Cluster::Change() {
  switch (Below(6)) {
    case 0:
      Apply(Create());
      break;
    case 1:
      ChangeWorker();
      break;
    case 2:
      ChangeFacts();
      break;
    case 3:
      PassTime();
      break;
    default:
      ChangeJob();
  }
}

std::pair<std::string, std::string> Cluster::Decide() {
  const std::string expected = ToString(FillTable(state_, live_).Place(now_, now_since_boot_));
  const std::vector<Placement> placements = table_.Place(now_, now_since_boot_);
  for (const Placement& placement : placements) {
    const std::string& id = placement.job->job().id();
    if (Below(4) > 0) {
      internal::Update update = make_.Assign(id, placement.job->job().num_attempts() + 1, placement.worker);
      update.mutable_assign_attempt()->set_devices(0, placement.device);
      EXPECT_TRUE(Apply(update)) << id;
      ++num_placed_;
    }
    table_.Settle(id);
    table_.PutJob(id, state_.FindJob(id));
  }
  return {ToString(placements), expected};
}

// After any changes, in any order, the placement table must contain and decide the same as a new table with the same
// records.
TEST(PlacementTable, AfterAnyChanges_EqualsOneThatIsFilledFromScratch) {
  int num_placed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Cluster cluster(seed);
    for (int change = 0; change < kChanges; ++change) {
      cluster.Change();
      const auto [known, filled] = cluster.Known();
      ASSERT_EQ(known, filled) << "seed " << seed << ", change " << change;
      if (change % 3 == 0) {
        const auto [decided, expected] = cluster.Decide();
        ASSERT_EQ(decided, expected) << "seed " << seed << ", change " << change;
      }
    }
    num_placed += cluster.num_placed();
  }
  EXPECT_GT(num_placed, static_cast<int>(kSeeds) * 5) << "hardly anything was placed";
}

// A placement table with a worker "w" that has only free CPU devices, and with jobs that need a GPU.
class PlacementWorkTest : public testing::Test {
 protected:
  static constexpr int kDevices = 100;
  static constexpr int kJobs = 2000;

  PlacementWorkTest() {
    internal::Update update = make_.Register("w");
    v1::Worker& worker = *update.mutable_register_worker()->mutable_worker();
    facts_.free_bytes[worker.devices(0).id()] = kGibibyte;
    for (int i = 1; i < kDevices; ++i) {
      v1::Device& device = *worker.add_devices();
      device = worker.devices(0);
      device.set_id(absl::StrCat("cpu", i));
      facts_.free_bytes[device.id()] = kGibibyte;
    }
    Apply(update);
    table_.PutWorker("w", state_.FindWorker("w"));
    table_.PutFacts("w", facts_, absl::ZeroDuration());
    for (int i = 0; i < kJobs; ++i) {
      AddJob(absl::StrCat("j", i), v1::ResourceSpec::GPU);
    }
    Place();
  }

  void Apply(const internal::Update& update) { ASSERT_TRUE(state_.Apply(update).ok()); }
  void AddJob(const std::string& id, v1::ResourceSpec::Kind kind) {
    internal::Update update = make_.Create(id);
    update.mutable_create_job()->mutable_spec()->mutable_precision()->set_preset("fp32");
    update.mutable_create_job()->mutable_spec()->mutable_resources()->set_kind(kind);
    Apply(update);
    table_.PutJob(id, state_.FindJob(id));
  }
  std::vector<Placement> Place() { return table_.Place(1'700'000'000'000'000, absl::ZeroDuration()); }
  int64_t ExaminedBy(const std::function<void()>& work) {
    const int64_t before = table_.num_examined();
    work();
    return table_.num_examined() - before;
  }

  UpdateMaker make_;
  ClusterState state_;
  WorkerFacts facts_;
  PlacementTable table_;
};

TEST_F(PlacementWorkTest, WhenNothingChanged_NothingIsCompared) {
  EXPECT_EQ(ExaminedBy([this] { EXPECT_THAT(Place(), IsEmpty()); }), 0);
}

TEST_F(PlacementWorkTest, AJobThatIsQueued_IsComparedWithTheFreeDevicesOnly) {
  AddJob("fits-nowhere", v1::ResourceSpec::GPU);
  EXPECT_EQ(ExaminedBy([this] { EXPECT_THAT(Place(), IsEmpty()); }), kDevices);
  AddJob("fits", v1::ResourceSpec::CPU);
  EXPECT_EQ(ExaminedBy([this] { EXPECT_EQ(Place().size(), 1u); }), kDevices);
}

TEST_F(PlacementWorkTest, AReportThatFreesMemoryOfOneDevice_ComparesThatDeviceOnly) {
  table_.PutFacts("w", facts_, absl::ZeroDuration());
  EXPECT_EQ(ExaminedBy([this] { Place(); }), 0) << "nothing became free";
  facts_.free_bytes["cpu7"] += kGibibyte;
  table_.PutFacts("w", facts_, absl::ZeroDuration());
  EXPECT_EQ(ExaminedBy([this] { Place(); }), kJobs);
}

TEST_F(PlacementWorkTest, AReservedDevice_IsGivenToNobodyUntilItsPlacementIsSettled) {
  AddJob("first", v1::ResourceSpec::CPU);
  const std::vector<Placement> placed = Place();
  ASSERT_EQ(placed.size(), 1u);
  EXPECT_THAT(Place(), IsEmpty()) << "its assignment is on its way";
  AddJob("second", v1::ResourceSpec::CPU);
  const std::vector<Placement> next = Place();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_NE(next[0].device, placed[0].device);
  table_.Settle("first");
  table_.PutJob("first", state_.FindJob("first"));
  const std::vector<Placement> again = Place();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].job->job().id(), "first") << "refused, and decided again";
  EXPECT_EQ(again[0].device, placed[0].device);
}

}  // namespace
}  // namespace ampd::server
