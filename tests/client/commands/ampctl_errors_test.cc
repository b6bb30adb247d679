// Tests ampctl's error messages, which say what is wrong and what to do next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/io/file.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(Ampctl, OutputThatCannotBeWrittenIsAFailure) {
  fake_.jobs.Add("n", v1::Job::QUEUED);
  EXPECT_EQ(Run("job list > /dev/full 2> errors; echo $?").out, "1\n");
  EXPECT_EQ(*ReadFile(folder_ + "/errors", 4096), "error: cannot write to standard output: No space left on device\n");
}

TEST_F(Ampctl, WrongAddressesAndNumbers_AreErrorsInWords) {
  EXPECT_THAT(Run("job list --address foo").err,
              HasSubstr("the address 'foo' from --address is neither HOST:PORT, nor unix:/PATH, nor the name of a context"));
  EXPECT_THAT(Run("job scale --set-scale abc x").err, HasSubstr("--set-scale: 'abc' is not a number above 0"));
  EXPECT_THAT(Run("job scale --growth-interval 1.5 x").err,
              HasSubstr("--growth-interval: '1.5' is not a whole number of at least 1"));
  EXPECT_THAT(Run("checkpoint show x newest").err, HasSubstr("'newest' is not a whole number of at least 0"));
}

TEST_F(Ampctl, AListWithoutMatchesNamesTheFilter) {
  EXPECT_THAT(Run("job list").err, HasSubstr("no jobs; submit one with"));
  const Result result = Run("job list --filter name=other");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("no job matches --filter 'name=other'; to list all: ampctl job list"));
}

TEST_F(Ampctl, ARefusalForTheJobsStateSaysWhatCanBeDone) {
  const std::string id = fake_.jobs.Add("n", v1::Job::PAUSED).id();
  const Result result = Run("job delete --yes " + id);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("is PAUSED and can't be deleted  [WRONG_STATE]\n  try: see its state: ampctl "
                                    "job show " +
                                    id + "   (end it: ampctl job cancel " + id + ")\n"));
  EXPECT_EQ(fake_.jobs.size(), 1);
}

TEST_F(Ampctl, AnErrorOfAnotherServer_IsNotReportedAsAnUnsupportedField) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  fake_.jobs.script()->refuse_gets = grpc::StatusCode::UNIMPLEMENTED;
  const Result result = Run("job show " + id);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("try: check that it is an ampd-server of ampctl's version   (address from AMPD_ADDRESS)"));
}

// A server that answers every connection with an error of HTTP/1.1.
class HttpServer {
 public:
  HttpServer() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, size), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    EXPECT_EQ(getsockname(socket_, any, &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~HttpServer() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }
  const std::string& address() const { return address_; }

 private:
  void Serve() {
    constexpr absl::string_view kAnswer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    for (int connection = accept(socket_, nullptr, nullptr); connection >= 0;
         connection = accept(socket_, nullptr, nullptr)) {
      char request[1024];
      static_cast<void>(read(connection, request, sizeof(request)));
      EXPECT_EQ(write(connection, kAnswer.data(), kAnswer.size()), static_cast<ssize_t>(kAnswer.size()));
      close(connection);
    }
  }

  const int socket_;
  std::string address_;
  std::thread thread_;
};

TEST_F(Ampctl, AServerThatIsNoAmpdServer_IsNamedInOneSentence) {
  const HttpServer server;
  const std::string sentence = absl::StrCat("there is no ampd-server at ", server.address(),
                                            ": another server or a proxy answers there, in HTTP");
  const Result list = Run("job list --address " + server.address());
  EXPECT_EQ(list.exit_code, 5);
  EXPECT_EQ(list.err, absl::StrCat("error: ", sentence,
                                   "\n  try: use the server's gRPC address (by default its port is 7070): --address "
                                   "HOST:PORT; the address comes from --address\n"));
  EXPECT_EQ(Run("version --address " + server.address()).err, sentence + "\n");
}

TEST_F(Ampctl, AnUnreachableServer_IsReportedOnceByCommandsThatMakeManyCalls) {
  Write("job.yaml", kGoodJob);
  const std::string error = Run("job list", kNoServer).err;
  ASSERT_THAT(error, StartsWith("error: cannot reach the server at 127.0.0.1:1: "));
  for (const char* command :
       {"job cancel a b c", "job pause a b c", "job resume a b c", "job delete --yes a b c", "job wait a b",
        "job update a b --priority 1", "compare a b", "compare --label c-1", "compare -f job.yaml",
        "compare -f job.yaml --repeats 3", "estimate -f job.yaml", "estimate -f job.yaml --policies fp32"}) {
    const Result result = Run(command, kNoServer);
    EXPECT_EQ(result.exit_code, 5) << command;
    EXPECT_EQ(result.err, error) << command;
    EXPECT_EQ(result.out, "") << command;
  }
}

TEST_F(Ampctl, AFieldOfTheRequest_IsCalledAsItWasTyped) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"filter", "job list --filter 'a\x1b'", "--filter"},
      {"page_token", "job list --page-token x", "--page-token"},
      {"name", "job clone --name B " + id, "--name"},
      {"loss_scale_order.scale", "job scale --set-scale 8 " + id, "--set-scale"},
  };
  for (const auto& [field, command, typed] : cases) {
    fake_.jobs.script()->refuse_requests = InvalidFields({{field, "is \"\x1b\"; must be another"}});
    const Result result = Run(command);
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_EQ(result.err, absl::StrCat("error: ", typed, ": is \"\\x1b\"; must be another\n")) << "said once";
  }
}

TEST_F(Ampctl, AWaitFindsEveryJobBeforeItWaits) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  fake_.jobs.script()->hold_watches = true;
  const Result result = Run("job wait --timeout 20s " + id + " missing");
  fake_.jobs.release.Notify();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("no job with the id or the name \"missing\""));
}

TEST_F(Ampctl, ALongArgument_IsShortenedInEveryMessage) {
  const std::string text(5000, 'S');
  for (const std::string& command :
       {"job list --sort " + text, "job list -o " + text, "job list --limit " + text, text, "help " + text,
        "job list " + text, "init - --name " + text, "init " + text, "model inspect " + text, "job submit -f " + text,
        "job submit -f job.yaml --set " + text + "=1", "dev --data-root " + text, "compare --label " + text,
        "--address " + text + " job list"}) {
    const Result result = Run(command);
    EXPECT_NE(result.exit_code, 0) << command;
    EXPECT_LT(result.err.size(), 2048u) << command;
    EXPECT_GT(result.err.size(), 10u) << command;
  }
}

// Answers every connection as a server of HTTP/1.1 does.
class HttpServer {
 public:
  HttpServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, name, size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, name, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Answer(); });
  }
  ~HttpServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }

 private:
  void Answer() const {
    for (int client = accept(listener_, nullptr, nullptr); client >= 0; client = accept(listener_, nullptr, nullptr)) {
      const std::string answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
      EXPECT_EQ(write(client, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
      close(client);
    }
  }

  int listener_;
  int port_ = 0;
  std::thread thread_;
};

TEST_F(Ampctl, TheAnswerOfAnHttpServerIsExplained) {
  const HttpServer http;
  const Result result = Run("job list", absl::StrCat("AMPD_ADDRESS=127.0.0.1:", http.port()));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("error: cannot reach the server at 127.0.0.1:", http.port(),
                                                 ": an HTTP server answers there, not ampd; is that the metrics "
                                                 "port?\n")));
}

TEST_F(Ampctl, AJobThatIsRefused_DoesNotEndTheCommandForTheOthers) {
  const std::string id = fake_.jobs.Add("n", v1::Job::QUEUED).id();
  const Result result = Run("job cancel missing " + id);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr(id));
}

TEST_F(Ampctl, AWaitForAPausedJobThatTimesOutSaysSo) {
  const std::string id = fake_.jobs.Add("n", v1::Job::PAUSED).id();
  fake_.jobs.script()->hold_watches = true;
  const Result result = Run("job wait --timeout 100ms " + id);
  fake_.jobs.release.Notify();
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.err, HasSubstr("did not end within 100ms; it is paused. To resume it: ampctl job resume " + id));
}

}  // namespace
}  // namespace ampd::client
