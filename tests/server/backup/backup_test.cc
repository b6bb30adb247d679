// Tests backups of a whole server that runs in this process, and servers that are restored from them.
#include "server/backup/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ampd/v1/artifact_service.grpc.pb.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/random.h"
#include "server/artifacts/artifact_index.h"
#include "server/backup/check.h"
#include "server/backup/manifest.h"
#include "server/backup/restore.h"
#include "server/init/init.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using BeforeStep = std::function<absl::Status(const std::string&)>;

class BackupTest : public testing::Test {
 protected:
  BackupTest() : server_([this](ServerConfig* config) { config->data_dir = data_; }) {}

  absl::StatusOr<BackupSummary> Backup(const std::string& name = "backup", BeforeStep before_step = nullptr) {
    return MakeBackup(
        {.data_dir = data_, .out = folder_.Path(name), .clock = &SystemClock(), .before_step = std::move(before_step)});
  }
  absl::StatusOr<RestoreSummary> Restore(const std::string& name = "restored", BeforeStep before_step = nullptr) {
    return RestoreBackup({.from = folder_.Path("backup"),
                          .data_dir = folder_.Path(name),
                          .clock = &SystemClock(),
                          .random = &SystemRandom(),
                          .before_step = std::move(before_step)});
  }

  // Creates a job, and runs it on `worker` until it has ended. The job then has metric points, events, a log, a
  // checkpoint and a generated sample. Returns the job's id.
  std::string RunJob(ScriptedWorker* worker) {
    const std::string id = server_.CreateJob().id();
    const v1::AttemptKey key = worker->Adopt(id);
    v1::TelemetryBatch batch = Steps(1, 20);
    v1::Sample& sample = *batch.add_samples();
    sample.set_attempt_sequence(21);
    sample.set_step(20);
    sample.set_file_name("sample.txt");
    sample.set_content("the sample of " + id);
    EXPECT_EQ(worker->Upload(key, batch, "a line of the log\n").stored_sequence(), 21u);
    worker->SaveCheckpoint(key, 1);
    worker->Finish(key, 21);
    return id;
  }

  // Returns the events of a job that has ended. Polls until the last event is there, because it is stored a little
  // after the job's end, and after a restart only when the journal has been replayed.
  static v1::ListEventsResponse Events(ServerAccess& server, const std::string& id) {
    v1::ListEventsRequest request;
    request.set_id(id);
    v1::ListEventsResponse response;
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (response.events_size() == 0 || response.events().rbegin()->to_state() != v1::Job::SUCCEEDED) {
      EXPECT_TRUE(server.jobs().ListEvents(Context().get(), request, &response).ok());
      if (absl::Now() > deadline) {
        ADD_FAILURE() << "the job's end is not among its events: " << response.ShortDebugString();
        break;
      }
    }
    return response;
  }

  // Returns as text what a client sees of a job: the job, points, events and the names of its samples.
  static std::string Shown(ServerAccess& server, const std::string& id) {
    v1::Job job = server.GetJob(id);
    job.clear_progress();   // Progress is kept only in memory, so a restart loses the latest numbers.
    job.clear_retention();  // The retention depends on the server's flags.
    v1::ListMetricPointsRequest points;
    points.set_id(id);
    points.set_include_superseded(true);
    v1::ListMetricPointsResponse of_points;
    EXPECT_TRUE(server.jobs().ListMetricPoints(Context().get(), points, &of_points).ok());
    v1::ListArtifactsRequest artifacts;
    artifacts.set_job_id(id);
    v1::ListArtifactsResponse of_artifacts;
    const auto stub = v1::ArtifactService::NewStub(server.NewChannel());
    EXPECT_TRUE(stub->ListArtifacts(Context().get(), artifacts, &of_artifacts).ok());
    EXPECT_EQ(of_artifacts.artifacts_size(), 1) << id;
    return absl::StrCat(job.ShortDebugString(), "\n", of_points.ShortDebugString(), "\n",
                        Events(server, id).ShortDebugString(), "\n", of_artifacts.ShortDebugString());
  }
  static std::vector<std::string> Tokens(ServerAccess& server) {
    v1::ListTokensResponse response;
    const auto stub = v1::AuthService::NewStub(server.NewChannel());
    EXPECT_TRUE(stub->ListTokens(Context().get(), {}, &response).ok());
    std::vector<std::string> names;
    for (const v1::Token& token : response.tokens()) {
      names.push_back(token.name());
    }
    return names;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
  }

  TemporaryFolder folder_;
  const std::string data_ = folder_.Path("data");
  // The result of `init` for the data directory that the server uses.
  const absl::StatusOr<std::string> initialized_ = InitServer({.data_dir = data_, .hosts = {"localhost"}});
  TestServer server_;
};

TEST_F(BackupTest, RestoredServer_HasTheSameHistory) {
  ScriptedWorker worker(&server_, "w1");
  const std::string first = RunJob(&worker), second = RunJob(&worker);
  ASSERT_TRUE(Backup().ok()) << "while the server runs";
  const std::string before = Shown(server_, first) + Shown(server_, second);
  const auto summary = Restore();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->num_unfinished_jobs, 0);
  TestServer restored([this](ServerConfig* config) { config->data_dir = folder_.Path("restored"); });
  EXPECT_EQ(Shown(restored, first) + Shown(restored, second), before);
  EXPECT_EQ(Tokens(restored), Tokens(server_));
  EXPECT_THAT(Tokens(restored), Contains("admin"));
  EXPECT_EQ(*ReadFile(folder_.Path("restored/tls/ca.key"), 1 << 16), *ReadFile(data_ + "/tls/ca.key", 1 << 16));
}

TEST_F(BackupTest, FilesAreForTheirOwnerOnly_AndPublicCertificatesAreReadableAgain) {
  ASSERT_TRUE(Backup().ok());
  const auto manifest = ReadManifest(folder_.Path("backup"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  std::set<std::string> listed = {"manifest.json"};
  for (const BackupFile& file : manifest->files) {
    EXPECT_EQ(ModeOf(folder_.Path("backup/" + file.path)), 0600u) << file.path;
    EXPECT_EQ(*Sha256OfFile(folder_.Path("backup/" + file.path)), file.sha256) << file.path;
    listed.insert(file.path);
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder_.Path("backup"))) {
    if (entry.is_directory()) {
      EXPECT_EQ(ModeOf(entry.path().string()), 0700u);
    } else {
      EXPECT_THAT(listed, Contains(fs::relative(entry.path(), folder_.Path("backup")).string()));
    }
  }
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(ModeOf(folder_.Path("restored")), 0700u);
  EXPECT_EQ(ModeOf(folder_.Path("restored/tls/ca.key")), 0600u);
  EXPECT_EQ(ModeOf(folder_.Path("restored/tls/ca.pem")), 0644u);
  EXPECT_EQ(ModeOf(folder_.Path("restored/admin.token")), 0600u);
}

TEST_F(BackupTest, ServerThatIsStopped_IsBackedUpToo) {
  ScriptedWorker worker(&server_, "w1");
  const std::string id = RunJob(&worker);
  worker.Close();
  server_.Stop();
  ASSERT_TRUE(Backup().ok());
  ASSERT_TRUE(Restore().ok());
  TestServer restored([this](ServerConfig* config) { config->data_dir = folder_.Path("restored"); });
  EXPECT_EQ(restored.GetJob(id).state(), v1::Job::SUCCEEDED);
}

// Backup calls a function at each of its steps. Here, this function lets one step fail.
TEST_F(BackupTest, BackupThatFailsAtAnyStep_LeavesNothing) {
  ScriptedWorker worker(&server_, "w1");
  RunJob(&worker);
  int num_steps = 0;
  ASSERT_TRUE(Backup("all", [&](const std::string&) {
                ++num_steps;
                return absl::OkStatus();
              }).ok());
  ASSERT_GE(num_steps, 12);
  for (int fails = 1; fails <= num_steps; ++fails) {
    int step = 0;
    const auto made = Backup("backup", [&](const std::string& what) {
      return ++step == fails ? absl::InternalError(what) : absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsInternal(made.status())) << "step " << fails << ": " << made.status();
    EXPECT_FALSE(fs::exists(folder_.Path("backup"))) << "step " << fails;
    EXPECT_FALSE(fs::exists(folder_.Path("backup.incomplete"))) << "step " << fails;
  }
}

// Runs `work` repeatedly in a child process. In the nth run, the child is killed before its nth step. Returns the
// number of steps.
int KillAtEachStep(const std::function<void(const BeforeStep&)>& work, const std::function<void(int)>& examine) {
  for (int fatal = 1;; ++fatal) {
    const pid_t child = fork();
    if (child == 0) {
      int step = 0;
      work([&](const std::string&) {
        if (++step == fatal) {
          kill(getpid(), SIGKILL);
        }
        return absl::OkStatus();
      });
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      return fatal - 1;
    }
    examine(fatal);
  }
}

TEST_F(BackupTest, BackupThatIsKilledAtAnyStep_IsNeverTakenForComplete) {
  ScriptedWorker worker(&server_, "w1");
  RunJob(&worker);
  worker.Close();
  server_.Stop();
  const int num_steps =
      KillAtEachStep([&](const BeforeStep& step) { Backup("backup", step).status().IgnoreError(); },
                     [&](int fatal) {
                       EXPECT_FALSE(fs::exists(folder_.Path("backup"))) << "step " << fatal;
                       EXPECT_EQ(ReasonOf(ReadManifest(folder_.Path("backup")).status()), "NOT_A_BACKUP");
                     });
  EXPECT_GE(num_steps, 12);
  EXPECT_TRUE(CheckBackup(folder_.Path("backup")).ok()) << CheckBackup(folder_.Path("backup")).ToText();
  EXPECT_FALSE(fs::exists(folder_.Path("backup.incomplete")));
}

TEST_F(BackupTest, RestoreThatIsKilledAtAnyStep_LeavesNoDataDirectory) {
  ScriptedWorker worker(&server_, "w1");
  RunJob(&worker);
  worker.Close();
  server_.Stop();
  ASSERT_TRUE(Backup().ok());
  const int num_steps =
      KillAtEachStep([&](const BeforeStep& step) { Restore("restored", step).status().IgnoreError(); },
                     [&](int fatal) { EXPECT_FALSE(fs::exists(folder_.Path("restored"))) << "step " << fatal; });
  EXPECT_GE(num_steps, 12);
  EXPECT_TRUE(CheckDataDirectory(folder_.Path("restored")).ok())
      << CheckDataDirectory(folder_.Path("restored")).ToText();
  EXPECT_FALSE(fs::exists(folder_.Path("restored.incomplete")));
}

TEST_F(BackupTest, RestoreThatFailsAtAnyStep_LeavesNothing) {
  ASSERT_TRUE(Backup().ok());
  int num_steps = 0;
  ASSERT_TRUE(Restore("all", [&](const std::string&) {
                ++num_steps;
                return absl::OkStatus();
              }).ok());
  for (int fails = 1; fails <= num_steps; ++fails) {
    int step = 0;
    EXPECT_TRUE(absl::IsInternal(Restore("restored", [&](const std::string& what) {
                                   return ++step == fails ? absl::InternalError(what) : absl::OkStatus();
                                 }).status()));
    EXPECT_FALSE(fs::exists(folder_.Path("restored"))) << "step " << fails;
    EXPECT_FALSE(fs::exists(folder_.Path("restored.incomplete"))) << "step " << fails;
  }
}

TEST_F(BackupTest, EveryDamagedFile_IsFoundBeforeTheServerIsRestored) {
  ScriptedWorker worker(&server_, "w1");
  RunJob(&worker);
  ASSERT_TRUE(Backup().ok());
  const auto manifest = ReadManifest(folder_.Path("backup"));
  ASSERT_GE(manifest->files.size(), 10u);
  for (const BackupFile& file : manifest->files) {
    const std::string path = folder_.Path("backup/" + file.path);
    const std::string content = *ReadFile(path, 64 << 20);
    std::vector<std::string> all_damaged = {content + "x"};
    if (!content.empty()) {  // The audit log may still be empty.
      all_damaged.push_back(content.substr(0, content.size() - 1));
      all_damaged.push_back(content);
      all_damaged.back()[content.size() / 2] ^= 1;
    }
    for (const std::string& damaged : all_damaged) {
      fs::remove(path);  // An artifact's file is a hard link to that in the data directory.
      ASSERT_TRUE(WriteFileAtomically(path, damaged).ok());
      const absl::Status refused = Restore().status();
      EXPECT_EQ(ReasonOf(refused), "BACKUP_DAMAGED") << file.path;
      EXPECT_THAT(std::string(refused.message()), HasSubstr(file.path));
      EXPECT_FALSE(CheckBackup(folder_.Path("backup")).ok()) << file.path;
    }
    fs::remove(path);
    EXPECT_EQ(ReasonOf(Restore().status()), "BACKUP_DAMAGED") << file.path << " is missing";
    EXPECT_FALSE(CheckBackup(folder_.Path("backup")).ok()) << file.path;
    ASSERT_TRUE(WriteFileAtomically(path, content).ok());
  }
  EXPECT_FALSE(fs::exists(folder_.Path("restored")));
  EXPECT_TRUE(Restore().ok());
}

TEST_F(BackupTest, DirectoryOfARunningServer_IsNotRestoredInto) {
  ASSERT_TRUE(Backup().ok());
  const auto restored = RestoreBackup({.from = folder_.Path("backup"),
                                       .data_dir = data_,
                                       .clock = &SystemClock(),
                                       .random = &SystemRandom(),
                                       .before_step = nullptr});
  EXPECT_EQ(ReasonOf(restored.status()), "DATA_DIRECTORY_LOCKED");
  server_.Stop();
}

TEST_F(BackupTest, FolderWithoutAJournal_AndAnOutputInsideTheDataDirectory_AreRefused) {
  EXPECT_EQ(ReasonOf(MakeBackup({.data_dir = folder_.Path("none"),
                                 .out = folder_.Path("backup"),
                                 .clock = &SystemClock(),
                                 .before_step = nullptr})
                         .status()),
            "DATA_DIRECTORY_UNUSABLE");
  EXPECT_EQ(ReasonOf(Backup("data/backup").status()), "CANNOT_WRITE");
  EXPECT_FALSE(fs::exists(data_ + "/backup.incomplete"));
}

TEST_F(BackupTest, ContentThatIsDeletedDuringTheBackup_IsLeftOutWithItsName) {
  ScriptedWorker worker(&server_, "w1");
  const std::string id = RunJob(&worker);
  bool was_deleted = false;
  const auto made = Backup("backup", [&](const std::string& step) {
    if (absl::StartsWith(step, "artifacts/") && !was_deleted) {
      v1::DeleteArtifactRequest request;
      request.set_name(id + "/step-20/sample.txt");
      google::protobuf::Empty empty;
      const auto stub = v1::ArtifactService::NewStub(server_.NewChannel());
      was_deleted = stub->DeleteArtifact(Context().get(), request, &empty).ok();
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(was_deleted);
  EXPECT_TRUE(CheckBackup(folder_.Path("backup")).ok()) << CheckBackup(folder_.Path("backup")).ToText();
  EXPECT_TRUE(fs::is_empty(folder_.Path("backup/artifacts")));
  ASSERT_TRUE(Restore().ok());
}

TEST_F(BackupTest, DamagedOrMissingContent_FailsTheBackupAndNamesIt) {
  ScriptedWorker worker(&server_, "w1");
  const std::string id = RunJob(&worker);
  const std::string sha256 = Sha256Hex("the sample of " + id);
  const std::string path = absl::StrCat(data_, "/artifacts/", sha256);
  ASSERT_TRUE(WriteFileAtomically(path, "the sample of j-somebody").ok());
  absl::Status failed = Backup().status();
  EXPECT_EQ(ReasonOf(failed), "STORE_CORRUPT");
  EXPECT_THAT(std::string(failed.message()), HasSubstr(sha256 + " is damaged"));
  fs::remove(path);
  failed = Backup().status();
  EXPECT_EQ(ReasonOf(failed), "STORE_CORRUPT");
  EXPECT_THAT(std::string(failed.message()), HasSubstr(sha256 + " is missing"));
  EXPECT_FALSE(fs::exists(folder_.Path("backup")));
}

// While the backup runs, the server finishes one more job. The backup has copied the journal by then, so the restored
// server must not have that job.
TEST_F(BackupTest, WhatHappensDuringTheBackup_IsWhollyThereOrNotAtAll) {
  ScriptedWorker worker(&server_, "w1");
  const std::string before = RunJob(&worker);
  const std::string shown = Shown(server_, before);
  std::string during;
  const auto made = Backup("backup", [&](const std::string& step) {
    if (step == "journal.db") {
      during = RunJob(&worker);
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_FALSE(during.empty());
  ASSERT_TRUE(Restore().ok());
  TestServer restored([this](ServerConfig* config) { config->data_dir = folder_.Path("restored"); });
  EXPECT_EQ(Shown(restored, before), shown);
  v1::GetJobRequest request;
  request.set_id(during);
  v1::Job job;
  EXPECT_EQ(restored.jobs().GetJob(Context().get(), request, &job).error_code(), grpc::StatusCode::NOT_FOUND);
}

// A backup copies the telemetry after the journal, so the telemetry may be newer. Here it is much newer: according to
// the telemetry the job has already ended.
TEST_F(BackupTest, TelemetryOfALaterMoment_IsTrimmedToTheJournal) {
  const std::string id = server_.CreateJob().id();
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(id);
  ASSERT_TRUE(Backup().ok());
  worker.SaveCheckpoint(key, 1);
  worker.Finish(key, 0);
  Events(server_, id);
  ASSERT_TRUE(Backup("later").ok());
  const std::string metrics = folder_.Path("backup/metrics.db");
  fs::copy_file(folder_.Path("later/metrics.db"), metrics, fs::copy_options::overwrite_existing);
  auto manifest = ReadManifest(folder_.Path("backup"));
  for (BackupFile& file : manifest->files) {
    if (file.path == "metrics.db") {
      file = {file.path, static_cast<int64_t>(fs::file_size(metrics)), *Sha256OfFile(metrics), file.mode};
    }
  }
  ASSERT_TRUE(WriteFileAtomically(folder_.Path("backup/manifest.json"), ToJson(*manifest)).ok());
  ASSERT_TRUE(Restore().ok());
  TestServer restored([this](ServerConfig* config) { config->data_dir = folder_.Path("restored"); });
  EXPECT_EQ(restored.GetJob(id).state(), v1::Job::PAUSING);
  v1::ListEventsRequest request;
  request.set_id(id);
  v1::ListEventsResponse events;
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  const auto has_pause = [&] {
    return events.events_size() > 0 && events.events().rbegin()->to_state() == v1::Job::PAUSING;
  };
  while (!has_pause() && absl::Now() < deadline) {
    ASSERT_TRUE(restored.jobs().ListEvents(Context().get(), request, &events).ok());
  }
  EXPECT_TRUE(has_pause()) << "an event of the old server took its number: " << events.ShortDebugString();
  EXPECT_THAT(events.ShortDebugString(), Not(HasSubstr("SUCCEEDED")));
}

// An attempt keeps running while its server is restored from a backup. The attempt's worker then connects to the
// restored server, which pauses the attempt and stores an event in place of the telemetry that the backup lacks. Later
// the old server refuses the worker.
TEST_F(BackupTest, WorkerOfTheOldServer_FollowsTheRestoredOne) {
  const std::string id = server_.CreateJob().id();
  ScriptedWorker worker(&server_, "w1", "agent");
  const v1::AttemptKey key = worker.Adopt(id);
  ASSERT_EQ(worker.Upload(key, Steps(1, 5), "early\n").stored_sequence(), 5u);
  ASSERT_TRUE(Backup().ok());
  ASSERT_EQ(worker.Upload(key, Steps(6, 9), "later\n", 6).stored_sequence(), 9u);
  worker.Close();
  const auto summary = Restore();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->num_stopped_attempts, 1);
  TestServer restored([this](ServerConfig* config) {
    config->data_dir = folder_.Path("restored");
    config->lease = absl::Milliseconds(100);
    config->lease_margin = absl::Milliseconds(10);
  });
  ScriptedWorker again(&restored, "w1", "agent");
  again.SetAttempt(key, v1::Attempt::RUNNING);
  const v1::WorkerDirective directive = again.Report();
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().token(), key.token());
  EXPECT_EQ(directive.attempts(0).desired(), v1::Job::PAUSE);
  EXPECT_GT(directive.id().epoch(), 1u);
  const v1::TelemetryAck ack = again.Upload(key, Steps(10, 12), "latest\n", 12);
  EXPECT_FALSE(ack.refused());
  EXPECT_EQ(ack.stored_sequence(), 12u);
  v1::ListEventsRequest request;
  request.set_id(id);
  v1::ListEventsResponse events;
  ASSERT_TRUE(restored.jobs().ListEvents(Context().get(), request, &events).ok());
  EXPECT_THAT(events.ShortDebugString(), HasSubstr("telemetry 6 to 9 was dropped: the server was restored"));
  EXPECT_THAT(events.ShortDebugString(), HasSubstr("the server was restored from a backup of "));
  // Sends the old server a report that reflects the epoch of the restored server.
  auto context = Context();
  auto stream = server_.workers().Attach(context.get());
  v1::WorkerReport report;
  report.set_worker("w1");
  report.set_incarnation("w1-1");
  report.mutable_agent()->set_id("agent");
  report.mutable_agent()->set_place("agent:/state");
  report.set_sequence(100);
  *report.mutable_reflected() = directive.id();
  stream->Write(report);
  stream->WritesDone();
  v1::WorkerDirective ignored;
  EXPECT_FALSE(stream->Read(&ignored));
  const grpc::Status ended = stream->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::ABORTED) << ended.error_message();
  EXPECT_THAT(ended.error_message(), HasSubstr("stop this server"));
}

TEST_F(BackupTest, TwoRestoresOfOneBackup_HaveEpochsInTheirOrder) {
  server_.CreateJob();
  ASSERT_TRUE(Backup().ok());
  ASSERT_TRUE(Restore("first").ok());
  ASSERT_TRUE(Restore("second").ok());
  std::vector<uint64_t> epochs;
  for (const char* const name : {"first", "second"}) {
    TestServer restored([&](ServerConfig* config) { config->data_dir = folder_.Path(name); });
    ScriptedWorker worker(&restored, "w1");
    epochs.push_back(worker.Report().id().epoch());
  }
  EXPECT_LT(epochs[0], epochs[1]);
}

// The audit log is rotated while the backup copies it, so files are renamed. No file may be missing in the backup.
TEST_F(BackupTest, AuditLogWithOldFiles_IsCopiedWhole) {
  ASSERT_TRUE(WriteFileAtomically(data_ + "/audit.log.1", "older\n").ok());
  ASSERT_TRUE(WriteFileAtomically(data_ + "/audit.log.2", "oldest\n").ok());
  const auto made = Backup("backup", [&](const std::string& step) {
    if (step == "audit.log") {
      fs::rename(data_ + "/audit.log.2", data_ + "/audit.log.3");
      fs::rename(data_ + "/audit.log.1", data_ + "/audit.log.2");
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*ReadFile(folder_.Path("backup/audit.log.1"), 100), "older\n");
  EXPECT_EQ(*ReadFile(folder_.Path("backup/audit.log.2"), 100), "oldest\n");
}

}  // namespace
}  // namespace ampd::server
