// Kills the real server under load, and checks that afterwards every acknowledged job exists exactly once. AMPD_KILLS
// sets the number of kills (default 100), and AMPD_SEED the seed; a failure prints both. Each server reads all jobs of
// the earlier servers when it starts, so the test uses a new data directory after every 200 kills.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ampd/v1/job_service.grpc.pb.h"
#include "base/random.h"
#include "tests/count_from_environment.h"
#include "tests/e2e/child_process.h"
#include "tests/e2e/reserved_port.h"

namespace ampd::e2e {
namespace {

v1::CreateJobRequest RequestFor(const std::string& request_id) {
  v1::CreateJobRequest request;
  request.set_request_id(request_id);
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("r-" + request_id);
  spec.mutable_model()->mutable_mlp()->set_in_features(16);
  auto* synthetic = spec.mutable_data()->mutable_train()->mutable_synthetic();
  synthetic->add_shape(16);
  synthetic->set_num_classes(10);
  synthetic->set_num_samples(64);
  spec.mutable_data()->set_batch_size(8);
  spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  spec.mutable_train()->set_steps(10);
  return request;
}

// Submits jobs to the server at `address` until the test stops it. Repeats each request until the server acknowledges
// it.
class Submitter {
 public:
  explicit Submitter(const std::string& address, uint64_t seed) : random_(seed) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 5);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
    // Give every submitter its own connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::JobService::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  void Run(const absl::Notification& stop) {
    while (!stop.HasBeenNotified()) {
      const std::string request_id = RandomId(random_, 20);
      while (!Submit(request_id) && !stop.HasBeenNotified()) {
        ++num_retries_;
      }
    }
  }

  // Returns the job id of every acknowledged call, by request id. REQUIRES: Run has returned.
  const std::map<std::string, std::string>& acknowledged() const { return acknowledged_; }
  int num_retries() const { return num_retries_; }

 private:
  bool Submit(const std::string& request_id) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(2)));
    v1::Job job;
    if (!stub_->CreateJob(&context, RequestFor(request_id), &job).ok()) {
      return false;
    }
    acknowledged_[request_id] = job.id();
    return true;
  }

  SeededRandom random_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::map<std::string, std::string> acknowledged_;
  int num_retries_ = 0;
};

class DurabilityTest : public testing::Test {
 protected:
  ~DurabilityTest() override {
    server_.reset();
    if (!HasFailure()) {
      std::filesystem::remove_all(folder_);
    }
  }

  // Starts the server on its fixed port, and waits until it listens.
  void StartServer() {
    const std::string port_file = absl::StrCat(folder_, "/ports-", ++lives_);
    server_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{std::string(AMPD_BIN_DIR) + "/ampd-server", "--allow-unauthenticated-loopback",
                                 "--listen", address_, "--metrics-listen", "127.0.0.1:0", "--data-dir",
                                 absl::StrCat(folder_, "/data-", round_), "--port-file", port_file},
        folder_ + "/server.log");
    ASSERT_FALSE(AwaitFile(port_file, absl::Seconds(30)).empty()) << "see " << folder_ << "/server.log";
  }

  // Starts a server with an empty data directory and kills it `kills` times under load. Checks that the last server
  // holds every acknowledged job exactly once.
  void KillUnderLoad(int64_t kills, uint64_t seed);

  std::map<std::string, int> NamesOnServer(std::map<std::string, std::string>& ids) {
    auto stub = v1::JobService::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    std::map<std::string, int> names;
    v1::ListJobsRequest request;
    request.set_page_size(500);
    do {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
      v1::ListJobsResponse response;
      const grpc::Status status = stub->ListJobs(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const v1::Job& job : response.jobs()) {
        ++names[job.spec().name()];
        ids[job.spec().name()] = job.id();
      }
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return names;
  }

  const std::string folder_ = MakeFolder("durability");
  std::unique_ptr<ChildProcess> server_;
  const ReservedPort port_;
  const std::string address_ = absl::StrCat("127.0.0.1:", port_.number());
  int lives_ = 0;
  int round_ = 0;
};

void DurabilityTest::KillUnderLoad(int64_t kills, uint64_t seed) {
  ++round_;
  StartServer();
  absl::Notification stop;
  std::vector<std::unique_ptr<Submitter>> submitters;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    submitters.push_back(std::make_unique<Submitter>(address_, seed * 1000 + i));
    threads.emplace_back([&stop, submitter = submitters.back().get()] { submitter->Run(stop); });
  }
  SeededRandom random(seed);
  absl::Notification never;
  for (int64_t i = 0; i < kills && !HasFatalFailure(); ++i) {
    never.WaitForNotificationWithTimeout(absl::Milliseconds(20 + random.Next() % 130));
    server_->KillAndWait();
    StartServer();
  }
  never.WaitForNotificationWithTimeout(absl::Milliseconds(200));
  stop.Notify();
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_FALSE(HasFatalFailure());

  std::map<std::string, std::string> ids;
  const std::map<std::string, int> names = NamesOnServer(ids);
  size_t num_acknowledged = 0;
  int num_retries = 0;
  for (const auto& submitter : submitters) {
    num_retries += submitter->num_retries();
    for (const auto& [request_id, job_id] : submitter->acknowledged()) {
      ++num_acknowledged;
      ASSERT_EQ(ids["r-" + request_id], job_id) << "lost, or under another id";
    }
  }
  for (const auto& [name, count] : names) {
    ASSERT_EQ(count, 1) << name << " is there more than once";
  }
  std::printf("%ld kills, %zu acknowledged, %zu on the server, %d calls tried again\n", static_cast<long>(kills),
              num_acknowledged, names.size(), num_retries);
  // The kills must have interrupted many calls: without retries, the test proves nothing.
  EXPECT_GT(num_retries, kills / 20);
  EXPECT_GT(num_acknowledged, static_cast<size_t>(kills));
}

TEST_F(DurabilityTest, EveryAcknowledgedJobSurvivesKillsExactlyOnce) {
  const int64_t kills = CountFromEnvironment("AMPD_KILLS", 100);
  const int64_t seed = CountFromEnvironment("AMPD_SEED", 1);
  SCOPED_TRACE(absl::StrCat("AMPD_KILLS=", kills, " AMPD_SEED=", seed, " e2e_durability_test"));
  for (int64_t killed = 0; killed < kills && !HasFatalFailure(); killed += 200) {
    KillUnderLoad(std::min<int64_t>(kills - killed, 200), seed + killed / 200);
    server_.reset();
  }
}

}  // namespace
}  // namespace ampd::e2e
