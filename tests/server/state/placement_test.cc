#include "server/state/placement.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "server/state/liveness.h"
#include "server/state/placement_table.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;

constexpr int64_t kGiB = int64_t{1} << 30;

class PlacementTest : public testing::Test {
 protected:
  void Apply(const internal::Update& update) {
    const auto applied = state.Apply(update);
    ASSERT_TRUE(applied.ok()) << applied.status();
  }
  void AddWorker(const std::string& name, v1::Device::Kind kind, int capability = 0,
                 std::vector<std::string> instruction_sets = {}) {
    internal::Update update = make.Register(name);
    v1::Device& device = *update.mutable_register_worker()->mutable_worker()->mutable_devices(0);
    device.set_id(kind == v1::Device::GPU ? "gpu0" : "cpu");
    device.set_kind(kind);
    device.set_capability_major(capability / 10);
    device.set_capability_minor(capability % 10);
    *device.mutable_instruction_sets() = {instruction_sets.begin(), instruction_sets.end()};
    update.mutable_register_worker()->add_data_roots("root");
    Apply(update);
    live[name].free_bytes[device.id()] = 4 * kGiB;
  }
  void AddJob(const std::string& id, const std::function<void(v1::JobSpec*)>& change = {}) {
    internal::Update update = make.Create(id);
    update.mutable_create_job()->mutable_spec()->mutable_precision()->set_preset("fp32");
    if (change) {
      change(update.mutable_create_job()->mutable_spec());
    }
    Apply(update);
  }
  // Changes a worker of AddWorker: it serves only `tenants`. Each key of `data_roots` is a data root, which only the
  // tenants in the value may use.
  void LimitWorker(const std::string& name, const std::vector<std::string>& tenants,
                   const std::map<std::string, std::vector<std::string>>& data_roots) {
    internal::Update update = make.New();
    internal::RegisterWorker& registration = *update.mutable_register_worker();
    *registration.mutable_worker() = state.FindWorker(name)->worker();
    registration.mutable_worker()->mutable_tenants()->Assign(tenants.begin(), tenants.end());
    *registration.mutable_data_roots() = state.FindWorker(name)->data_roots();
    for (const auto& [root, allowed] : data_roots) {
      v1::DataRootTenants& limit = *registration.add_data_root_tenants();
      limit.set_data_root(root);
      limit.mutable_tenants()->Assign(allowed.begin(), allowed.end());
    }
    Apply(update);
  }
  // Moves the job to the tenant, by changing a snapshot of the state and loading it.
  void SetTenant(const std::string& job, const std::string& tenant) {
    internal::Snapshot snapshot = state.ToSnapshot(0);
    for (internal::JobRecord& record : *snapshot.mutable_jobs()) {
      if (record.job().id() == job) {
        record.mutable_job()->set_tenant(tenant);
      }
    }
    state = ClusterState::FromSnapshot(snapshot);
  }
  std::vector<Placement> PlaceJobs() const { return FillTable(state, live).Place(now, absl::ZeroDuration()); }
  // Places the jobs and returns each placement as "job@worker/device precision".
  std::vector<std::string> Placed() {
    std::vector<std::string> placed;
    for (const Placement& placement : PlaceJobs()) {
      placed.push_back(absl::StrCat(placement.job->job().id(), "@", placement.worker, "/", placement.device, " ",
                                    placement.precision.preset, placement.precision.emulated ? " emulated" : ""));
    }
    return placed;
  }
  v1::ExplainJobResponse Explain(const std::string& job) {
    const JobRecordPtr record = state.FindJob(job);
    return ExplainWaiting(Fleet(state, live), CountAhead(state, record->job()) > 0, *record, now);
  }

  UpdateMaker make;
  ClusterState state;
  LiveWorkers live;
  int64_t now = 2'000'000'000'000'000;
};

TEST_F(PlacementTest, HigherPriorityGoesFirst_ThenSubmitOrder) {
  AddJob("j1");
  AddJob("j2", [](v1::JobSpec* spec) { spec->set_priority(5); });
  AddJob("j3");
  AddWorker("w1", v1::Device::CPU);
  AddWorker("w2", v1::Device::CPU);
  EXPECT_THAT(Placed(), ElementsAre("j2@w1/cpu fp32", "j1@w2/cpu fp32"));
}

TEST_F(PlacementTest, JobThatFitsNowhere_DoesNotHoldUpOthers) {
  AddJob("j1", [](v1::JobSpec* spec) { spec->mutable_resources()->set_kind(v1::ResourceSpec::GPU); });
  AddJob("j2");
  AddWorker("w1", v1::Device::CPU);
  EXPECT_THAT(Placed(), ElementsAre("j2@w1/cpu fp32"));
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::NO_MATCHING_DEVICE);
}

TEST_F(PlacementTest, Auto_PrefersAGpuThenNativePrecision) {
  const auto bf16 = [](v1::JobSpec* spec) { spec->mutable_precision()->set_preset("bf16"); };
  AddWorker("w1", v1::Device::CPU);
  AddWorker("w2", v1::Device::CPU, 0, {"avx512_bf16"});
  AddWorker("w3", v1::Device::GPU, 90);
  AddJob("j1", bf16);
  AddJob("j2", bf16);
  AddJob("j3", bf16);
  EXPECT_THAT(Placed(), ElementsAre("j1@w3/gpu0 bf16", "j2@w2/cpu bf16", "j3@w1/cpu bf16 emulated"));
}

TEST_F(PlacementTest, FirstWeights_AreNeededWhereAJobBegins) {
  AddWorker("w1", v1::Device::CPU);
  for (const bool is_clone : {false, true}) {
    EXPECT_THAT(Placed(), testing::IsEmpty());
    internal::Update update = make.Create(is_clone ? "j2" : "j1");
    internal::CreateJob& create = *update.mutable_create_job();
    create.mutable_spec()->mutable_precision()->set_preset("fp32");
    create.mutable_spec()->mutable_model()->set_initial_weights("models/w.safetensors");
    if (is_clone) {
      create.mutable_clone_start()->set_path("j0/1/step-8");
      create.mutable_clone_start()->set_worker("w1");
    }
    Apply(update);
  }
  EXPECT_THAT(Placed(), ElementsAre("j2@w1/cpu fp32"));
}

TEST_F(PlacementTest, ModelFile_IsNeededWhereAJobBegins_AlsoWithTheWeightsOfACheckpoint) {
  AddWorker("w1", v1::Device::CPU);
  const auto add = [this](const std::string& id, const std::string& weights_of, const std::string& start) {
    internal::Update update = make.Create(id);
    internal::CreateJob& create = *update.mutable_create_job();
    create.mutable_spec()->mutable_precision()->set_preset("fp32");
    v1::ModelSpec& model = *create.mutable_spec()->mutable_model();
    model.mutable_exported()->set_path("models/m.pt2");
    if (!weights_of.empty()) {
      model.mutable_initial_checkpoint()->set_job_id(weights_of);
    }
    if (!start.empty()) {
      create.mutable_clone_start()->set_path(start);
      create.mutable_clone_start()->set_worker("w1");
    }
    Apply(update);
  };
  add("j1", "", "");
  EXPECT_THAT(Explain("j1").message(), testing::HasSubstr("has no data root \"models\""));
  add("j2", "j0", "j0/1/step-8");
  EXPECT_THAT(Explain("j2").message(), testing::HasSubstr("has no data root \"models\""));
  EXPECT_THAT(Placed(), testing::IsEmpty());
  add("j3", "", "j0/1/step-8");
  add("j4", "j0", "j2/1/step-8");
  EXPECT_THAT(Placed(), ElementsAre("j3@w1/cpu fp32")) << "a checkpoint carries the model";
  Apply(make.Assign("j3", 1, "w1"));
  EXPECT_EQ(Explain("j4").reason(), v1::PendingReason::DEVICE_BUSY);
}

TEST_F(PlacementTest, MatchingWorkers_AreThoseThatServeWithTheDevicesOfTheWantedKind) {
  AddWorker("w1", v1::Device::CPU);
  AddWorker("w2", v1::Device::GPU, 90);
  AddWorker("w3", v1::Device::CPU);
  AddWorker("w4", v1::Device::CPU);
  live.erase("w3");
  Apply(make.Drain("w4"));
  AddJob("j1");
  Apply(make.Assign("j1", 1, "w1"));
  const auto matching = [this](const std::function<void(v1::JobSpec*)>& change) {
    v1::JobSpec spec = SmallSpec();
    change(&spec);
    std::vector<std::string> found;
    for (const v1::Worker& worker : MatchingWorkers(state, live, "default", spec)) {
      for (const v1::Device& device : worker.devices()) {
        found.push_back(absl::StrCat(worker.name(), "/", device.id(), " ", device.memory_total_bytes() >> 30));
      }
    }
    return found;
  };
  EXPECT_THAT(matching([](v1::JobSpec*) {}), ElementsAre("w1/cpu 8", "w2/gpu0 8")) << "held or not";
  EXPECT_THAT(matching([](v1::JobSpec* spec) { spec->mutable_resources()->set_kind(v1::ResourceSpec::GPU); }),
              ElementsAre("w2/gpu0 8"));
  EXPECT_THAT(matching([](v1::JobSpec* spec) { spec->mutable_resources()->set_worker("w1"); }),
              ElementsAre("w1/cpu 8"));
  EXPECT_THAT(matching([](v1::JobSpec* spec) { spec->mutable_model()->set_initial_weights("other/weights"); }),
              ElementsAre())
      << "no worker has that data root";
}

TEST_F(PlacementTest, NoWorkerFits_IfNoneInServiceCouldRunTheJobEvenAlone) {
  AddJob("j1");
  EXPECT_TRUE(Explain("j1").no_worker_fits()) << "there is no worker";
  AddWorker("w1", v1::Device::CPU);
  EXPECT_FALSE(Explain("j1").no_worker_fits());
  Apply(make.Assign("j1", 1, "w1"));
  AddJob("j2");
  EXPECT_EQ(Explain("j2").reason(), v1::PendingReason::DEVICE_BUSY);
  EXPECT_FALSE(Explain("j2").no_worker_fits()) << "busy for a while only";
  AddJob("j3", [](v1::JobSpec* spec) { spec->mutable_resources()->set_memory_bytes(6 * kGiB); });
  AddJob("j4", [](v1::JobSpec* spec) { spec->mutable_resources()->set_memory_bytes(64 * kGiB); });
  AddWorker("w2", v1::Device::CPU);
  EXPECT_EQ(Explain("j3").reason(), v1::PendingReason::DEVICE_BUSY);
  Apply(make.Drain("w1"));
  EXPECT_EQ(Explain("j3").reason(), v1::PendingReason::INSUFFICIENT_MEMORY);
  EXPECT_FALSE(Explain("j3").no_worker_fits()) << "its memory is not free now";
  EXPECT_EQ(Explain("j4").reason(), v1::PendingReason::INSUFFICIENT_MEMORY);
  EXPECT_TRUE(Explain("j4").no_worker_fits()) << "no device has that much";
  live.erase("w2");
  EXPECT_EQ(Explain("j2").reason(), v1::PendingReason::WORKER_UNAVAILABLE);
  EXPECT_TRUE(Explain("j2").no_worker_fits()) << "no worker is in service";
}

TEST_F(PlacementTest, PendingReasons_AreThoseOfExplainWaiting) {
  AddWorker("w1", v1::Device::CPU);
  AddWorker("w2", v1::Device::GPU, 75);
  AddJob("j1");
  AddJob("j2", [](v1::JobSpec* spec) { spec->mutable_precision()->set_preset("bf16"); });
  AddJob("j3", [](v1::JobSpec* spec) { spec->mutable_resources()->set_worker("w9"); });
  AddJob("j4", [](v1::JobSpec* spec) { spec->mutable_model()->set_initial_weights("models/w.safetensors"); });
  AddJob("j5", [](v1::JobSpec* spec) { spec->mutable_resources()->set_memory_bytes(64 * kGiB); });
  AddJob("j6");
  Apply(make.Assign("j1", 1, "w1"));
  const Fleet fleet(state, live);
  PendingReasons reasons({.fleet = &fleet, .first_queued = "j2", .now_unix_micros = now, .max_examined = 1000});
  for (const char* job : {"j2", "j3", "j4", "j5", "j6"}) {
    const v1::ExplainJobResponse explained = Explain(job);
    const std::optional<v1::Pending> pending = reasons.Find(*state.FindJob(job));
    ASSERT_TRUE(pending.has_value()) << job;
    EXPECT_EQ(pending->reason(), explained.reason()) << job;
    EXPECT_EQ(pending->message(), explained.message()) << job;
    EXPECT_EQ(pending->no_worker_fits(), explained.no_worker_fits()) << job;
  }
  EXPECT_FALSE(reasons.Find(*state.FindJob("j1")).has_value()) << "it does not wait";
  EXPECT_EQ(Explain("j6").reason(), v1::PendingReason::BEHIND_OTHERS);
}

TEST_F(PlacementTest, PendingReasons_CompareJobsWithTheSameNeedsOnlyOnce_AndStopAtTheirLimit) {
  for (int i = 0; i < 10; ++i) {
    AddWorker(absl::StrCat("w", i), v1::Device::CPU);
  }
  for (int i = 0; i < 6; ++i) {
    AddJob(absl::StrCat("j", i), [i](v1::JobSpec* spec) { spec->mutable_resources()->set_memory_bytes(1 + i / 2); });
  }
  const Fleet fleet(state, live);
  PendingReasons reasons({.fleet = &fleet, .first_queued = "j0", .now_unix_micros = now, .max_examined = 25});
  std::vector<bool> known;
  for (int i = 0; i < 6; ++i) {
    known.push_back(reasons.Find(*state.FindJob(absl::StrCat("j", i))).has_value());
  }
  EXPECT_THAT(known, ElementsAre(true, true, true, true, false, false));
  EXPECT_EQ(reasons.num_examined(), 20);
  PendingReasons strict({.fleet = &fleet, .first_queued = "j0", .now_unix_micros = now, .max_examined = 0});
  EXPECT_TRUE(strict.Find(*state.FindJob("j5")).has_value()) << "the first job is always compared";
}

TEST_F(PlacementTest, CapabilityBelowThePolicy_IsExplainedWithNumbers) {
  AddWorker("w1", v1::Device::GPU, 75);
  AddJob("j1", [](v1::JobSpec* spec) { spec->mutable_precision()->set_preset("bf16"); });
  AddJob("j2", [](v1::JobSpec* spec) { spec->mutable_precision()->set_preset("fp16"); });
  EXPECT_THAT(Placed(), ElementsAre("j2@w1/gpu0 fp16"));
  const v1::ExplainJobResponse response = Explain("j1");
  EXPECT_EQ(response.reason(), v1::PendingReason::CAPABILITY_TOO_LOW);
  EXPECT_EQ(response.devices(0).needed(), 80);
  EXPECT_EQ(response.devices(0).available(), 75);
}

TEST_F(PlacementTest, Tf32_IsNotPlacedOnACpu) {
  AddWorker("w1", v1::Device::CPU);
  AddJob("j1", [](v1::JobSpec* spec) { spec->mutable_precision()->set_preset("tf32"); });
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::CAPABILITY_TOO_LOW);
  EXPECT_EQ(Explain("j1").devices(0).needed(), 80);
}

TEST_F(PlacementTest, Prefer_TakesTheFirstThatTheDeviceComputesNatively) {
  const auto prefer = [](std::vector<std::string> presets) {
    return [presets](v1::JobSpec* spec) {
      spec->mutable_precision()->clear_preset();
      *spec->mutable_precision()->mutable_prefer() = {presets.begin(), presets.end()};
    };
  };
  AddWorker("w1", v1::Device::GPU, 75);
  AddJob("j1", prefer({"bf16", "fp16", "fp32"}));
  EXPECT_THAT(Placed(), ElementsAre("j1@w1/gpu0 fp16"));
  EXPECT_EQ(PlaceJobs()[0].precision.reason, "preferred; bf16 needs compute capability 8.0; gpu0 has 7.5");
  internal::Update assign = make.Assign("j1", 1, "w1");
  assign.mutable_assign_attempt()->set_devices(0, "gpu0");
  Apply(assign);
  AddWorker("w2", v1::Device::CPU);
  AddJob("j2", prefer({"bf16", "fp16", "fp32"}));
  EXPECT_THAT(Placed(), ElementsAre("j2@w2/cpu fp32"));
  Apply(make.Desire("j2", v1::Job::CANCEL));
  AddJob("j3", prefer({"fp16", "bf16"}));
  EXPECT_THAT(Placed(), ElementsAre("j3@w2/cpu fp16 emulated"));
  Apply(make.Desire("j3", v1::Job::CANCEL));
  AddJob("j4", prefer({"tf32"}));
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_EQ(Explain("j4").reason(), v1::PendingReason::CAPABILITY_TOO_LOW);
}

TEST_F(PlacementTest, DeclaredMemory_IsHeldAgainstFreeMemory) {
  AddWorker("w1", v1::Device::CPU);
  AddJob("j1", [](v1::JobSpec* spec) { spec->mutable_resources()->set_memory_bytes(5 * kGiB); });
  EXPECT_THAT(Placed(), ElementsAre());
  const v1::ExplainJobResponse response = Explain("j1");
  EXPECT_EQ(response.reason(), v1::PendingReason::INSUFFICIENT_MEMORY);
  EXPECT_EQ(response.devices(0).needed(), 5 * kGiB);
  EXPECT_EQ(response.devices(0).available(), 4 * kGiB);
  live["w1"].free_bytes["cpu"] = 6 * kGiB;
  EXPECT_THAT(Placed(), ElementsAre("j1@w1/cpu fp32"));
}

TEST_F(PlacementTest, HeldDevice_IsBusy) {
  AddWorker("w1", v1::Device::CPU);
  AddJob("j1");
  AddJob("j2");
  Apply(make.Assign("j1", 1, "w1"));
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_EQ(Explain("j2").reason(), v1::PendingReason::DEVICE_BUSY);
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::NOT_PENDING);
}

TEST_F(PlacementTest, SilentDrainedAndWrongWorkers_GetNothing) {
  AddWorker("w1", v1::Device::CPU);
  AddWorker("w2", v1::Device::CPU);
  AddWorker("w3", v1::Device::CPU);
  live.erase("w1");
  Apply(make.Drain("w2"));
  AddJob("j1", [](v1::JobSpec* spec) { spec->mutable_resources()->set_worker("w2"); });
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::WORKER_UNAVAILABLE);
  EXPECT_THAT(Explain("j1").message(), testing::HasSubstr("w2 is drained; ampctl worker undrain w2 ends that"));
}

TEST_F(PlacementTest, LocalCheckpoint_WaitsForItsWorker) {
  AddWorker("w1", v1::Device::CPU);
  AddWorker("w2", v1::Device::CPU);
  AddJob("j1");
  Apply(make.Assign("j1", 1, "w1"));
  internal::Update save = make.Save("j1", 1, 8);
  save.mutable_record_checkpoint()->mutable_checkpoint()->set_local(true);
  Apply(save);
  Apply(make.Lose("w1"));
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::WAITING_FOR_CHECKPOINT_WORKER);
  Apply(make.Register("w1"));
  const auto placements = PlaceJobs();
  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].worker, "w1");
  EXPECT_EQ(placements[0].start_from->step(), 8);
}

TEST_F(PlacementTest, CheckpointOnASharedRoot_IsNotForAWorkerThatDoesNotShareIt) {
  AddWorker("w1", v1::Device::CPU);
  AddJob("j1");
  Apply(make.Assign("j1", 1, "w1"));
  Apply(make.Save("j1", 1, 8));
  Apply(make.Lose("w1"));
  AddWorker("w2", v1::Device::CPU);
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_THAT(Explain("j1").message(),
              testing::HasSubstr("is on worker w1, and w2 was started without --checkpoint-root-shared"));
  internal::Update shared = make.Register("w2");
  shared.mutable_register_worker()->mutable_worker()->set_checkpoint_root_shared(true);
  shared.mutable_register_worker()->add_data_roots("root");
  shared.mutable_register_worker()->mutable_worker()->mutable_devices(0)->set_id("cpu");
  Apply(shared);
  EXPECT_THAT(Placed(), ElementsAre("j1@w2/cpu fp32"));
}

TEST_F(PlacementTest, MissingDataRoot_IsNamed) {
  AddWorker("w1", v1::Device::CPU);
  AddJob("j1", [](v1::JobSpec* spec) {
    spec->mutable_data()->mutable_train()->mutable_idx()->set_images("other/x");
    spec->mutable_data()->mutable_train()->mutable_idx()->set_labels("root/y");
  });
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_THAT(Explain("j1").message(), testing::HasSubstr("worker w1 has no data root \"other\"; it has root "
                                                          "(ampd-worker --data-root NAME=FOLDER)"));
  AddJob("j2", [](v1::JobSpec* spec) {
    spec->mutable_data()->mutable_eval()->mutable_tokens()->set_path("elsewhere/text.bin");
  });
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_THAT(Explain("j2").message(), testing::HasSubstr("\"elsewhere\""));
}

TEST_F(PlacementTest, DataRootOfEveryKindOfSource_IsWanted) {
  AddWorker("w1", v1::Device::CPU);
  const std::pair<const char*, const char*> sources[] = {
      {"cifar {files: 'root/a' files: 'other/b'}", "\"other\""},
      {"npz {file: 'other/a' images: 'x' labels: 'y'}", "\"other\""},
      {"safetensors {file: 'other/a' images: 'x' labels: 'y'}", "\"other\""},
      {"npz {images: 'root/a' labels: 'other/b'}", "\"other\""},
      {"npz {images: 'other/a' labels: 'root/b'}", "\"other\""},
      {"jsonl {path: 'other/a'}", "\"other\""}};
  int count = 0;
  for (const auto& [text, named] : sources) {
    const std::string id = absl::StrCat("j", ++count);
    AddJob(id, [text = text](v1::JobSpec* spec) {
      ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, spec->mutable_data()->mutable_train()));
    });
    EXPECT_THAT(Placed(), ElementsAre()) << text;
    EXPECT_THAT(Explain(id).message(), testing::HasSubstr(named)) << text;
  }
}

TEST_F(PlacementTest, AJobRunsOnWorkersOfItsTenant_AndTheOthersAreNoReasonToShow) {
  AddWorker("w1", v1::Device::CPU);
  LimitWorker("w1", {"nlp", "vision"}, {});
  AddJob("j1");
  SetTenant("j1", "audio");
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_EQ(Explain("j1").devices_size(), 0);
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::NO_WORKERS);
  EXPECT_EQ(MatchingWorkers(state, live, "audio", SmallSpec()).size(), 0u);
  EXPECT_EQ(MatchingWorkers(state, live, "nlp", SmallSpec()).size(), 1u);
  AddJob("j2");
  SetTenant("j2", "vision");
  EXPECT_THAT(Placed(), ElementsAre("j2@w1/cpu fp32"));
}

TEST_F(PlacementTest, ADataRootOfOtherTenantsIsAsIfItWereNotThere) {
  AddWorker("w1", v1::Device::CPU);
  LimitWorker("w1", {}, {{"root", {"nlp"}}});
  for (const std::string id : {"j1", "j2"}) {
    AddJob(id, [](v1::JobSpec* spec) { spec->mutable_data()->mutable_train()->mutable_jsonl()->set_path("root/a"); });
  }
  SetTenant("j1", "vision");
  SetTenant("j2", "nlp");
  EXPECT_THAT(Explain("j1").message(), testing::HasSubstr("has no data root \"root\"; it has none"));
  EXPECT_THAT(Placed(), ElementsAre("j2@w1/cpu fp32"));
}

TEST_F(PlacementTest, OnlyTheJobsOfItsTenantAreCountedAheadOfAJob) {
  AddJob("j1");
  AddJob("j2");
  AddJob("j3");
  SetTenant("j1", "vision");
  SetTenant("j2", "nlp");
  SetTenant("j3", "nlp");
  const v1::Job last = state.FindJob("j3")->job();
  EXPECT_EQ(CountAhead(state, last), 2);
  EXPECT_EQ(CountAheadInTenant(state, last), 1);
}

TEST_F(PlacementTest, NamesOfArraysInAnArchive_AreNoDataRoots) {
  AddWorker("w1", v1::Device::CPU);
  AddJob("j1", [](v1::JobSpec* spec) {
    v1::NpzSource& npz = *spec->mutable_data()->mutable_train()->mutable_npz();
    npz.set_file("root/a.npz");
    npz.set_images("images");
    npz.set_labels("labels");
  });
  EXPECT_THAT(Placed(), ElementsAre("j1@w1/cpu fp32"));
}

TEST_F(PlacementTest, RetryDelay_HoldsTheJobBack) {
  AddWorker("w1", v1::Device::CPU);
  AddJob("j1");
  for (int attempt = 1; attempt <= 2; ++attempt) {
    Apply(make.Assign("j1", attempt, "w1"));
    Apply(make.End("j1", attempt, v1::Outcome::FAILED, v1::Reason::DEVICE_ERROR));
  }
  now = state.FindJob("j1")->not_before_unix_micros() - 1;
  EXPECT_THAT(Placed(), ElementsAre());
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::RETRY_BACKOFF);
  ++now;
  EXPECT_THAT(Placed(), ElementsAre("j1@w1/cpu fp32"));
}

TEST_F(PlacementTest, NoWorkers_IsSaid) {
  AddJob("j1");
  EXPECT_EQ(Explain("j1").reason(), v1::PendingReason::NO_WORKERS);
}

TEST(Liveness, WorkerIsSilentOnlyAfterLeaseAndMargin) {
  Liveness liveness(absl::Seconds(10), absl::Seconds(5));
  liveness.Renew("w1", absl::Seconds(100));
  liveness.Watch("w2", absl::Seconds(110));
  liveness.Watch("w1", absl::Seconds(114));
  EXPECT_THAT(liveness.Silent(absl::Seconds(115)), ElementsAre());
  EXPECT_THAT(liveness.Silent(absl::Seconds(115) + absl::Nanoseconds(1)), ElementsAre("w1"));
  liveness.Renew("w1", absl::Seconds(116));
  liveness.Renew("w1", absl::Seconds(90));
  EXPECT_THAT(liveness.Silent(absl::Seconds(126)), ElementsAre("w2"));
  liveness.Forget("w2");
  EXPECT_THAT(liveness.Silent(absl::Seconds(126)), ElementsAre());
}

}  // namespace
}  // namespace ampd::server
