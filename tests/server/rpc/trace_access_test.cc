// Tests the trace that a client sends to a real server: which parts of the server continue it, where it is shown, and
// which texts are not accepted as a trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/auth_service.grpc.pb.h"
#include "base/grpc/channel.h"
#include "base/trace_context.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpanOfClient[] = "00f067aa0ba902b7";
constexpr char kExample[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

// Submits a job. Sends each of these texts, unchanged, as a `traceparent` header.
v1::Job Submit(TestServer& server, const std::vector<std::string>& traceparents) {
  const auto context = Context();
  for (const std::string& traceparent : traceparents) {
    context->AddMetadata(kTraceparent, traceparent);
  }
  v1::CreateJobRequest request;
  *request.mutable_spec() = GoodSpec();
  v1::Job job;
  const grpc::Status status = server.jobs().CreateJob(context.get(), request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

// Returns the newest entry of the audit log.
v1::AuditEntry LastEntry(TestServer& server) {
  v1::ListAuditEntriesRequest request;
  request.set_limit(1);
  v1::ListAuditEntriesResponse response;
  const auto auth = v1::AuthService::NewStub(OpenChannel({.address = server.address(), .token = "", .tls = {}}, {}));
  EXPECT_TRUE(auth->ListAuditEntries(Context().get(), request, &response).ok());
  return response.entries_size() == 1 ? response.entries(0) : v1::AuditEntry();
}

TEST(TraceAccess, AJobBelongsToTheTraceOfItsCall_AndItsAuditEntrySaysSo) {
  TestServer server;
  const v1::Job job = Submit(server, {kExample});
  const TraceContext trace = ParseTraceparent(job.traceparent()).value_or(TraceContext());
  EXPECT_EQ(TraceIdOf(trace), kTraceId);
  EXPECT_NE(SpanIdOf(trace), kSpanOfClient) << "the call is a span of its own";
  EXPECT_TRUE(trace.sampled);
  const v1::AuditEntry entry = LastEntry(server);
  EXPECT_EQ(entry.method(), "ampd.v1.JobService/CreateJob");
  EXPECT_EQ(entry.trace_id(), kTraceId);
  EXPECT_EQ(entry.span_id(), SpanIdOf(trace));
  EXPECT_EQ(entry.parent_span_id(), kSpanOfClient);
  server.Restart();
  v1::GetJobRequest request;
  request.set_id(job.id());
  v1::Job after;
  ASSERT_TRUE(server.jobs().GetJob(Context().get(), request, &after).ok());
  EXPECT_EQ(after.traceparent(), job.traceparent());
}

TEST(TraceAccess, EveryConnectionMayNameATrace) {
  TestServer server;
  ServerAccess client;
  client.Connect({.address = server.address(), .token = "", .tls = {}, .traceparent = kExample});
  EXPECT_EQ(TraceIdOf(*ParseTraceparent(client.CreateJob().traceparent())), kTraceId);
}

TEST(TraceAccess, WithoutAValidTraceparent_TheServerBeginsATrace) {
  TestServer server;
  const std::string example = kExample;
  const std::vector<std::vector<std::string>> invalid = {
      {},
      {""},
      {example, example},
      {example + "-more"},
      {example + " trace_id=forged"},
      {absl::AsciiStrToUpper(example)},
      {"ff" + example.substr(2)},
      {absl::StrCat("00-", std::string(32, '0'), "-", kSpanOfClient, "-01")},
      {absl::StrCat("00-", kTraceId, "-", std::string(16, '0'), "-01")},
      {"{\"trace_id\":\"forged\"}"},
      {std::string(4000, 'a')},
  };
  std::set<std::string> ids;
  for (const std::vector<std::string>& traceparents : invalid) {
    const v1::Job job = Submit(server, traceparents);
    const std::optional<TraceContext> trace = ParseTraceparent(job.traceparent());
    ASSERT_TRUE(trace.has_value()) << job.traceparent();
    EXPECT_FALSE(trace->sampled);
    const v1::AuditEntry entry = LastEntry(server);
    EXPECT_EQ(entry.trace_id(), TraceIdOf(*trace));
    EXPECT_EQ(entry.parent_span_id(), "");
    ids.insert(entry.trace_id());
  }
  EXPECT_EQ(ids.size(), invalid.size()) << "each trace has an id of its own";
  EXPECT_EQ(ids.count(kTraceId), 0u);
}

TEST(TraceAccess, ATraceparentOfALaterVersionIsReadByItsBeginning) {
  TestServer server;
  const v1::Job job = Submit(server, {absl::StrCat("01", std::string(kExample).substr(2), "-what-the-future-brings")});
  EXPECT_EQ(TraceIdOf(*ParseTraceparent(job.traceparent())), kTraceId);
  EXPECT_EQ(job.traceparent().size(), kTraceparentLength);
}

TEST(TraceAccess, AJobKeepsItsTrace_WhateverCallsChangeIt) {
  TestServer server;
  const v1::Job job = Submit(server, {kExample});
  v1::PauseJobRequest pause;
  pause.set_id(job.id());
  v1::Job paused;
  ASSERT_TRUE(server.jobs().PauseJob(Context().get(), pause, &paused).ok());
  EXPECT_EQ(paused.traceparent(), job.traceparent());
  EXPECT_NE(LastEntry(server).trace_id(), kTraceId);
  v1::ResumeJobRequest resume;
  resume.set_id(job.id());
  v1::Job resumed;
  ASSERT_TRUE(server.jobs().ResumeJob(Context().get(), resume, &resumed).ok());
  EXPECT_EQ(resumed.traceparent(), job.traceparent());
}

}  // namespace
}  // namespace ampd::server
