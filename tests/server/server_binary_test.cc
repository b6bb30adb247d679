// Tests the ampd-server program in the way an operator uses it: ports, exit codes, signals, health and reflection,
// memory.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/io/file.h"
#include "base/io/sqlite.h"
#include "base/ipc/unix_socket.h"
#include "server/server_commands.h"
#include "server/server_config.h"
#include "tests/base/http/broken_listener.h"
#include "tests/base/http/raw_connection.h"
#include "tests/count_from_environment.h"
#include "tests/e2e/child_process.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using e2e::ChildProcess;
using testing::AllOf;
using testing::HasSubstr;

// So many points do not fit into the buffers of a watcher and of its connection.
constexpr int64_t kManyPoints = 1'000'000;
constexpr absl::Duration kPatience = absl::Seconds(30);
#if defined(AMPD_ASAN) || defined(AMPD_TSAN)
constexpr int64_t kMaxGrowthKib = 1 << 20;  // Includes shadow memory and quarantines; clang's ASan: 466 MiB.
constexpr absl::Duration kEstimateTime = absl::Seconds(15);
#else
constexpr int64_t kMaxGrowthKib = 32 << 10;
constexpr absl::Duration kEstimateTime = absl::Seconds(3);  // An estimate of a small model takes less.
#endif

class ServerBinaryTest : public testing::Test, public ServerAccess {
 protected:
  std::unique_ptr<ChildProcess> Launch(std::vector<std::string> flags, const std::string& log) {
    flags.insert(flags.begin(), AMPD_BIN_DIR "/ampd-server");
    if (max_files_ > 0) {
      const std::string limit = absl::StrCat("--nofile=", max_files_, ":", max_files_);
      flags.insert(flags.begin(), {"/usr/bin/prlimit", limit});
    }
    return std::make_unique<ChildProcess>(flags, folder_.Path(log));
  }

  void Start(const std::vector<std::string>& more = {}) {
    const std::string ports = folder_.Path(absl::StrCat("ports-", ++num_lives_));
    std::vector<std::string> flags = {"--allow-unauthenticated-loopback",
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--metrics-listen",
                                      "127.0.0.1:0",
                                      "--data-dir",
                                      folder_.Path("data"),
                                      "--port-file",
                                      ports};
    flags.insert(flags.end(), more.begin(), more.end());
    server_ = Launch(flags, "server.log");
    const std::vector<std::string> lines = absl::StrSplit(e2e::AwaitFile(ports, kPatience), '\n');
    ASSERT_GE(lines.size(), 2u) << Log("server.log");
    ASSERT_TRUE(absl::SimpleAtoi(lines[0], &port_));
    ASSERT_TRUE(absl::SimpleAtoi(lines[1], &metrics_port_));
    Connect(absl::StrCat("127.0.0.1:", port_));
  }

  // Starts a server that must exit after printing one line that contains `says`. Returns its exit code.
  int Refused(const std::vector<std::string>& flags, const std::string& says) {
    const std::string log = absl::StrCat("refused-", ++num_lives_);
    const int exit_code = ExitCode(flags, log);
    const std::string text = Log(log);
    EXPECT_THAT(text, HasSubstr(says));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    return exit_code;
  }

  // Starts a program that must end by itself, and returns its exit code.
  int ExitCode(const std::vector<std::string>& flags, const std::string& log) {
    const int status = Launch(flags, log)->Wait(kPatience);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::vector<std::string> FreshFlags(const std::string& listen = "127.0.0.1:0") {
    return {"--allow-unauthenticated-loopback",
            "--listen",
            listen,
            "--metrics-listen",
            "127.0.0.1:0",
            "--data-dir",
            folder_.Path("other")};
  }

  // Waits until the server has logged the text.
  bool AwaitLog(const std::string& text) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (Log("server.log").find(text) == std::string::npos && absl::Now() < deadline) {
      std::this_thread::yield();
    }
    return Log("server.log").find(text) != std::string::npos;
  }

  std::string Log(const std::string& name) {
    absl::StatusOr<std::string> text = ReadFile(folder_.Path(name), 1 << 20);
    return text.ok() ? *text : "";
  }

  int64_t ResidentKib() {
    absl::StatusOr<std::string> status = ReadFile(absl::StrCat("/proc/", server_->pid(), "/status"), 1 << 16);
    int64_t kib = -1;
    for (const absl::string_view line : absl::StrSplit(*status, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      if (words.size() == 3 && words[0] == "VmRSS:" && !absl::SimpleAtoi(words[1], &kib)) {
        kib = -1;
      }
    }
    return kib;
  }

  // Sends steps 1 to `num_points` in batches and waits until they are durable; returns the peak resident memory.
  int64_t UploadPoints(const v1::AttemptKey& key, int64_t num_points) {
    auto context = Context(absl::Minutes(10));
    auto stream = workers().ReportTelemetry(context.get());
    std::thread writer([&] {
      for (int64_t done = 0; done < num_points; done += 500) {
        v1::TelemetryUpload upload;
        *upload.mutable_key() = key;
        *upload.mutable_batch() = Steps(static_cast<uint64_t>(done) + 1, static_cast<uint64_t>(done) + 500);
        ASSERT_TRUE(stream->Write(upload));
      }
      stream->WritesDone();
    });
    int64_t most = 0;
    v1::TelemetryAck ack;
    while (stream->Read(&ack)) {
      most = std::max(most, ResidentKib());
    }
    writer.join();
    EXPECT_EQ(ack.stored_sequence(), static_cast<uint64_t>(num_points));
    return most;
  }

  // Makes one unary call with an encoded request. `method` is the full name; `response` receives the response's bytes.
  grpc::Status Call(const std::string& method, const std::string& request, std::string* response) {
    grpc::GenericStub stub(NewChannel());
    auto context = Context();
    grpc::CompletionQueue queue;
    grpc::Slice slice(request);
    auto call = stub.PrepareUnaryCall(context.get(), method, grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    std::vector<grpc::Slice> slices;
    if (status.ok() && answer.Dump(&slices).ok()) {
      for (const grpc::Slice& part : slices) {
        response->append(reinterpret_cast<const char*>(part.begin()), part.size());
      }
    }
    return status;
  }

  TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> server_;
  int port_ = 0;
  int metrics_port_ = 0;
  int num_lives_ = 0;
  int max_files_ = 0;  // File descriptor limit of the server; 0: that of the test.
};

// Returns a request whose answer takes long: for the largest model, in many presets, with a memory budget that is
// always exceeded.
v1::EstimateJobRequest LongEstimate() {
  v1::EstimateJobRequest request;
  *request.mutable_spec() = GoodSpec();
  v1::JobSpec& spec = *request.mutable_spec();
  spec.mutable_model()->mutable_gpt2()->set_n_layer(256);
  spec.mutable_data()->Clear();
  spec.mutable_data()->mutable_train()->mutable_tokens()->set_path("d/x");
  spec.mutable_data()->mutable_train()->mutable_tokens()->set_sequence_length(1024);
  spec.mutable_data()->set_batch_size(1);
  spec.mutable_train()->set_memory_budget_bytes(1);
  spec.clear_precision();
  for (const char* preset :
       {"fp32", "bf16", "fp16", "tf32", "torch-amp-bf16", "torch-amp-fp16", "apex-o1", "apex-o2"}) {
    spec.mutable_precision()->add_prefer(preset);
  }
  return request;
}

// Makes `count` estimate calls at once, each on its own connection. The destructor cancels them.
class Estimates {
 public:
  Estimates(const ServerAccess& server, int count) : calls_(static_cast<size_t>(count)) {
    for (Call& call : calls_) {
      call.context = Context(absl::Minutes(5));
      call.stub = v1::JobService::NewStub(server.NewChannel());
      call.stub->async()->EstimateJob(call.context.get(), &request_, &call.response,
                                      [this, &call](grpc::Status status) {
                                        absl::MutexLock lock(&mutex_);
                                        call.status = std::move(status);
                                        call.has_ended = true;
                                        ++num_ended_;
                                      });
    }
  }
  ~Estimates() { Cancel(); }

  int num_ended() {
    absl::MutexLock lock(&mutex_);
    return num_ended_;
  }
  // Cancels all calls. Returns after all have ended.
  void Cancel() {
    for (Call& call : calls_) {
      call.context->TryCancel();
    }
    AwaitAll();
  }
  void AwaitAll() {
    absl::MutexLock lock(&mutex_);
    const auto all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return num_ended_ == static_cast<int>(calls_.size());
    };
    mutex_.Await(absl::Condition(&all));
  }

 private:
  struct Call {
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<v1::JobService::Stub> stub;
    v1::EstimateJobResponse response;
    grpc::Status status;
    bool has_ended = false;
  };
  const v1::EstimateJobRequest request_ = LongEstimate();
  std::vector<Call> calls_;
  absl::Mutex mutex_;
  int num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(ServerBinaryTest, Sigterm_EndsStreamsResumableKeepsStateAndExitsWithZero) {
  Start();
  const v1::Job job = CreateJob();
  v1::WatchJobRequest request;
  request.set_id(job.id());
  auto context = Context();
  auto reader = jobs().WatchJob(context.get(), request);
  v1::WatchJobResponse message;
  ASSERT_TRUE(reader->Read(&message));
  const std::string token = message.resume_token();
  server_->Signal(SIGTERM);
  while (reader->Read(&message)) {
  }
  const absl::Status ended = FromGrpcStatus(reader->Finish());
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable) << ended;
  EXPECT_EQ(ReasonOf(ended), "SHUTTING_DOWN");
  const int status = server_->Wait(kPatience);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitOk) << status << Log("server.log");
  Start();
  EXPECT_EQ(GetJob(job.id()).spec().name(), "test");
}

// Returns a JSON log line as text, such as "job changed state to=STARTING attempt=1 worker=w1".
std::string ShownLine(const nlohmann::json& line) {
  std::string shown = line["message"];
  for (const char* key : {"job_name", "from", "to", "reason", "attempt", "worker", "method", "code", "source"}) {
    if (line.contains(key)) {
      absl::StrAppend(&shown, " ", key, "=", line[key].is_number() ? line[key].dump() : line[key].get<std::string>());
    }
  }
  return shown;
}

TEST_F(ServerBinaryTest, TheLogAsJsonTellsOfJobsWorkersAndRefusalsAnObjectALine) {
  Start({"--log-format", "json"});
  const v1::Job job = CreateJob();
  {
    ScriptedWorker worker(this, "w1");
    worker.Finish(worker.Adopt(job.id()), 0);
  }
  std::string unused;
  v1::GetJobRequest hostile;
  hostile.set_id("j\n{\"level\":\"error\"}\x1b[2J");
  EXPECT_FALSE(Call("/ampd.v1.JobService/GetJob", hostile.SerializeAsString(), &unused).ok());
  EXPECT_FALSE(Call("/ampd.v1.JobService/GetJob", "\x0a\x01\xff", &unused).ok()) << "a text that is no UTF-8";
  for (int i = 0; i < 1000; ++i) {
    Call("/ampd.v1.JobService/PauseJob", "", &unused);
  }
  server_->Signal(SIGTERM);
  server_->Wait(kPatience);
  std::vector<std::string> shown;
  for (const absl::string_view line : absl::StrSplit(Log("server.log"), '\n', absl::SkipEmpty())) {
    const auto parsed = nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(parsed.is_object()) << line;
    EXPECT_THAT(parsed["time"].get<std::string>(), testing::MatchesRegex("20[0-9-]{8}T[0-9:]{8}\\.[0-9]{3}Z"));
    EXPECT_TRUE(parsed.contains("level"));
    shown.push_back(ShownLine(parsed));
  }
  for (const char* line :
       {"job created job_name=test to=QUEUED", "worker registered worker=w1", "worker attached worker=w1",
        "job changed state job_name=test from=QUEUED to=STARTING attempt=1 worker=w1",
        "job changed state job_name=test from=STARTING to=RUNNING attempt=1 worker=w1",
        "job changed state job_name=test from=RUNNING to=SUCCEEDED reason=SUCCEEDED_NORMALLY attempt=1 worker=w1",
        "call refused reason=JOB_NOT_FOUND method=ampd.v1.JobService/GetJob code=NOT_FOUND",
        "call refused reason=UNREADABLE_MESSAGE method=ampd.v1.JobService/GetJob code=INVALID_ARGUMENT"}) {
    EXPECT_THAT(shown, testing::Contains(line));
  }
  EXPECT_THAT(shown, testing::Contains(testing::EndsWith("source=protobuf")));
  const std::string pauses =
      "call refused reason=INVALID_FIELDS method=ampd.v1.JobService/PauseJob code=INVALID_ARGUMENT";
  const auto num_pauses = std::count(shown.begin(), shown.end(), pauses);
  EXPECT_GE(num_pauses, 1);
  EXPECT_LE(num_pauses, 100) << "a flood of refusals is no flood of lines";
}

TEST_F(ServerBinaryTest, Kill_LosesNothingThatWasAnswered) {
  Start();
  const v1::Job job = CreateJob();
  {
    ScriptedWorker worker(this, "w1");
    const v1::AttemptKey key = worker.Adopt(job.id());
    EXPECT_EQ(worker.Upload(key, Steps(1, 100), "text").stored_sequence(), 100u);
    server_->KillAndWait();
  }
  Start();
  EXPECT_EQ(GetJob(job.id()).progress().step(), 100);
  v1::ListEventsRequest request;
  request.set_id(job.id());
  v1::ListEventsResponse events;
  ASSERT_TRUE(jobs().ListEvents(Context().get(), request, &events).ok());
  std::vector<int> kinds;
  for (const v1::Event& event : events.events()) {
    kinds.push_back(event.kind());
  }
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), v1::Event::CREATED), 1);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), v1::Event::ATTEMPT_ASSIGNED), 1);
}

// The names of commands and their functions are in two lists. This test finds a name that is missing in one of them.
TEST_F(ServerBinaryTest, EachCommandOfTheHelpRuns_AndAMisspeltOneIsNamed) {
  EXPECT_EQ(ExitCode({"--help"}, "help.log"), kExitOk);
  EXPECT_THAT(Log("help.log"), HasSubstr("Commands:"));
  for (const ServerCommand& command : kServerCommands) {
    EXPECT_THAT(Log("help.log"), HasSubstr(command.help));
    const std::string log = absl::StrCat(command.name, ".log");
    EXPECT_EQ(ExitCode({command.name, "--help"}, log), kExitOk);
    EXPECT_THAT(Log(log), HasSubstr(absl::StrCat(command.help, ".\nUsage: ampd-server ", command.name)));
    EXPECT_EQ(ExitCode({command.name, "--dta-dir", "d"}, "flag-" + log), kExitUsage);
    EXPECT_EQ(Log("flag-" + log), absl::StrCat("ampd-server: there is no flag --dta-dir; did you mean --data-dir?; see "
                                               "ampd-server ",
                                               command.name, " --help\n"));
    EXPECT_EQ(ExitCode({command.name}, "bare-" + log), kExitUsage);
    EXPECT_THAT(Log("bare-" + log), testing::MatchesRegex("ampd-server: [^\n]*(--data-dir|--from|NAME)[^\n]*\n"));
  }
  EXPECT_EQ(ExitCode({"backpu", "--out", "b"}, "misspelt.log"), kExitUsage);
  EXPECT_EQ(Log("misspelt.log"),
            "ampd-server: there is no command 'backpu'; did you mean 'backup'?; see ampd-server --help\n");
}

TEST_F(ServerBinaryTest, APortInUseIsOneLineAnd69) {
  Start();
  EXPECT_EQ(Refused(FreshFlags(absl::StrCat("127.0.0.1:", port_)), "cannot listen on 127.0.0.1:"), kExitPort);
}

TEST_F(ServerBinaryTest, ALockedDataDirectoryIsOneLineAnd73) {
  Start();
  EXPECT_EQ(Refused({"--allow-unauthenticated-loopback", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                     "--data-dir", folder_.Path("data")},
                    absl::StrCat("the data directory ", folder_.Path("data"),
                                 " is in use by another server; stop that one, or choose another --data-dir")),
            kExitDataLocked);
  CreateJob();
}

int64_t SchemaVersionOf(const std::string& path) {
  SqliteDatabase database = *SqliteDatabase::Open(path, false);
  SqliteStatement query = *database.Prepare("PRAGMA user_version");
  return *query.Step() ? query.Int(0) : -1;
}

TEST_F(ServerBinaryTest, ADataDirectoryOfANewerSchemaIsOneLineAnd65) {
  for (const char* file : {"journal.db", "metrics.db"}) {
    Start();
    server_->Signal(SIGTERM);
    server_->Wait(kPatience);
    const std::string path = folder_.Path("data") + "/" + file;
    const int64_t version = SchemaVersionOf(path);
    ASSERT_TRUE(SqliteDatabase::Open(path, false)->Execute("PRAGMA user_version=99").ok());
    EXPECT_EQ(Refused({"--allow-unauthenticated-loopback", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                       "--data-dir", folder_.Path("data")},
                      "schema"),
              kExitData)
        << file;
    ASSERT_TRUE(SqliteDatabase::Open(path, false)->Execute(absl::StrCat("PRAGMA user_version=", version).c_str()).ok());
  }
}

TEST_F(ServerBinaryTest, AnAddressBeyondLoopbackIsOneLineAnd64) {
  EXPECT_EQ(Refused(FreshFlags("0.0.0.0:0"), "without TLS only loopback addresses"), kExitUsage);
}

TEST_F(ServerBinaryTest, AnUnusableDataDirectoryIsOneLineAnd73) {
  EXPECT_EQ(Refused({"--allow-unauthenticated-loopback", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                     "--data-dir", "/proc/nowhere"},
                    "cannot make the data directory"),
            kExitDataLocked);
}

TEST_F(ServerBinaryTest, ADataDirectoryThatOthersCanWriteIsOneLineAnd73) {
  const std::string data = folder_.Path("data");
  Start();
  server_->Signal(SIGTERM);
  server_->Wait(kPatience);
  const std::vector<std::string> flags = {"--allow-unauthenticated-loopback",
                                          "--listen",
                                          "127.0.0.1:0",
                                          "--metrics-listen",
                                          "127.0.0.1:0",
                                          "--data-dir",
                                          data};
  for (const std::string& path : {data, data + "/journal.db", data + "/tokens.db"}) {
    const auto before = std::filesystem::status(path).permissions();
    std::filesystem::permissions(path, before | std::filesystem::perms::group_write);
    EXPECT_EQ(Refused(flags, absl::StrCat("correct it with: chmod go-w ", path)), kExitDataLocked) << path;
    std::filesystem::permissions(path, before);
  }
  Start();
}

TEST_F(ServerBinaryTest, ADataDirectoryThatOthersCanReadIsClosedWithOneLineOfTheLog) {
  const std::string data = folder_.Path("data");
  Start();
  server_->Signal(SIGTERM);
  server_->Wait(kPatience);
  ASSERT_EQ(chmod(data.c_str(), 0755), 0);
  ASSERT_EQ(chmod((data + "/metrics.db").c_str(), 0644), 0);
  Start();
  EXPECT_THAT(Log("server.log"), HasSubstr(absl::StrCat("closed ", data,
                                                        " to other users: mode 0755 is now 0700, and 1 more in the "
                                                        "data directory")));
  EXPECT_EQ(std::filesystem::status(data).permissions(), std::filesystem::perms(0700));
  EXPECT_EQ(std::filesystem::status(data + "/metrics.db").permissions(), std::filesystem::perms(0600));
}

// Other users may enter the data directory, because users with a grant must reach the socket in it.
TEST_F(ServerBinaryTest, UsersWithAGrantMayStillEnterTheDataDirectory) {
  const std::string data = folder_.Path("data");
  ASSERT_EQ(mkdir(data.c_str(), 0755), 0);
  ASSERT_EQ(chmod(data.c_str(), 0755), 0);
  Start({"--grant", "uid:54321=viewer"});
  EXPECT_EQ(std::filesystem::status(data).permissions(), std::filesystem::perms(0711));
  EXPECT_EQ(std::filesystem::status(data + "/ampd.sock").permissions(), std::filesystem::perms(0666));
}

TEST_F(ServerBinaryTest, HealthIsServedAndUnknownServicesAreNotFound) {
  Start();
  std::string response;
  ASSERT_TRUE(Call("/grpc.health.v1.Health/Check", "", &response).ok());
  EXPECT_EQ(response, "\x08\x01") << "SERVING";
  response.clear();
  // The encoded request: field 1 is the service's name.
  ASSERT_TRUE(Call("/grpc.health.v1.Health/Check",
                   "\x0a\x12"
                   "ampd.v1.JobService",
                   &response)
                  .ok());
  EXPECT_EQ(response, "\x08\x01");
  EXPECT_EQ(Call("/grpc.health.v1.Health/Check", "\x0a\x04none", &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call("/ampd.v1.JobService/Nonsense", "", &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_FALSE(Call("/ampd.v1.JobService/CreateJob", "\xff\xff\xff", &response).ok()) << "bytes that are no message";
  CreateJob();
}

// While a million points are uploaded, 50 watchers read nothing and one reads everything. AMPD_STREAM_POINTS sets
// another number of points.
TEST_F(ServerBinaryTest, StalledWatchersCostNoMemoryAndTheFastOneGetsEveryPoint) {
  const int64_t num_points = CountFromEnvironment("AMPD_STREAM_POINTS", kManyPoints);
  // The lease must be long, because the worker sends no reports while it uploads. On a busy machine under a sanitizer
  // the upload takes longer than the default lease.
  Start({"--lease", "10m"});
  const v1::Job job = CreateJob();
  ScriptedWorker worker(this, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  v1::WatchJobRequest request;
  request.set_id(job.id());
  request.set_from_start(true);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<v1::JobService::Stub>> stubs;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>>> stalled;
  for (int i = 0; i < 50; ++i) {
    contexts.push_back(Context(absl::Minutes(10)));
    stubs.push_back(v1::JobService::NewStub(NewChannel()));
    stalled.push_back(stubs.back()->WatchJob(contexts.back().get(), request));
  }
  std::atomic<int64_t> num_received = 0;
  std::atomic<int64_t> num_dropped = 0;
  auto fast_context = Context(absl::Minutes(10));
  auto fast = jobs().WatchJob(fast_context.get(), request);
  v1::WatchJobResponse first;
  ASSERT_TRUE(fast->Read(&first));
  std::thread reader([&] {
    v1::WatchJobResponse message;
    uint64_t next = 1;
    while (fast->Read(&message) && !message.has_final()) {
      for (uint64_t sequence : message.steps().sequence()) {
        EXPECT_EQ(sequence, next);
        next = sequence + 1;
      }
      num_received += message.steps().sequence_size();
      num_dropped += message.dropped_points();
    }
  });
  const int64_t before = ResidentKib();
  int64_t most = UploadPoints(key, num_points);
  worker.Finish(key, static_cast<uint64_t>(num_points));
  reader.join();
  most = std::max(most, ResidentKib());
  EXPECT_EQ(num_received, num_points);
  EXPECT_EQ(num_dropped, 0);
  RecordProperty("growth_kib", static_cast<int>(most - before));
  printf("resident memory grew by %lld KiB from %lld KiB\n", static_cast<long long>(most - before),
         static_cast<long long>(before));
  EXPECT_LE(most - before, kMaxGrowthKib);
  // One of the stalled watchers starts to read again. Each point must either reach it or be counted as dropped.
  int64_t num_late = 0;
  int64_t num_lost = 0;
  for (v1::WatchJobResponse message; stalled[0]->Read(&message);) {
    num_late += message.steps().sequence_size();
    num_lost += message.dropped_points();
  }
  EXPECT_TRUE(stalled[0]->Finish().ok());
  if (num_points >= kManyPoints) {
    EXPECT_GT(num_lost, 0) << "it was never stalled";
  }
  EXPECT_EQ(num_late + num_lost, num_points);
  for (auto& context : contexts) {
    context->TryCancel();
  }
}

TEST_F(ServerBinaryTest, EstimatesDelayNoOtherCallAndEndWithTheirClients) {
  Start();
  const v1::Job job = CreateJob();
  Estimates estimates(*this, 4);
  v1::ListJobsResponse jobs_listed;
  for (int i = 0; i < 20; ++i) {
    const absl::Time start = absl::Now();
    EXPECT_EQ(GetJob(job.id()).id(), job.id());
    EXPECT_TRUE(jobs().ListJobs(Context().get(), {}, &jobs_listed).ok());
    EXPECT_LT(absl::Now() - start, absl::Seconds(1));
  }
  EXPECT_LT(estimates.num_ended(), 4) << "the estimates were over before anything was asked beside them";
  estimates.Cancel();
  // This estimate must be answered soon. It would have to wait if the four cancelled estimates still ran.
  v1::EstimateJobRequest small;
  *small.mutable_spec() = GoodSpec();
  v1::EstimateJobResponse response;
  EXPECT_TRUE(jobs().EstimateJob(Context(kEstimateTime).get(), small, &response).ok());
}

TEST_F(ServerBinaryTest, Sigterm_EndsTheServerWithinItsGraceWhateverItEstimates) {
  Start({"--drain-grace", "1s"});
  CreateJob();
  Estimates estimates(*this, 4);
  v1::ListJobsResponse jobs_listed;
  EXPECT_TRUE(jobs().ListJobs(Context().get(), {}, &jobs_listed).ok());
  const absl::Time start = absl::Now();
  server_->Signal(SIGTERM);
  const int status = server_->Wait(kPatience);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitOk) << status << Log("server.log");
  EXPECT_LT(absl::Now() - start, absl::Seconds(6));
}

// Opens connections that send a greeting and make no call.
std::vector<std::unique_ptr<RawConnection>> SilentConnections(int port, int count) {
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < count; ++i) {
    connections.push_back(std::make_unique<RawConnection>(ListenAddress{"127.0.0.1", port}));
    connections.back()->Send(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 33));
  }
  return connections;
}

TEST_F(ServerBinaryTest, MoreConnectionsThanDescriptorsDelayNoCallAndLeaveNothingBehind) {
  max_files_ = 128;
  Start();
  const v1::Job job = CreateJob();
  ASSERT_TRUE(AwaitServing("descriptors", true));
  auto silent = SilentConnections(port_, 200);
  const absl::Time start = absl::Now();
  Connect(absl::StrCat("127.0.0.1:", port_));  // Opens one more connection.
  EXPECT_EQ(GetJob(job.id()).id(), job.id());
  CreateJob();
  EXPECT_LT(absl::Now() - start, absl::Seconds(10)) << "without room for connections a call would wait for kPatience";
  EXPECT_TRUE(AwaitServing("descriptors", false)) << "the health does not tell";
  EXPECT_TRUE(AwaitServing("", false));
  RawConnection scrape({"127.0.0.1", metrics_port_});
  scrape.Send("GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_THAT(scrape.Read(),
              testing::ContainsRegex("ampd_grpc_connections_closed_total\\{reason=\"evicted\"\\} [1-9]"));
  EXPECT_THAT(Log("server.log"), HasSubstr("connections, as many as the server takes"));
  silent.clear();
  EXPECT_TRUE(AwaitServing("descriptors", true)) << "accepting never came back";
  EXPECT_TRUE(AwaitServing("", true));
}

TEST_F(ServerBinaryTest, AboveTheMemoryLimitNewJobsAndStreamsAreRefusedAndTheRestIsServed) {
  Start();
  const v1::Job job = CreateJob();
  const int64_t kib = ResidentKib();
  server_->Signal(SIGTERM);
  server_->Wait(kPatience);
  Start({"--memory-limit", absl::StrCat(kib * 9 / 10, "KiB")});  // Less than the server uses, but not far less.
  ASSERT_TRUE(AwaitServing("memory", false));
  EXPECT_FALSE(IsServing(""));
  auto context = Context();
  v1::CreateJobRequest request;
  request.set_request_id("r-1");
  *request.mutable_spec() = GoodSpec();
  v1::Job created;
  const absl::Status refused = FromGrpcStatus(jobs().CreateJob(context.get(), request, &created));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "SERVER_MEMORY");
  EXPECT_GT(RetryDelayOf(refused), absl::ZeroDuration());
  auto watching = Context();
  v1::WatchJobRequest watch;
  watch.set_id(job.id());
  const auto stream = jobs().WatchJob(watching.get(), watch);
  v1::WatchJobResponse message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(ReasonOf(FromGrpcStatus(stream->Finish())), "SERVER_MEMORY");
  EXPECT_EQ(GetJob(job.id()).id(), job.id());
  ScriptedWorker worker(this, "w1");  // Workers are still served; otherwise jobs would lose their leases.
  worker.Adopt(job.id());
  RawConnection ready({"127.0.0.1", metrics_port_});
  ready.Send("GET /readyz HTTP/1.0\r\n\r\n");
  EXPECT_THAT(ready.Read(), AllOf(HasSubstr(" 503 "), HasSubstr("memory: is above --memory-limit")));
  RawConnection alive({"127.0.0.1", metrics_port_});
  alive.Send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_THAT(alive.Read(), HasSubstr(" 200 "));
}

TEST_F(ServerBinaryTest, FarAboveTheMemoryLimitTheServerEndsWith75AndLosesNothing) {
  Start();
  const v1::Job job = CreateJob();
  server_->Signal(SIGTERM);
  server_->Wait(kPatience);
  Start({"--memory-limit", "1MiB"});
  const int status = server_->Wait(kPatience);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitRestart) << status;
  EXPECT_THAT(Log("server.log"), HasSubstr("far more than its --memory-limit 1MiB"));
  Start();
  EXPECT_EQ(GetJob(job.id()).id(), job.id());
}

TEST_F(ServerBinaryTest, BrokenListenersAreNamedAndStartedAgain) {
  Start();
  const std::string socket = folder_.Path("data") + "/ampd.sock";
  if (!BreakListener(server_->pid(), port_)) {
    GTEST_SKIP() << "the system lets no process reach the descriptors of another";
  }
  ASSERT_EQ(unlink(socket.c_str()), 0);
  const std::string tcp = absl::StrCat("127.0.0.1:", port_);
  std::string page;
  for (const absl::Time end = absl::Now() + kPatience; page.find(" 503 ") == std::string::npos && absl::Now() < end;) {
    RawConnection alive({"127.0.0.1", metrics_port_});
    alive.Send("GET /healthz HTTP/1.0\r\n\r\n");
    page = alive.Read();
  }
  EXPECT_THAT(page, AllOf(HasSubstr(tcp + " accepts no connections\n"),
                          HasSubstr("the socket " + socket + " accepts no connections\n")));
  EXPECT_TRUE(AwaitLog("the socket " + socket + " was started again")) << Log("server.log");
  EXPECT_TRUE(AwaitLog(tcp + " was started again"));
  Connect(tcp);
  CreateJob();
  Connect("unix:" + socket);
  CreateJob();
  EXPECT_TRUE(AwaitLog(tcp + " accepts connections again"));
  EXPECT_TRUE(AwaitServing("listeners", true));
}

TEST_F(ServerBinaryTest, ASocketThatAnotherProgramTookEndsTheServerWith75) {
  Start();
  const std::string socket = folder_.Path("data") + "/ampd.sock";
  ASSERT_EQ(unlink(socket.c_str()), 0);
  const auto other = ListenUnix(socket);
  ASSERT_TRUE(other.ok());
  const int status = server_->Wait(kPatience);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitRestart) << status << Log("server.log");
  EXPECT_THAT(Log("server.log"), HasSubstr("another process listens on the socket"));
}

TEST_F(ServerBinaryTest, ADeletedOrReplacedDataDirectoryEndsTheServerWith74) {
  for (const bool is_replaced : {false, true}) {
    Start();
    CreateJob();
    const std::string data = folder_.Path("data");
    ASSERT_EQ(std::rename(data.c_str(), absl::StrCat(data, "-moved-", is_replaced).c_str()), 0);
    if (is_replaced) {
      ASSERT_EQ(mkdir(data.c_str(), 0700), 0);
    }
    const int status = server_->Wait(kPatience);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitDataGone) << status << Log("server.log");
    EXPECT_THAT(Log("server.log"),
                HasSubstr(absl::StrCat("ampd-server: ", data, " was ", is_replaced ? "replaced" : "deleted")));
  }
}

TEST_F(ServerBinaryTest, ADeletedJournalEndsTheServerWith74) {
  Start();
  ASSERT_EQ(unlink((folder_.Path("data") + "/journal.db").c_str()), 0);
  const int status = server_->Wait(kPatience);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitDataGone) << status << Log("server.log");
  EXPECT_THAT(Log("server.log"), HasSubstr("/journal.db was deleted while the server ran"));
}

}  // namespace
}  // namespace ampd::server
