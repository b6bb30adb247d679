#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/trace_context.h"
#include "server/monitoring/call_observer.h"
#include "server/rpc/calls/audit.h"
#include "server/rpc/calls/guard.h"
#include "server/rpc/calls/open_streams.h"
#include "server/rpc/calls/readable_requests.h"
#include "server/rpc/calls/work_pool.h"

namespace ampd::server {

// The size limit for a client's request. Workers may send larger messages.
inline constexpr size_t kMaxClientMessageBytes = 4 << 20;
inline constexpr int kMaxWorkerMessageBytes = 16 << 20;

// Objects that all services share. Must outlive the gRPC server.
struct CallEnvironment {
  const Guard* guard = nullptr;
  CallObserver* observer = nullptr;
  WorkPool* pool = nullptr;
  WorkPool* model_pool = nullptr;     // For work that may read an uploaded model. Other calls should not wait for it.
  WorkPool* estimate_pool = nullptr;  // For computations on a model's graph, which may take seconds.
  OpenStreams* open_streams = nullptr;
  Audit* audit = nullptr;
  const Limits* limits = nullptr;  // Limits of tenants.
};

// Adds a stream that begins to the open streams (OpenStreams::Add).
inline void AddOpenStream(const CallEnvironment& environment, grpc::CallbackServerContext* context,
                          std::string_view method, OpenStream* stream) {
  Tenants tenants = environment.guard->TenantsFor(*context, method).value_or(Tenants());
  environment.open_streams->Add(context, method, std::move(tenants), stream);
}

// Finishes the call with a status. Called exactly once, from any thread.
class FinishCall {
 public:
  FinishCall(std::function<void(const absl::Status&)> finish, const TraceContext& trace)
      : finish_(std::move(finish)), trace_(trace) {}

  void operator()(const absl::Status& status) const { finish_(status); }
  // Returns the server's span for the call.
  const TraceContext& trace() const { return trace_; }

 private:
  std::function<void(const absl::Status&)> finish_;
  TraceContext trace_;
};

// Returns an object that finishes the call and reports its result to the observer and the audit log. `request` must
// live until the call is finished.
template <typename Request>
FinishCall Finisher(const CallEnvironment& environment, grpc::CallbackServerContext* context,
                    grpc::ServerUnaryReactor* reactor, std::string_view method, const Request& request) {
  AuditCaller caller = environment.audit->CallerOf(*context);
  const TraceContext trace = caller.trace;
  auto finish = [observer = environment.observer, guard = environment.guard, audit = environment.audit,
                 caller = std::move(caller), context, reactor, method, &request,
                 start = SystemClock().SinceBoot()](const absl::Status& status) {
    audit->Finished(caller, method, ObjectOf(request), status, IsDryRun(request));
    observer->Finished(method, status.code(), SystemClock().SinceBoot() - start, /*is_stream=*/false, caller.trace);
    if (!status.ok()) {
      observer->Refused(method, status, guard->PeerText(*context), caller.trace);
    }
    reactor->Finish(ToGrpcStatus(status));
  };
  return {std::move(finish), trace};
}

// Returns INVALID_ARGUMENT if the request's bytes cannot be parsed, or have fields that this server does not know.
// Unknown fields of CreateJob are checked later, by the coordinator, because a repeated request of an older client must
// still be answered.
template <typename Request>
absl::Status CheckBytes(const Request& request) {
  absl::Status status = CheckReadable(request);
  if constexpr (!std::is_same_v<Request, v1::CreateJobRequest>) {
    status.Update(CheckFieldsAreKnown(request));
  }
  return status;
}

// Returns INVALID_ARGUMENT if the request has a field `id` that is empty.
template <typename Request>
absl::Status CheckId(const Request& request) {
  if constexpr (requires { request.id().empty(); }) {
    return request.id().empty() ? InvalidFields({{"id", "must be set"}}) : absl::OkStatus();
  } else {
    return absl::OkStatus();
  }
}

// Checks the size, the fields and the id of a client's request.
template <typename Request>
absl::Status CheckRequest(const Request& request) {
  if (request.ByteSizeLong() > kMaxClientMessageBytes) {
    return Error(absl::StatusCode::kResourceExhausted, "REQUEST_TOO_LARGE", "a request may have at most 4 MiB");
  }
  absl::Status status = CheckBytes(request);
  status.Update(CheckId(request));
  return status;
}

// Runs `task` and then `then` on a thread of `pool` (WorkPool::TryPost); one of them must finish the call. If too many
// tasks are waiting in the pool, neither runs, and the call ends with RESOURCE_EXHAUSTED.
inline void PostOrRefuse(WorkPool* pool, const FinishCall& finish, std::function<void()> task,
                         std::function<void()> then = nullptr) {
  if (!pool->TryPost(std::move(task), std::move(then))) {
    finish(WithRetryDelay(
        Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY", "too many calls wait already; call again later"),
        absl::Seconds(1)));
  }
}

// Serves one unary call. Checks access, size, fields and id, and whether the caller may call the method for the job
// that the request names. Then runs `work`, which gets the FinishCall and must not block. Response and request live
// until FinishCall is called.
template <typename Request, typename Work>
grpc::ServerUnaryReactor* ServeUnary(const CallEnvironment& environment, grpc::CallbackServerContext* context,
                                     std::string_view method, const Request& request, Work work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  FinishCall finish = Finisher(environment, context, reactor, method, request);
  absl::Status allowed = environment.guard->Admit(*context, method);
  if (allowed.ok()) {
    allowed = CheckRequest(request);
  }
  if (!allowed.ok()) {
    finish(allowed);
    return reactor;
  }
  if constexpr (requires { request.id(); }) {
    if (!environment.guard->MayUseAllJobs(*context, method)) {
      // The pool reads the job, because reading it may block on the disk.
      PostOrRefuse(environment.pool, finish, [=, &environment, &request, work = std::move(work)] {
        const absl::Status may = environment.guard->CheckJob(*context, method, request.id());
        may.ok() ? work(finish) : finish(may);
      });
      return reactor;
    }
  }
  work(std::move(finish));
  return reactor;
}

// Serves a unary call with the checks of ServeUnary. Runs `work`, which may block, on a thread of `pool`.
template <typename Request, typename Work>
grpc::ServerUnaryReactor* ServeOnPool(WorkPool* pool, const CallEnvironment& environment,
                                      grpc::CallbackServerContext* context, std::string_view method,
                                      const Request& request, Work work) {
  return ServeUnary(environment, context, method, request, [pool, work = std::move(work)](const FinishCall& finish) {
    PostOrRefuse(pool, finish, [finish, work] { work(finish); });
  });
}

// Serves a unary call with the checks of ServeUnary. Runs `work`, which may block and returns the status of the call,
// on environment.pool.
template <typename Request, typename Work>
grpc::ServerUnaryReactor* ServeBlocking(const CallEnvironment& environment, grpc::CallbackServerContext* context,
                                        std::string_view method, const Request& request, Work work) {
  return ServeOnPool(environment.pool, environment, context, method, request,
                     [work = std::move(work)](const FinishCall& finish) { finish(work()); });
}

}  // namespace ampd::server
