// Measures how many durable CreateJob calls per second a running server answers while a fixed number of calls is
// outstanding.
//
//   submit_bench ADDRESS OUTSTANDING SECONDS
//       prints {"outstanding","calls","seconds","calls_per_second","p50_ms","p99_ms"}. The connection uses the
//       token in AMPD_TOKEN and the files that AMPD_CA, AMPD_CERT and AMPD_KEY name, as ampctl does
//   submit_bench --flushes FOLDER SECONDS
//       prints {"flushes_per_second"}: fdatasync of 4 KiB appends in FOLDER

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "ampd/v1/job_service.grpc.pb.h"
#include "base/grpc/channel.h"
#include "base/io/file.h"
#include "base/random.h"

namespace ampd {
namespace {

v1::JobSpec SmallJob() {
  v1::JobSpec spec;
  spec.set_name("bench");
  spec.mutable_model()->mutable_mlp()->set_in_features(16);
  auto* synthetic = spec.mutable_data()->mutable_train()->mutable_synthetic();
  synthetic->add_shape(16);
  synthetic->set_num_classes(10);
  synthetic->set_num_samples(64);
  spec.mutable_data()->set_batch_size(8);
  spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  spec.mutable_train()->set_steps(10);
  return spec;
}

// Keeps `outstanding` calls in flight until the deadline: each call that ends starts the next one.
class Load {
 public:
  Load(const ServerConnection& server, int outstanding, absl::Duration length)
      : stub_(v1::JobService::NewStub(OpenChannel(server, {}))), outstanding_(outstanding), length_(length) {}

  void Run() {
    begin_ = absl::Now();
    for (int i = 0; i < outstanding_; ++i) {
      StartCall();
    }
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](Load* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) { return self->in_flight_ == 0; }, this));
    elapsed_ = absl::Now() - begin_;
  }

  void Print() {
    absl::MutexLock lock(&mutex_);
    std::sort(latencies_ms_.begin(), latencies_ms_.end());
    std::printf(R"({"outstanding": %d, "calls": %zu, "failed": %d, "seconds": %.3f, "calls_per_second": %.1f, )"
                R"("p50_ms": %.3f, "p99_ms": %.3f})"
                "\n",
                outstanding_, latencies_ms_.size(), num_failed_, absl::ToDoubleSeconds(elapsed_),
                static_cast<double>(latencies_ms_.size()) / absl::ToDoubleSeconds(elapsed_), Quantile(0.5),
                Quantile(0.99));
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::CreateJobRequest request;
    v1::Job job;
    absl::Time start;
  };

  double Quantile(double q) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return latencies_ms_.empty() ? 0 : latencies_ms_[static_cast<size_t>(q * (latencies_ms_.size() - 1))];
  }

  void StartCall() {
    auto call = std::make_shared<Call>();
    *call->request.mutable_spec() = SmallJob();
    call->request.set_request_id(RandomId(SystemRandom(), 26));
    call->context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    call->start = absl::Now();
    {
      absl::MutexLock lock(&mutex_);
      ++in_flight_;
    }
    stub_->async()->CreateJob(&call->context, &call->request, &call->job,
                              [this, call](const grpc::Status& status) { Finish(*call, status); });
  }

  void Finish(const Call& call, const grpc::Status& status) {
    const absl::Time now = absl::Now();
    if (status.ok() && now - begin_ < length_) {
      StartCall();
    }
    absl::MutexLock lock(&mutex_);
    if (status.ok()) {
      latencies_ms_.push_back(absl::ToDoubleMilliseconds(now - call.start));
    } else if (++num_failed_ == 1) {
      std::fprintf(stderr, "submit_bench: %s\n", status.error_message().c_str());
    }
    --in_flight_;
  }

  const std::unique_ptr<v1::JobService::Stub> stub_;
  const int outstanding_;
  const absl::Duration length_;
  absl::Time begin_;
  absl::Duration elapsed_;
  absl::Mutex mutex_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<double> latencies_ms_ ABSL_GUARDED_BY(mutex_);
};

int PrintFlushes(const std::string& folder, absl::Duration length) {
  const std::string path = absl::StrCat(folder, "/flushes");
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::string block(4096, 'x');
  const absl::Time begin = absl::Now();
  int count = 0;
  while (absl::Now() - begin < length) {
    if (!WriteAll(fd.get(), block).ok() || fdatasync(fd.get()) != 0) {
      std::fprintf(stderr, "submit_bench: can't write %s\n", path.c_str());
      return 1;
    }
    ++count;
  }
  unlink(path.c_str());
  std::printf(R"({"flushes_per_second": %.1f})"
              "\n",
              count / absl::ToDoubleSeconds(absl::Now() - begin));
  return 0;
}

int Main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--flushes") {
    return PrintFlushes(argv[2], absl::Seconds(std::atof(argv[3])));
  }
  if (argc != 4) {
    std::fprintf(stderr, "usage: submit_bench ADDRESS OUTSTANDING SECONDS | submit_bench --flushes FOLDER SECONDS\n");
    return 2;
  }
  const absl::StatusOr<ServerConnection> server = ConnectionTo(argv[1], {});
  if (!server.ok()) {
    std::fprintf(stderr, "submit_bench: %s\n", std::string(server.status().message()).c_str());
    return 2;
  }
  Load load(*server, std::atoi(argv[2]), absl::Seconds(std::atof(argv[3])));
  load.Run();
  load.Print();
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) { return ampd::Main(argc, argv); }
