#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/random.h"
#include "base/version.h"
#include "points/telemetry_batch.h"
#include "server/rpc/calls/guard.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;

// Everything that a watch returned, as text (watch_session_test.cc uses the same notation).
struct Watched {
  std::vector<std::string> kinds;
  std::vector<uint64_t> points;
  std::vector<uint64_t> events;
  std::string token;
  int64_t num_dropped = 0;
  grpc::Status status;
};

class RpcTest : public testing::Test {
 protected:
  std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> Watch(grpc::ClientContext* context, const std::string& job,
                                                                  const std::string& token = "", bool start = true) {
    v1::WatchJobRequest request;
    request.set_id(job);
    request.set_resume_token(token);
    request.set_from_start(start);
    return server_.jobs().WatchJob(context, request);
  }

  void Take(const v1::WatchJobResponse& message, Watched* watched) {
    watched->token = message.resume_token();
    watched->num_dropped += message.dropped_points();
    watched->points.insert(watched->points.end(), message.steps().sequence().begin(), message.steps().sequence().end());
    if (message.has_event()) {
      watched->events.push_back(message.event().sequence());
    }
    watched->kinds.push_back(message.has_snapshot() ? "snapshot" : message.has_final() ? "final" : "other");
  }

  Watched WatchToTheEnd(const std::string& job, const std::string& token = "") {
    auto context = Context();
    auto reader = Watch(context.get(), job, token, token.empty());
    Watched watched;
    v1::WatchJobResponse message;
    while (reader->Read(&message)) {
      Take(message, &watched);
    }
    watched.status = reader->Finish();
    return watched;
  }

  TestServer server_;
};

TEST_F(RpcTest, CreateJob_IsKeptOverARestart) {
  const v1::Job job = server_.CreateJob();
  EXPECT_EQ(job.state(), v1::Job::QUEUED);
  server_.Restart();
  EXPECT_EQ(server_.GetJob(job.id()).spec().name(), "test");
  v1::ListEventsRequest request;
  request.set_id(job.id());
  v1::ListEventsResponse events;
  ASSERT_TRUE(server_.jobs().ListEvents(Context().get(), request, &events).ok());
  ASSERT_GE(events.events_size(), 1);
  EXPECT_EQ(events.events(0).kind(), v1::Event::CREATED);
}

TEST_F(RpcTest, CreateJob_NamesEveryViolation) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = GoodSpec();
  request.mutable_spec()->set_name("Bad Name");
  request.mutable_spec()->mutable_data()->set_batch_size(-1);
  v1::Job job;
  const absl::Status status = FromGrpcStatus(server_.jobs().CreateJob(Context().get(), request, &job));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_GE(ViolationsOf(status).size(), 2u);
}

TEST_F(RpcTest, GetJob_OfAnUnknownOneIsNotFoundWithAReason) {
  v1::GetJobRequest request;
  request.set_id("j-none");
  v1::Job job;
  const absl::Status status = FromGrpcStatus(server_.jobs().GetJob(Context().get(), request, &job));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(ReasonOf(status).empty());
}

TEST_F(RpcTest, GetServerInfo_ReturnsTheVersionOfTheProgram) {
  v1::ServerInfo info;
  ASSERT_TRUE(server_.jobs().GetServerInfo(Context().get(), {}, &info).ok());
  EXPECT_EQ(info.version(), Version());
}

TEST_F(RpcTest, AnEmptyIdIsInvalidAndNotLookedFor) {
  auto& stub = server_.jobs();
  v1::Job job;
  google::protobuf::Empty nothing;
  v1::ExplainJobResponse explanation;
  v1::ListEventsResponse events;
  v1::ListMetricPointsResponse points;
  v1::ListCheckpointsResponse checkpoints;
  v1::WatchJobResponse message;
  v1::TailLogsResponse piece;
  auto watching = Context();
  auto tailing = Context();
  auto watch = stub.WatchJob(watching.get(), {});
  auto tail = stub.TailLogs(tailing.get(), {});
  EXPECT_FALSE(watch->Read(&message));
  EXPECT_FALSE(tail->Read(&piece));
  for (const grpc::Status& answer :
       {stub.GetJob(Context().get(), {}, &job), stub.CancelJob(Context().get(), {}, &job),
        stub.PauseJob(Context().get(), {}, &job), stub.ResumeJob(Context().get(), {}, &job),
        stub.DeleteJob(Context().get(), {}, &nothing), stub.CloneJob(Context().get(), {}, &job),
        stub.UpdateJob(Context().get(), {}, &job), stub.DeleteCheckpoint(Context().get(), {}, &nothing),
        stub.ExplainJob(Context().get(), {}, &explanation), stub.ListEvents(Context().get(), {}, &events),
        stub.ListMetricPoints(Context().get(), {}, &points), stub.ListCheckpoints(Context().get(), {}, &checkpoints),
        watch->Finish(), tail->Finish()}) {
    const absl::Status status = FromGrpcStatus(answer);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(ViolationsOf(status), (std::vector<FieldViolation>{{"id", "must be set"}})) << status;
  }
}

TEST_F(RpcTest, ARequestBeyondTheClientsLimitIsRefusedAndTheServerGoesOn) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = GoodSpec();
  (*request.mutable_spec()->mutable_labels())["big"] = std::string(5 << 20, 'x');
  v1::Job job;
  const absl::Status status = FromGrpcStatus(server_.jobs().CreateJob(Context().get(), request, &job));
  EXPECT_EQ(ReasonOf(status), "REQUEST_TOO_LARGE");
  server_.CreateJob();
}

TEST_F(RpcTest, AStreamsRequestBeyondTheClientsLimitIsRefused) {
  v1::WatchJobRequest watch;
  watch.set_id(std::string(5 << 20, 'j'));
  v1::TailLogsRequest tail;
  tail.set_id(std::string(5 << 20, 'j'));
  auto watching = Context();
  auto tailing = Context();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(server_.jobs().WatchJob(watching.get(), watch)->Finish())), "REQUEST_TOO_LARGE");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(server_.jobs().TailLogs(tailing.get(), tail)->Finish())), "REQUEST_TOO_LARGE");
}

// Sends these bytes as one message to a unary or streaming method, and returns the status of the call.
absl::Status CallWithBytes(const std::shared_ptr<grpc::Channel>& channel,
                           const google::protobuf::MethodDescriptor& method, const std::string& bytes) {
  grpc::GenericStub stub(channel);
  auto context = Context();
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  };
  auto call =
      stub.PrepareCall(context.get(), absl::StrCat("/", method.service()->full_name(), "/", method.name()), &queue);
  call->StartCall(nullptr);
  wait();
  grpc::Slice slice(bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  wait();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return FromGrpcStatus(status);
}

std::vector<const google::protobuf::MethodDescriptor*> MethodsOf(const std::vector<std::string>& services) {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const std::string& name : services) {
    const auto* const service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; i < service->method_count(); ++i) {
      methods.push_back(service->method(i));
    }
  }
  return methods;
}

const std::vector<std::string> kClientServices = {"ampd.v1.JobService", "ampd.v1.WorkerAdminService",
                                                  "ampd.v1.ArtifactService"};

TEST_F(RpcTest, EveryMethod_RefusesBytesThatAreNoMessageWithAText) {
  std::vector<std::string> services = kClientServices;
  services.emplace_back("ampd.v1.WorkerService");
  for (const auto* method : MethodsOf(services)) {
    const absl::Status status = CallWithBytes(server_.NewChannel(), *method, "\x0a\xff\xff\xff");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << method->full_name() << status;
    EXPECT_EQ(ReasonOf(status), "UNREADABLE_MESSAGE") << method->full_name();
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(method->input_type()->full_name()));
  }
}

TEST_F(RpcTest, EveryMethodOfClients_RefusesFieldsThatItDoesNotKnow) {
  const std::string field_9999_is_1 = "\xf8\xf0\x04\x01";
  for (const auto* method : MethodsOf(kClientServices)) {
    const absl::Status status = CallWithBytes(server_.NewChannel(), *method, field_9999_is_1);
    ASSERT_EQ(ViolationsOf(status).size(), 1u) << method->full_name() << status;
    EXPECT_THAT(ViolationsOf(status)[0].description,
                testing::StartsWith(absl::StrCat("has field 9999, which ", method->input_type()->full_name(), " ")));
  }
}

// Adds the type and all message types that it may contain to `types`.
void CollectTypes(const google::protobuf::Descriptor* type, std::set<std::string>* types) {
  if (!types->insert(type->full_name()).second) {
    return;
  }
  for (int i = 0; i < type->field_count(); ++i) {
    if (type->field(i)->message_type() != nullptr) {
      CollectTypes(type->field(i)->message_type(), types);
    }
  }
}

TEST_F(RpcTest, NoRequestHoldsAMessageOfATypeThatIsOnlyKnownWhenItComes) {
  std::set<std::string> types;
  for (const auto* method : MethodsOf(kClientServices)) {
    CollectTypes(method->input_type(), &types);
  }
  EXPECT_GT(types.size(), 50u);
  EXPECT_FALSE(types.contains("google.protobuf.Any")) << "whose content CheckFieldsAreKnown would have to unpack";
}

TEST_F(RpcTest, CreateJob_NamesEachPartOfTheSpecThatHasUnknownFields) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = GoodSpec();
  request.mutable_spec()->mutable_precision()->add_module_rules()->set_match("a");
  auto* const rule = request.mutable_spec()->mutable_precision()->add_module_rules();
  rule->set_match("b");
  rule->GetReflection()->MutableUnknownFields(rule)->AddVarint(300, 1);
  auto* const model = request.mutable_spec()->mutable_model();
  model->GetReflection()->MutableUnknownFields(model)->AddLengthDelimited(200, "x");
  model->GetReflection()->MutableUnknownFields(model)->AddLengthDelimited(201, "x");
  v1::Job job;
  const absl::Status status = FromGrpcStatus(server_.jobs().CreateJob(Context().get(), request, &job));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  std::vector<std::string> told;
  for (const FieldViolation& violation : ViolationsOf(status)) {
    told.push_back(
        absl::StrCat(violation.field, " ", violation.description.substr(0, violation.description.find(" of"))));
  }
  EXPECT_THAT(told, ElementsAre("spec.model has fields 200, 201, which ampd.v1.ModelSpec",
                                "spec.precision.module_rules[1] has field 300, which ampd.v1.ModuleRule"));
}

TEST_F(RpcTest, ErrorsOfHostileRequestsArriveWhole) {
  std::vector<std::pair<std::string, v1::CreateJobRequest>> requests;
  const auto add = [&](const std::string& what) {
    *requests.emplace_back(what, v1::CreateJobRequest()).second.mutable_spec() = GoodSpec();
    return requests.back().second.mutable_spec();
  };
  add("a name of 100 KB")->set_name(std::string(100'000, '%'));
  add("a name of 1 MB")->set_name(std::string(1 << 20, 'x'));
  auto* labels = add("100,000 labels")->mutable_labels();
  for (int i = 0; i < 100'000; ++i) {
    (*labels)[absl::StrCat("label", i)] = "x";
  }
  labels = add("1,000 bad labels")->mutable_labels();
  for (int i = 0; i < 1000; ++i) {
    (*labels)[absl::StrCat("\u00e4\u00e4", std::string(150, 'k'), i)] = "x";
  }
  auto* policy = add("10,000 module rules")->mutable_precision();
  for (int i = 0; i < 10'000; ++i) {
    policy->add_module_rules();
  }
  add("a huge request id");
  requests.back().second.set_request_id(std::string(1 << 20, 'r'));
  for (const auto& [what, request] : requests) {
    v1::Job job;
    const grpc::Status answer = server_.jobs().CreateJob(Context().get(), request, &job);
    const absl::Status status = FromGrpcStatus(answer);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what << status;
    EXPECT_EQ(ReasonOf(status), "INVALID_FIELDS") << what;
    EXPECT_FALSE(ViolationsOf(status).empty()) << what;
    EXPECT_LE(answer.error_message().size() + answer.error_details().size(), kMaxErrorBytes) << what;
  }
  v1::ListJobsRequest list;
  v1::ListJobsResponse jobs;
  list.set_page_size(std::numeric_limits<int32_t>::max());
  EXPECT_TRUE(server_.jobs().ListJobs(Context().get(), list, &jobs).ok());
  list.set_filter(std::string(1 << 20, 'f'));
  EXPECT_EQ(server_.jobs().ListJobs(Context().get(), list, &jobs).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::GetJobRequest get;
  v1::Job job;
  get.set_id(std::string(1 << 20, 'j'));
  EXPECT_EQ(server_.jobs().GetJob(Context().get(), get, &job).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(RpcTest, AQueuedJob_SaysWhyItWaitsAndIsFoundByItsName) {
  const v1::Job created = server_.CreateJob();
  EXPECT_FALSE(created.has_pending()) << "an answer that the committer sends has no reason";
  EXPECT_EQ(server_.GetJob(created.id()).pending().reason(), v1::PendingReason::NO_WORKERS);
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(server_.jobs().ListJobs(Context().get(), {}, &jobs).ok());
  EXPECT_TRUE(jobs.jobs(0).pending().no_worker_fits());
  v1::FindJobsRequest find;
  v1::FindJobsResponse found;
  EXPECT_EQ(server_.jobs().FindJobs(Context().get(), find, &found).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  find.set_text(created.spec().name());
  ASSERT_TRUE(server_.jobs().FindJobs(Context().get(), find, &found).ok());
  ASSERT_EQ(found.matches_size(), 1);
  EXPECT_EQ(found.matches(0).id(), created.id());
  EXPECT_EQ(found.matches(0).state(), v1::Job::QUEUED);
  EXPECT_TRUE(found.matches(0).has_create_time());
}

TEST_F(RpcTest, AWholeJob_FromSubmitToTheFinalMessage) {
  const v1::Job job = server_.CreateJob();
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  v1::TelemetryBatch batch = Steps(1, 50);
  AddEvent(51, v1::Event::OVERFLOW, &batch);
  const v1::TelemetryAck ack = worker.Upload(key, batch, "hello\n");
  EXPECT_EQ(ack.stored_sequence(), 51u);
  EXPECT_EQ(ack.stored_log_bytes(), 6);
  EXPECT_EQ(server_.GetJob(job.id()).progress().step(), 50);
  worker.Finish(key, 51);
  const Watched watched = WatchToTheEnd(job.id());
  EXPECT_TRUE(watched.status.ok()) << watched.status.error_message();
  EXPECT_EQ(watched.points.size(), 50u);
  EXPECT_EQ(watched.kinds.front(), "snapshot");
  EXPECT_EQ(watched.kinds.back(), "final");
  EXPECT_EQ(server_.GetJob(job.id()).state(), v1::Job::SUCCEEDED);
}

TEST_F(RpcTest, GetJob_TellsThePredictedPeakBesideTheMeasuredOne) {
  v1::JobSpec spec = GoodSpec();
  spec.mutable_precision()->set_preset("bf16");
  spec.mutable_resources()->set_kind(v1::ResourceSpec::CPU);
  const v1::Job job = server_.CreateJob(spec);
  EXPECT_EQ(server_.GetJob(job.id()).progress().memory_predicted_bytes(), 0) << "nobody knows yet on what it runs";
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  worker.Upload(key, Steps(1, 2));
  v1::EstimateJobRequest request;
  *request.mutable_spec() = spec;
  v1::EstimateJobResponse estimate;
  ASSERT_TRUE(server_.jobs().EstimateJob(Context().get(), request, &estimate).ok());
  const v1::Progress running = server_.GetJob(job.id()).progress();
  EXPECT_GT(running.memory_peak_bytes(), 0);
  EXPECT_EQ(running.memory_predicted_bytes(), estimate.candidates(0).total_bytes());
  worker.Finish(key, 2);
  EXPECT_EQ(server_.GetJob(job.id()).progress().memory_predicted_bytes(), running.memory_predicted_bytes());
}

TEST_F(RpcTest, WatchJob_TellsLiveWhatHappens) {
  const v1::Job job = server_.CreateJob();
  auto context = Context();
  auto reader = Watch(context.get(), job.id());
  v1::WatchJobResponse message;
  ASSERT_TRUE(reader->Read(&message));
  ASSERT_TRUE(message.has_snapshot());
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  worker.Upload(key, Steps(1, 10));
  worker.Finish(key, 10);
  Watched watched;
  uint64_t sequence = message.sequence();
  while (reader->Read(&message)) {
    EXPECT_EQ(message.sequence(), ++sequence);
    Take(message, &watched);
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(watched.points.size(), 10u);
  EXPECT_EQ(watched.kinds.back(), "final");
}

TEST_F(RpcTest, WatchJob_ReconnectsWithTokensWithoutGapOrDuplicate) {
  const v1::Job job = server_.CreateJob();
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  SeededRandom random(7);
  Watched all;
  uint64_t next = 1;
  for (int connection = 0; connection < 200; ++connection) {
    v1::TelemetryBatch batch = Steps(next, next + 4);
    AddEvent(next + 5, v1::Event::LOSS_SCALE_GROWN, &batch);
    next += 6;
    ASSERT_EQ(worker.Upload(key, batch).stored_sequence(), next - 1);
    auto context = Context();
    auto reader = Watch(context.get(), job.id(), all.token);
    v1::WatchJobResponse message;
    for (uint64_t n = 1 + random.Next() % 4; n > 0 && reader->Read(&message); --n) {
      Take(message, &all);
    }
    context->TryCancel();
    reader->Finish();
  }
  worker.Finish(key, next - 1);
  const Watched rest = WatchToTheEnd(job.id(), all.token);
  all.points.insert(all.points.end(), rest.points.begin(), rest.points.end());
  all.events.insert(all.events.end(), rest.events.begin(), rest.events.end());
  std::vector<uint64_t> points;
  for (uint64_t sequence = 1; sequence < next; ++sequence) {
    if (sequence % 6 != 0) {
      points.push_back(sequence);
    }
  }
  EXPECT_EQ(all.points, points);
  for (size_t i = 0; i < all.events.size(); ++i) {
    ASSERT_EQ(all.events[i], i + 1);
  }
  EXPECT_GE(all.events.size(), 200u);
  EXPECT_EQ(all.num_dropped + rest.num_dropped, 0);
}

TEST_F(RpcTest, WatchJob_GoesOnAfterTheServerCameBack) {
  const v1::Job job = server_.CreateJob();
  std::string token;
  {
    ScriptedWorker worker(&server_, "w1");
    const v1::AttemptKey key = worker.Adopt(job.id());
    worker.Upload(key, Steps(1, 10));
    auto context = Context();
    auto reader = Watch(context.get(), job.id());
    Watched watched;
    v1::WatchJobResponse message;
    while (watched.points.size() < 10 && reader->Read(&message)) {
      Take(message, &watched);
    }
    token = watched.token;
    std::thread stop([this] { server_.Stop(); });
    while (reader->Read(&message)) {
      Take(message, &watched);
      token = watched.token;
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    stop.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(ReasonOf(status), "SHUTTING_DOWN");
    EXPECT_EQ(MetadataOf(status)["resume_token"], token);
  }
  server_.Restart();
  auto context = Context();
  auto reader = Watch(context.get(), job.id(), token, false);
  v1::WatchJobResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_TRUE(message.has_snapshot());
  EXPECT_EQ(message.resume_token(), token);
  EXPECT_EQ(message.snapshot().progress().step(), 10) << "progress is read back";
  context->TryCancel();
}

TEST_F(RpcTest, Telemetry_OfAStaleTokenIsRefusedAndNotStored) {
  const v1::Job job = server_.CreateJob();
  ScriptedWorker worker(&server_, "w1");
  v1::AttemptKey key = worker.Adopt(job.id());
  key.set_token("stale");
  const v1::TelemetryAck ack = worker.Upload(key, Steps(1, 10));
  EXPECT_TRUE(ack.refused());
  v1::ListMetricPointsRequest request;
  request.set_id(job.id());
  v1::ListMetricPointsResponse response;
  ASSERT_TRUE(server_.jobs().ListMetricPoints(Context().get(), request, &response).ok());
  EXPECT_EQ(response.segments_size(), 0);
}

TEST_F(RpcTest, Telemetry_ThatIsMalformedIsRefusedOnceAndTheStreamGoesOn) {
  const v1::Job job = server_.CreateJob();
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  v1::TelemetryBatch ragged = Steps(4, 6);
  ragged.mutable_steps()->add_loss(1);
  auto context = Context();
  auto stream = server_.workers().ReportTelemetry(context.get());
  for (const v1::TelemetryBatch& batch : {Steps(1, 3), ragged, Steps(7, 9)}) {
    v1::TelemetryUpload upload;
    *upload.mutable_key() = key;
    *upload.mutable_batch() = batch;
    ASSERT_TRUE(stream->Write(upload));
  }
  stream->WritesDone();
  std::vector<uint64_t> acknowledged;
  v1::TelemetryAck ack;
  while (stream->Read(&ack)) {
    EXPECT_FALSE(ack.refused());
    acknowledged.push_back(ack.stored_sequence());
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(acknowledged, (std::vector<uint64_t>{3, 6, 9}));
  worker.Finish(key, 9);
  const Watched watched = WatchToTheEnd(job.id());
  EXPECT_EQ(watched.points.size(), 6u);
  v1::ListEventsRequest request;
  request.set_id(job.id());
  v1::ListEventsResponse events;
  ASSERT_TRUE(server_.jobs().ListEvents(Context().get(), request, &events).ok());
  const auto refused = std::count_if(events.events().begin(), events.events().end(), [](const v1::Event& event) {
    return event.kind() == v1::Event::TELEMETRY_REFUSED && event.message().find("4 to 6") != std::string::npos;
  });
  EXPECT_EQ(refused, 1);
}

TEST_F(RpcTest, Telemetry_WithSequencesThatCantBeIsRefusedForGood) {
  const v1::Job job = server_.CreateJob();
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  v1::TelemetryBatch absurd = Steps(1, 2);
  absurd.mutable_steps()->set_sequence(1, ~uint64_t{0});
  absurd.mutable_steps()->add_loss(1);
  EXPECT_TRUE(worker.Upload(key, absurd).refused());
}

TEST_F(RpcTest, Telemetry_ManyUploadsOnOneStreamAreAcknowledgedAndStoredOnce) {
  const v1::Job job = server_.CreateJob();
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  auto context = Context();
  auto stream = server_.workers().ReportTelemetry(context.get());
  std::thread writer([&] {
    for (uint64_t first = 1; first <= 5000; first += 50) {
      v1::TelemetryUpload upload;
      *upload.mutable_key() = key;
      *upload.mutable_batch() = Steps(first, first + 49);
      ASSERT_TRUE(stream->Write(upload));
      ASSERT_TRUE(stream->Write(upload)) << "sent again";
    }
    stream->WritesDone();
  });
  v1::TelemetryAck ack;
  uint64_t stored = 0;
  int num_acks = 0;
  while (num_acks < 200 && stream->Read(&ack)) {
    EXPECT_GE(ack.stored_sequence(), stored);
    stored = ack.stored_sequence();
    ++num_acks;
  }
  writer.join();
  EXPECT_EQ(stored, 5000u);
  v1::ListMetricPointsRequest request;
  request.set_id(job.id());
  request.set_page_size(700);
  int num_points = 0;
  do {
    v1::ListMetricPointsResponse response;
    ASSERT_TRUE(server_.jobs().ListMetricPoints(Context().get(), request, &response).ok());
    for (const auto& segment : response.segments()) {
      num_points += points::NumSteps(segment.steps());
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(num_points, 5000);
}

TEST_F(RpcTest, Attach_ASecondStreamOfAWorkerTakesOver) {
  ScriptedWorker first(&server_, "w1");
  first.Report();
  ScriptedWorker second(&server_, "w1");
  second.Report();
  EXPECT_EQ(first.Close().error_code(), grpc::StatusCode::ABORTED);
  second.Report();
}

TEST_F(RpcTest, Attach_AnotherAgentOfTheNameIsRefusedAndTheFirstKeepsItsStream) {
  ScriptedWorker first(&server_, "w1", "red");
  first.Report();
  ScriptedWorker second(&server_, "w1", "blue");
  const grpc::Status refused = second.ReportToBeRefused();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(refused)), "WORKER_NAME_IN_USE");
  first.Report();
  EXPECT_TRUE(first.Close().ok());
}

TEST_F(RpcTest, DrainWorker_IsListedAndTakenBack) {
  ScriptedWorker worker(&server_, "w1");
  worker.Report();
  v1::DrainWorkerRequest drain;
  drain.set_name("w1");
  v1::Worker shown;
  grpc::Status status = server_.admin().DrainWorker(Context().get(), drain, &shown);
  // The worker's first report registers it, but the registration may not be on disk yet. Until it is, the call returns
  // NOT_FOUND and is repeated.
  for (int i = 0; i < 100 && status.error_code() == grpc::StatusCode::NOT_FOUND; ++i) {
    worker.Report();
    status = server_.admin().DrainWorker(Context().get(), drain, &shown);
  }
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(shown.drained());
  v1::ListWorkersResponse workers;
  ASSERT_TRUE(server_.admin().ListWorkers(Context().get(), {}, &workers).ok());
  ASSERT_EQ(workers.workers_size(), 1);
  EXPECT_EQ(workers.workers(0).state(), v1::Worker::DRAINING);
}

TEST_F(RpcTest, TailLogs_FollowsToTheEndOfTheAttempt) {
  const v1::Job job = server_.CreateJob();
  ScriptedWorker worker(&server_, "w1");
  const v1::AttemptKey key = worker.Adopt(job.id());
  worker.Upload(key, {}, "one\n");
  v1::TailLogsRequest request;
  request.set_id(job.id());
  request.set_follow(true);
  auto context = Context();
  auto reader = server_.jobs().TailLogs(context.get(), request);
  v1::TailLogsResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.content(), "one\n");
  worker.Upload(key, {}, "two\n", 4);
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.content(), "two\n");
  EXPECT_EQ(message.offset_bytes(), 4);
  worker.Finish(key, 0);
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(RpcTest, BadPagesAreInvalid) {
  const v1::Job job = server_.CreateJob();
  v1::ListMetricPointsResponse points;
  for (const auto& edit : std::vector<std::function<void(v1::ListMetricPointsRequest*)>>{
           [](auto* r) { r->set_page_size(-1); }, [](auto* r) { r->set_page_token("x"); },
           [](auto* r) { r->set_downsample_to(10'001); }}) {
    v1::ListMetricPointsRequest request;
    request.set_id(job.id());
    edit(&request);
    const absl::Status status = FromGrpcStatus(server_.jobs().ListMetricPoints(Context().get(), request, &points));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ViolationsOf(status).size(), 1u);
  }
  auto context = Context();
  v1::WatchJobResponse message;
  auto reader = Watch(context.get(), job.id(), "garbage");
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(Guard, KnowsTheHostsOwnPeers) {
  for (const char* local : {"ipv4:127.0.0.1:5000", "ipv4:127.8.8.8:1", "ipv6:[::1]:80", "ipv6:%5B::1%5D:80"}) {
    EXPECT_TRUE(IsLoopbackPeer(local)) << local;
  }
  for (const char* remote :
       {"ipv4:10.0.0.1:5000", "ipv6:[::2]:80", "", "ipv4:128.0.0.1:1", "ipv6:[::ffff:10.0.0.1]:1", "unix:", "fd:3"}) {
    EXPECT_FALSE(IsLoopbackPeer(remote)) << remote;
  }
}

TEST_F(RpcTest, EstimateJob_TellsTheBytesOfAStepOrWhatIsWrong) {
  v1::EstimateJobRequest request;
  *request.mutable_spec() = GoodSpec();
  v1::EstimateJobResponse estimate;
  absl::Status status = FromGrpcStatus(server_.jobs().EstimateJob(Context().get(), request, &estimate));
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(estimate.candidates_size(), 2);
  EXPECT_GT(estimate.candidates(0).total_bytes(), estimate.candidates(0).weight_bytes());
  EXPECT_EQ(estimate.candidates(0).fits_size(), 0) << "there is no worker";
  ScriptedWorker worker(&server_, "w1");
  worker.Adopt(server_.CreateJob().id());
  status = FromGrpcStatus(server_.jobs().EstimateJob(Context().get(), request, &estimate));
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(estimate.candidates(0).fits_size(), 1);
  EXPECT_EQ(estimate.candidates(0).fits(0).worker(), "w1");
  EXPECT_EQ(estimate.candidates(0).fits(0).memory_bytes(), 8LL << 30);
  EXPECT_GT(estimate.candidates(0).fits(0).largest_batch_size(), 32);
  EXPECT_EQ(estimate.candidates(1).fits_size(), 0) << "it has no GPU";
  status = FromGrpcStatus(server_.jobs().EstimateJob(Context().get(), {}, &estimate));
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELDS") << status;
}

TEST_F(RpcTest, ResolvePolicy_TellsWhatEachParameterAndOpDoes) {
  v1::ResolvePolicyRequest request;
  request.mutable_precision()->set_preset("apex-o2");
  request.mutable_model()->mutable_mlp()->add_hidden(8);
  v1::PolicyTable table;
  const absl::Status status = FromGrpcStatus(server_.jobs().ResolvePolicy(Context().get(), request, &table));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(table.preset(), "apex-o2");
  EXPECT_EQ(table.policy().accumulation(), v1::PrecisionPolicy::fp32);
  EXPECT_EQ(table.policy().loss_scale().dynamic().cap(), 0x1p24);
  ASSERT_EQ(table.parameters_size(), 4);
  EXPECT_EQ(table.parameters(0).dtype(), "float16");
  EXPECT_EQ(table.parameters(0).master(), "float32");
  EXPECT_EQ(table.ops(table.ops_size() - 1).policy(), v1::OpRule::fp32) << "the loss";
}

TEST_F(RpcTest, ResolvePolicy_TellsOfBothNetworksOfAGan) {
  v1::ResolvePolicyRequest request;
  request.mutable_model()->mutable_dcgan();
  request.mutable_precision()->set_preset("bf16");
  v1::PolicyTable table;
  const absl::Status status = FromGrpcStatus(server_.jobs().ResolvePolicy(Context().get(), request, &table));
  ASSERT_TRUE(status.ok()) << status;
  for (const char* name : {"generator.main.0.weight", "discriminator.main.0.weight"}) {
    EXPECT_TRUE(std::any_of(table.parameters().begin(), table.parameters().end(), [name](const auto& row) {
      return row.name() == name;
    })) << name;
  }
}

TEST_F(RpcTest, ResolvePolicy_RefusesWhatTheDeviceLacksAndWhatIsWrong) {
  v1::ResolvePolicyRequest request;
  request.mutable_precision()->set_preset("bf16");
  request.mutable_model()->mutable_lenet();
  request.mutable_device()->set_kind(v1::Device::GPU);
  request.mutable_device()->set_capability_major(7);
  v1::PolicyTable table;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(server_.jobs().ResolvePolicy(Context().get(), request, &table))),
            "CAPABILITY_TOO_LOW");
  request.mutable_model()->mutable_lenet()->set_hidden(-1);
  EXPECT_EQ(FromGrpcStatus(server_.jobs().ResolvePolicy(Context().get(), request, &table)).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RpcTest, ResolvePolicy_OfMoreRulesThanAJobMayHave_IsInvalid) {
  v1::ResolvePolicyRequest request;
  request.mutable_model()->mutable_lenet();
  for (int i = 0; i < 65; ++i) {
    v1::ModuleRule& rule = *request.mutable_precision()->add_module_rules();
    rule.set_match("*");
    rule.set_compute(v1::PrecisionPolicy::fp32);
  }
  v1::PolicyTable table;
  const absl::Status status = FromGrpcStatus(server_.jobs().ResolvePolicy(Context().get(), request, &table));
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELDS") << status;
  request.mutable_precision()->mutable_module_rules()->RemoveLast();
  EXPECT_TRUE(FromGrpcStatus(server_.jobs().ResolvePolicy(Context().get(), request, &table)).ok());
}

}  // namespace
}  // namespace ampd::server
