// Tests the server's Unix socket: how a peer is identified, what its role allows, and how many resources a peer without
// a role can use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/grpc/grpc_target.h"
#include "base/ipc/unix_socket.h"
#include "server/access/rules.h"
#include "server/rpc/connections/socket_acceptor.h"
#include "tests/server/rpc/empty_call.h"
#include "tests/server/rpc/open_watch.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A server on which the Unix user that runs this test has the given role, or no role. Its list of admins' uids is
// empty, so this user is not an admin without a grant.
class SocketServer {
 public:
  explicit SocketServer(std::optional<Role> role)
      : server_([role](ServerConfig* config) {
          config->grants = Grants({});
          if (role.has_value()) {
            const absl::Status added =
                config->grants.Add(absl::StrCat("uid:", getuid(), "=", std::string(RoleName(*role))));
            EXPECT_TRUE(added.ok()) << added;
          }
        }) {
    user_.Connect("unix:" + server_.socket());
  }

  // Returns access over loopback, where everybody is an admin.
  TestServer& loopback() { return server_; }
  // Returns access over the socket.
  ServerAccess& user() { return user_; }

 private:
  TestServer server_;
  ServerAccess user_;
};

bool IsRefusedByRole(const absl::Status& status) {
  return ReasonOf(status) == "ROLE_TOO_LOW" || ReasonOf(status) == "NO_ROLE";
}

TEST(SocketAccess, EveryMethodIsRefusedExactlyToTheRolesThatLackItsRight) {
  for (const std::optional<Role> role :
       std::vector<std::optional<Role>>{std::nullopt, Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin,
                                        Role::kAgent, Role::kScraper}) {
    SocketServer server(role);
    for (const Rule& rule : AllRules()) {
      const Identity identity = role.has_value() ? Identity::InAllTenants("", *role) : Identity();
      const bool may = CheckMethod(identity, rule.method).ok();
      const absl::Status status = CallEmpty(server.user(), rule.method);
      EXPECT_NE(IsRefusedByRole(status), may)
          << rule.method << " by " << (role.has_value() ? RoleName(*role) : "nobody") << ": " << status;
      EXPECT_NE(status.code(), absl::StatusCode::kDeadlineExceeded) << rule.method;
    }
  }
}

TEST(SocketAccess, ASubmitterChangesItsOwnJobsOnly) {
  SocketServer server(Role::kSubmitter);
  const v1::Job own = server.user().CreateJob(GoodSpec("own"));
  const v1::Job other = server.loopback().CreateJob(GoodSpec("other"));
  EXPECT_FALSE(own.owner().empty());
  EXPECT_EQ(own.owner(), Grants({}).Of({.uid = getuid()}).name);
  EXPECT_EQ(other.owner(), "");
  const auto cancel = [&server](const std::string& id) {
    v1::CancelJobRequest request;
    request.set_id(id);
    v1::Job job;
    return FromGrpcStatus(server.user().jobs().CancelJob(Context().get(), request, &job));
  };
  const absl::Status refused = cancel(other.id());
  EXPECT_EQ(ReasonOf(refused), "NOT_YOUR_JOB") << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(other.id()));
  EXPECT_EQ(server.loopback().GetJob(other.id()).state(), v1::Job::QUEUED);
  EXPECT_TRUE(cancel(own.id()).ok());
  EXPECT_EQ(ReasonOf(cancel("j-aaaaaaaaaaaaaaaa")), "JOB_NOT_FOUND");
  EXPECT_EQ(server.user().GetJob(other.id()).id(), other.id()) << "it may see all jobs";
}

// Returns the grants with which the user of this test has one role, such as "viewer@vision".
Grants GrantsOf(const std::string& role) {
  Grants grants({});
  EXPECT_TRUE(grants.Add(absl::StrCat("uid:", getuid(), "=", role)).ok());
  return grants;
}

TEST(SocketAccess, NewRightsHoldForTheNextCallOfAConnection_AndEndItsStreams) {
  SocketServer server(Role::kSubmitter);
  const v1::Job job = server.user().CreateJob(GoodSpec("own"));
  OpenWatch watch(&server.user(), job.id());
  server.loopback().SetRights(GrantsOf("viewer"), Limits());
  EXPECT_EQ(ReasonOf(CallEmpty(server.user(), "ampd.v1.JobService/CreateJob")), "ROLE_TOO_LOW");
  EXPECT_EQ(server.user().GetJob(job.id()).id(), job.id()) << "a viewer still sees it";
  server.loopback().SetRights(GrantsOf("agent"), Limits());
  EXPECT_LT(watch.AwaitEnd(), absl::Seconds(5));
  EXPECT_EQ(ReasonOf(watch.status()), "ROLE_TOO_LOW") << watch.status();
  server.loopback().SetRights(Grants({}), Limits());
  EXPECT_EQ(ReasonOf(CallEmpty(server.user(), "ampd.v1.JobService/CreateJob")), "ROLE_TOO_LOW")
      << "that nobody has a role any more needs a restart";
}

v1::Job CreateJobIn(ServerAccess& access, const std::string& tenant) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = GoodSpec();
  request.set_tenant(tenant);
  v1::Job job;
  const absl::Status created = FromGrpcStatus(access.jobs().CreateJob(Context().get(), request, &job));
  EXPECT_TRUE(created.ok()) << created;
  return job;
}

TEST(SocketAccess, ALostTenant_EndsTheStreamsThatShowItsJobs) {
  SocketServer server(Role::kViewer);
  server.loopback().SetRights(GrantsOf("viewer@vision"), Limits());
  const v1::Job job = CreateJobIn(server.loopback(), "vision");
  ScriptedWorker worker(&server.loopback(), "w1");
  worker.Upload(worker.Adopt(job.id()), {}, "one\n");
  OpenWatch watch(&server.user(), job.id());
  v1::TailLogsRequest request;
  request.set_id(job.id());
  request.set_follow(true);
  const auto context = Context();
  const auto reader = server.user().jobs().TailLogs(context.get(), request);
  v1::TailLogsResponse piece;
  ASSERT_TRUE(reader->Read(&piece));
  server.loopback().SetRights(GrantsOf("viewer@nlp"), Limits());
  EXPECT_LT(watch.AwaitEnd(), absl::Seconds(5));
  EXPECT_EQ(ReasonOf(watch.status()), "RIGHTS_CHANGED") << watch.status();
  EXPECT_FALSE(reader->Read(&piece));
  EXPECT_EQ(ReasonOf(FromGrpcStatus(reader->Finish())), "RIGHTS_CHANGED");
  const auto again = Context();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(server.user().jobs().TailLogs(again.get(), request)->Finish())), "JOB_NOT_FOUND");
}

// Reports until the worker is listed, and returns the tenants that it serves.
std::vector<std::string> TenantsServedBy(ScriptedWorker& worker, const std::string& name, ServerAccess& admin) {
  for (const absl::Duration end = SystemClock().SinceBoot() + absl::Seconds(20); SystemClock().SinceBoot() < end;) {
    worker.Report();  // Registers the worker. The registration may not be on disk yet when the server answers.
    v1::ListWorkersResponse listed;
    EXPECT_TRUE(admin.admin().ListWorkers(Context().get(), {}, &listed).ok());
    for (const v1::Worker& one : listed.workers()) {
      if (one.name() == name) {
        return {one.tenants().begin(), one.tenants().end()};
      }
    }
  }
  ADD_FAILURE() << "worker " << name << " was not registered";
  return {};
}

TEST(SocketAccess, ALostTenant_EndsTheStreamsOfWorkers_WhichThenServeTheirNewTenants) {
  SocketServer server(Role::kAgent);
  server.loopback().SetRights(GrantsOf("agent@vision"), Limits());
  ScriptedWorker worker(&server.user(), "w1", "agent-1");
  EXPECT_THAT(TenantsServedBy(worker, "w1", server.loopback()), ElementsAre("vision"));
  server.loopback().SetRights(GrantsOf("agent@nlp"), Limits());
  EXPECT_EQ(ReasonOf(FromGrpcStatus(worker.AwaitEnd())), "RIGHTS_CHANGED");
  ScriptedWorker again(&server.user(), "w2", "agent-2");
  EXPECT_THAT(TenantsServedBy(again, "w2", server.loopback()), ElementsAre("nlp"));
}

TEST(SocketAccess, TheOwnerIsDurable_AndThatOfACopyIsWhoMadeIt) {
  SocketServer server(Role::kSubmitter);
  const v1::Job other = server.loopback().CreateJob(GoodSpec("other"));
  v1::CloneJobRequest request;
  request.set_id(other.id());
  v1::Job copy;
  ASSERT_TRUE(server.user().jobs().CloneJob(Context().get(), request, &copy).ok());
  server.loopback().Restart();
  EXPECT_EQ(server.loopback().GetJob(copy.id()).owner(), Grants({}).Of({.uid = getuid()}).name);
}

TEST(SocketAccess, OthersCantOpenTheSocketsFile_UnlessAGrantGivesOneARole) {
  TestServer alone;
  struct stat status = {};
  ASSERT_EQ(stat(alone.socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  SocketServer shared(Role::kViewer);
  ASSERT_EQ(stat(shared.loopback().socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0666u);
}

TEST(SocketAccess, AServerThatStops_RemovesItsSocket_AndOneThatWasKilledIsReplaced) {
  TestServer server;
  const std::string socket = server.socket();
  server.Stop();
  EXPECT_FALSE(std::filesystem::exists(socket));
  ASSERT_TRUE(ListenUnix(socket).ok());  // Leaves the socket's file behind.
  ASSERT_TRUE(std::filesystem::exists(socket));
  server.Restart();
  ServerAccess user;
  user.Connect("unix:" + socket);
  EXPECT_FALSE(user.CreateJob().id().empty());
}

class SocketAcceptorTest : public testing::Test {
 protected:
  // Starts an acceptor, and keeps the connections that it accepts in `passed_`. No user of these tests is an admin.
  absl::Status Start(int max_connections) {
    auto acceptor = SocketAcceptor::Bind({.path = folder_.Path("s"),
                                          .max_connections = max_connections,
                                          .grants = &grants_,
                                          .on_connection = [this](UniqueFd fd, const Peer& peer) {
                                            const absl::MutexLock lock(&mutex_);
                                            names_.push_back(peer.identity.name);
                                            passed_.push_back(std::move(fd));
                                          }});
    if (!acceptor.ok()) {
      return acceptor.status();
    }
    acceptor_ = *std::move(acceptor);
    acceptor_->Start();
    return absl::OkStatus();
  }
  UniqueFd Connect() { return ConnectUnix(folder_.Path("s")).value(); }
  bool Await(const std::function<bool()>& condition) {
    for (const absl::Duration end = SystemClock().SinceBoot() + absl::Seconds(30); SystemClock().SinceBoot() < end;) {
      if (condition()) {
        return true;
      }
      std::this_thread::yield();
    }
    return false;
  }
  size_t num_passed() {
    const absl::MutexLock lock(&mutex_);
    return passed_.size();
  }
  // Waits until the server has closed the connection. Returns false if that takes too long.
  static bool AwaitClosed(const UniqueFd& fd) {
    pollfd waited = {fd.get(), POLLIN, 0};
    char byte = 0;
    return poll(&waited, 1, /*timeout=*/30'000) == 1 && recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  TemporaryFolder folder_;
  Grants grants_{{}};
  absl::Mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::vector<UniqueFd> passed_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SocketAcceptor> acceptor_;
};

TEST_F(SocketAcceptorTest, AConnectionIsPassedOnWithItsUser_OnceItSendsSomething) {
  ASSERT_TRUE(Start(16).ok());
  const UniqueFd silent = Connect();
  const UniqueFd talking = Connect();
  ASSERT_EQ(send(talking.get(), "P", 1, 0), 1);
  ASSERT_TRUE(Await([this] { return num_passed() == 1; }));
  EXPECT_TRUE(Await([this] { return acceptor_->counters().num_open == 2; }));
  const absl::MutexLock lock(&mutex_);
  EXPECT_EQ(names_[0], Grants({}).Of({.uid = getuid()}).name);
}

TEST_F(SocketAcceptorTest, ASilentConnectionIsClosedAfterAWhile) {
  ASSERT_TRUE(Start(16).ok());
  const UniqueFd silent = Connect();
  EXPECT_TRUE(AwaitClosed(silent));
  EXPECT_EQ(acceptor_->counters().num_evicted, 1);
  EXPECT_EQ(num_passed(), 0u);
}

TEST_F(SocketAcceptorTest, UsersWithoutAdminRightsCantTakeAllConnections) {
  ASSERT_TRUE(Start(8).ok());
  std::vector<UniqueFd> talking;
  for (int i = 0; i < 8; ++i) {
    talking.push_back(Connect());
    send(talking.back().get(), "P", 1, MSG_NOSIGNAL);
  }
  EXPECT_TRUE(Await([&] { return num_passed() == 6 && acceptor_->counters().num_refused == 2; }));
  EXPECT_FALSE(acceptor_->HadRoom()) << "two were closed";
  EXPECT_TRUE(acceptor_->HadRoom());
  // When a connection ends, another one can be accepted.
  {
    const absl::MutexLock lock(&mutex_);
    passed_.pop_back();
  }
  ASSERT_TRUE(Await([&] { return acceptor_->counters().num_open == 5; }));
  const UniqueFd another = Connect();
  send(another.get(), "P", 1, MSG_NOSIGNAL);
  EXPECT_TRUE(Await([&] { return num_passed() == 6; }));
}

TEST_F(SocketAcceptorTest, APathInUse_IsRefused) {
  ASSERT_TRUE(Start(8).ok());
  const std::unique_ptr<SocketAcceptor> first = std::move(acceptor_);
  EXPECT_EQ(ReasonOf(Start(8)), "ADDRESS_IN_USE");
  first->Stop();
  ASSERT_TRUE(WriteFileAtomically(folder_.Path("s"), "a file").ok());
  EXPECT_EQ(ReasonOf(Start(8)), "ADDRESS_NOT_BINDABLE");
  EXPECT_EQ(ReadFile(folder_.Path("s"), 100).value_or(""), "a file");
}

TEST(GrpcTarget, ALongPathLeadsThroughItsFolder) {
  EXPECT_EQ(GrpcTarget("127.0.0.1:7070"), "127.0.0.1:7070");
  EXPECT_EQ(GrpcTarget("unix:/run/ampd/ampd.sock"), "unix:/run/ampd/ampd.sock");
  TemporaryFolder folder;
  const std::string deep = folder.Path(std::string(100, 'd'));
  std::filesystem::create_directory(deep);
  TestServer server([&deep](ServerConfig* config) { config->socket = deep + "/ampd.sock"; });
  ServerAccess user;
  user.Connect(GrpcTarget("unix:" + deep + "/ampd.sock"));
  EXPECT_FALSE(user.CreateJob().id().empty());
}

TEST(SocketProbe, FindsADeletedFileWhichARestartMakesAgain) {
  TemporaryFolder folder;
  const Grants grants({getuid()});
  SocketAcceptor::Options options;
  options.path = folder.Path("s");
  options.mode = 0666;
  options.max_connections = 1;
  options.grants = &grants;
  options.on_connection = [](UniqueFd, const Peer&) {};
  auto acceptor = *SocketAcceptor::Bind(std::move(options));
  acceptor->Start();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(acceptor->Probe(absl::Seconds(30)), ProbeResult::kAccepted);
  }
  EXPECT_EQ(acceptor->num_accepts(), 5);
  EXPECT_EQ(acceptor->counters().num_accepted, 0);
  EXPECT_TRUE(acceptor->HadRoom());
  std::filesystem::remove(folder.Path("s"));
  EXPECT_EQ(acceptor->Probe(absl::Milliseconds(100)), ProbeResult::kNotAccepted);
  ASSERT_TRUE(acceptor->Restart().ok());
  EXPECT_EQ(acceptor->Probe(absl::Seconds(30)), ProbeResult::kAccepted);
  EXPECT_EQ(std::filesystem::status(folder.Path("s")).permissions(), std::filesystem::perms(0666));
  // Now the acceptor's socket file is deleted, and another program listens on the same path. The test expects that
  // Restart fails and leaves the socket of that program alone.
  std::filesystem::remove(folder.Path("s"));
  const auto other = ListenUnix(folder.Path("s"));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(acceptor->Probe(absl::Milliseconds(100)), ProbeResult::kNotAccepted);
  EXPECT_EQ(ReasonOf(acceptor->Restart()), "ADDRESS_IN_USE");
}

}  // namespace
}  // namespace ampd::server
