#include "client/terminal/error_advice.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/server_connection.h"
#include "client/render/job_text.h"

namespace ampd::client {
namespace {

// Returns advice on an error that rejects a request because of the job's state.
std::string AdviceInState(const ErrorMetadata& metadata, const Session& session) {
  const auto job = metadata.find("job");
  const auto state = metadata.find("state");
  v1::Job::State at = v1::Job::STATE_UNSPECIFIED;
  if (job == metadata.end() || state == metadata.end() || !v1::Job::State_Parse(state->second, &at)) {
    return "";
  }
  const std::string id = Printable(job->second);
  if (at == v1::Job::SUCCEEDED) {
    return "run it again: " + session.Command("job clone " + id);
  }
  return IsTerminal(at) ? absl::StrCat("resume from its last checkpoint: ", session.Command("job retry " + id),
                                       "   (from the start: ", session.Command("job clone " + id), ")")
                        : absl::StrCat("see its state: ", session.Command("job show " + id),
                                       "   (end it: ", session.Command("job cancel " + id), ")");
}

}  // namespace

std::string AdviceOnError(const absl::Status& status, const ResolvedAddress& address, const Session& session) {
  if (address.address.empty() && ReasonOf(status).empty()) {
    return "";  // The command has no server address, so its own message says more.
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (!ReasonOf(status).empty()) {
        return "wait a while, then repeat the command";  // a server was reached, and reported UNAVAILABLE
      }
      return absl::StrCat(IsLocalAddress(address.address) ? "ampctl dev (starts a server here)" : "check the address",
                          "; the address comes from ", address.origin, "; to use another: --address HOST:PORT");
    case absl::StatusCode::kNotFound: {
      const std::string reason = ReasonOf(status);
      if (reason.empty()) {
        return "";  // the error is about this machine, such as a missing file
      }
      if (const ErrorMetadata metadata = MetadataOf(status); metadata.contains("job")) {
        return absl::StrCat("list what there is: ",
                            session.Command(reason == "CHECKPOINT_NOT_FOUND" ? "checkpoint list " : "job show "),
                            Printable(metadata.at("job")));
      }
      if (reason == "ARTIFACT_NOT_FOUND") {
        return "list what there is: " + session.Command("artifact list");
      }
      if (reason == "CHECKPOINT_NOT_FOUND") {
        return "list what there is: " + session.Command("checkpoint list ID");
      }
      return absl::StrCat("list what there is: ", reason == "WORKER_NOT_FOUND"    ? session.Command("worker list")
                                                  : reason == "TOKEN_NOT_FOUND"   ? session.Command("auth token list")
                                                  : reason == "CONTEXT_NOT_FOUND" ? "ampctl context list"
                                                                                  : session.Command("job list"));
    }
    case absl::StatusCode::kDeadlineExceeded:
      return ReasonOf(status) == kWaitTimedOut ? "" : "check the server: " + session.Command("health");
    case absl::StatusCode::kUnimplemented:
      // An error without a reason is gRPC's own, for a method that the server does not have. All errors of ampd have a
      // reason.
      return ReasonOf(status).empty()
                 ? absl::StrCat("check that it is an ampd-server of ampctl's version   (address from ", address.origin,
                                ")")
                 : "this server does not support it; leave out the field, or use a newer server";
    case absl::StatusCode::kFailedPrecondition:
      return ReasonOf(status) == "WRONG_STATE" ? AdviceInState(MetadataOf(status), session) : "";
    case absl::StatusCode::kResourceExhausted:
      if (ReasonOf(status) == "ARTIFACT_QUOTA") {
        return absl::StrCat("free space: ", session.Command("artifact list"), ", ",
                            session.Command("artifact delete NAME"));
      }
      return "wait a while, then repeat the command";
    default:
      return "";
  }
}

}  // namespace ampd::client
