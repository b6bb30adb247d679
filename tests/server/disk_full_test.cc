// Runs a whole server on a disk of its own, which the test fills and empties again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/io/file.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

constexpr int64_t kDiskBytes = 48 << 20;
constexpr int64_t kMinFreeBytes = 16 << 20;
constexpr int64_t kReserveBytes = 4 << 20;

// Enters a new mount namespace, in which this process may mount. If the process is not root, it also enters a new user
// namespace. Returns false if neither is allowed. REQUIRES: the process has one thread.
bool EnterMountNamespace() {
  const std::string uid_map = absl::StrCat("0 ", getuid(), " 1");
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      return false;
    }
    const UniqueFd map(open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
    if (!WriteAll(map.get(), uid_map).ok()) {
      return false;
    }
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

class DiskFullTest : public testing::Test, public ServerAccess {
 protected:
  static void SetUpTestSuite() { may_mount_ = EnterMountNamespace(); }

  void SetUp() override {
    const std::string options = absl::StrCat("size=", kDiskBytes);
    if (!may_mount_ || mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) != 0) {
      GTEST_SKIP() << "SKIPPED: no disk of its own could be mounted here; needs root or user namespaces";
    }
    mounted_ = true;
    ServerConfig config;
    config.listen = {"127.0.0.1", 0};
    config.trusts_loopback = true;
    config.metrics_listen = {"127.0.0.1", 0};
    config.data_dir = folder_.Path("data");
    config.drain_grace = absl::Seconds(1);
    config.min_free_bytes = kMinFreeBytes;
    config.reserve_bytes = kReserveBytes;
    auto server = Server::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Connect(absl::StrCat("127.0.0.1:", server_->port()));
  }

  void TearDown() override {
    server_.reset();
    if (mounted_) {
      EXPECT_EQ(umount2(folder_.path().c_str(), MNT_DETACH), 0);
    }
  }

  int64_t FreeBytes() {
    struct statvfs disk = {};
    EXPECT_EQ(statvfs(folder_.path().c_str(), &disk), 0);
    return static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  }
  // Fills the disk with other data until at most `left` bytes are free.
  void FillUntil(int64_t left) {
    const UniqueFd file(open(folder_.Path("filler").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const std::string page(4096, 'f');
    while (FreeBytes() > left && write(file.get(), page.data(), page.size()) > 0) {
    }
  }
  void RemoveFiller() { EXPECT_EQ(unlink(folder_.Path("filler").c_str()), 0); }
  bool HasReserve() { return access(folder_.Path("data/reserve").c_str(), F_OK) == 0; }

  // Submits a job. Returns "OK", or the reason of the refusal.
  std::string Submit() {
    v1::CreateJobRequest request;
    *request.mutable_spec() = GoodSpec();
    v1::Job job;
    const absl::Status status = FromGrpcStatus(jobs().CreateJob(Context().get(), request, &job));
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(status.ok() || RetryDelayOf(status).has_value());
    return status.ok() ? "OK" : ReasonOf(status);
  }
  v1::Job::State Cancel(const std::string& id) {
    v1::CancelJobRequest request;
    request.set_id(id);
    v1::Job job;
    const grpc::Status status = jobs().CancelJob(Context().get(), request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.state();
  }

  static bool may_mount_;
  TemporaryFolder folder_;
  bool mounted_ = false;
  std::unique_ptr<Server> server_;
};

bool DiskFullTest::may_mount_ = false;

TEST_F(DiskFullTest, BelowTheWatermark_SubmitsAreRefusedAndTheRestGoesOn) {
  const std::string queued = CreateJob().id();
  FillUntil(kMinFreeBytes - 4096);
  EXPECT_EQ(Submit(), "DISK_FULL");
  EXPECT_EQ(Cancel(queued), v1::Job::CANCELLED);
  EXPECT_TRUE(HasReserve()) << "it was given up with room left";
  EXPECT_TRUE(AwaitServing("disk", false)) << "the health does not tell";
  EXPECT_TRUE(AwaitServing("", false));
  EXPECT_TRUE(IsServing("data-directory"));
  RemoveFiller();
  EXPECT_TRUE(AwaitServing("disk", true));
  EXPECT_TRUE(AwaitServing("", true));
  EXPECT_EQ(Submit(), "OK");
}

TEST_F(DiskFullTest, BelowTheWatermark_ASampleIsDroppedAndTheTelemetryGoesOn) {
  ScriptedWorker worker(this, "w1");
  const std::string running = CreateJob().id();
  const v1::AttemptKey key = worker.Adopt(running);
  FillUntil(kMinFreeBytes - 4096);
  v1::TelemetryBatch batch = Steps(1, 2);
  v1::Sample* const sample = batch.add_samples();
  sample->set_attempt_sequence(3);
  sample->set_step(2);
  sample->set_file_name("sample.png");
  sample->set_content("pixels");
  EXPECT_EQ(worker.Upload(key, batch).stored_sequence(), 3u);
  EXPECT_EQ(worker.Upload(key, Steps(4, 5)).stored_sequence(), 5u);
  v1::ListEventsRequest request;
  request.set_id(running);
  v1::ListEventsResponse events;
  ASSERT_TRUE(jobs().ListEvents(Context().get(), request, &events).ok());
  ASSERT_GT(events.events_size(), 0);
  EXPECT_EQ(events.events().rbegin()->kind(), v1::Event::TELEMETRY_REFUSED);
  EXPECT_EQ(events.events().rbegin()->message(), "a sample of step 2 was dropped: the server's disk is nearly full");
}

TEST_F(DiskFullTest, WithoutAFreeByte_CancelsAndEndsAreKeptAndRoomBringsSubmitsBack) {
  ScriptedWorker worker(this, "w1");
  worker.Report();
  const std::string running = CreateJob().id();
  const v1::AttemptKey key = worker.Adopt(running);
  std::vector<std::string> queued;
  for (int i = 0; i < 200; ++i) {
    queued.push_back(CreateJob().id());
  }
  FillUntil(0);
  EXPECT_EQ(Submit(), "DISK_FULL");
  for (const std::string& id : queued) {
    ASSERT_EQ(Cancel(id), v1::Job::CANCELLED);
  }
  worker.Finish(key, 0);
  EXPECT_EQ(GetJob(running).state(), v1::Job::SUCCEEDED);
  EXPECT_FALSE(HasReserve()) << "the disk was never met full: nothing was tested";
  RemoveFiller();
  EXPECT_EQ(Submit(), "OK");
  EXPECT_TRUE(HasReserve()) << "it was not made again";
}

}  // namespace
}  // namespace ampd::server
