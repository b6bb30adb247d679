// The functions of WorkerSessions for the operators of the service.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/api/page_budget.h"
#include "base/api/page_size.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/coordinator/answer_limits.h"
#include "server/coordinator/updates.h"
#include "server/coordinator/worker_sessions.h"
#include "server/coordinator/worker_view.h"

namespace ampd::server {
namespace {

const WorkerSession* FindSession(const std::map<std::string, WorkerSession>& sessions, const std::string& worker) {
  const auto session = sessions.find(worker);
  return session == sessions.end() ? nullptr : &session->second;
}

Tenants TenantsServedBy(const internal::WorkerRecord& record) {
  const auto& tenants = record.worker().tenants();
  return tenants.empty() ? Tenants::All() : Tenants(std::set<std::string>(tenants.begin(), tenants.end()));
}

// Whether callers of these tenants may know that the worker exists.
bool IsVisible(const internal::WorkerRecord& record, const Tenants& visible) {
  const auto& tenants = record.worker().tenants();
  return tenants.empty() ||
         std::any_of(tenants.begin(), tenants.end(), [&](const std::string& tenant) { return visible.Has(tenant); });
}

}  // namespace

absl::StatusOr<Tenants> WorkerSessions::TenantsOf(const std::string& worker) const {
  const WorkerRecordPtr record =
      options_.ledger->Read([&](const ClusterState& state) { return state.FindWorker(worker); });
  if (record == nullptr) {
    return Error(absl::StatusCode::kNotFound, "WORKER_NOT_FOUND", absl::StrCat("there is no worker ", worker));
  }
  return TenantsServedBy(*record);
}

absl::Duration WorkerSessions::RivalsSince() const {
  return options_.clock->SinceBoot() - options_.lease - options_.lease_margin;
}

absl::StatusOr<v1::ListWorkersResponse> WorkerSessions::ListWorkers(const v1::ListWorkersRequest& request,
                                                                    const Tenants& visible) const {
  AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size(), kDefaultPage, kMaxPage));
  absl::MutexLock lock(&mutex_);
  return options_.ledger->Read([&](const ClusterState& state) {
    mutex_.AssertHeld();
    v1::ListWorkersResponse response;
    PageBudget budget;
    for (auto worker = state.workers().upper_bound(request.page_token()); worker != state.workers().end(); ++worker) {
      if (!IsVisible(*worker->second, visible)) {
        continue;
      }
      v1::Worker view = ViewOf(state, *worker->second, FindSession(sessions_, worker->first), RivalsSince(), visible);
      if (response.workers_size() == page_size || !budget.Take(view.ByteSizeLong())) {
        response.set_next_page_token(response.workers().rbegin()->name());
        break;
      }
      *response.add_workers() = std::move(view);
    }
    if (request.page_token().empty()) {
      response.set_total_size(std::count_if(state.workers().begin(), state.workers().end(),
                                            [&](const auto& worker) { return IsVisible(*worker.second, visible); }));
    }
    return response;
  });
}

absl::StatusOr<v1::Worker> WorkerSessions::FindView(const std::string& worker) const {
  absl::MutexLock lock(&mutex_);
  const WorkerSession* const session = FindSession(sessions_, worker);
  return options_.ledger->Read([&](const ClusterState& state) -> absl::StatusOr<v1::Worker> {
    const WorkerRecordPtr record = state.FindWorker(worker);
    if (record == nullptr) {
      return Error(absl::StatusCode::kNotFound, "WORKER_NOT_FOUND", absl::StrCat("there is no worker ", worker));
    }
    return ViewOf(state, *record, session, RivalsSince());
  });
}

void WorkerSessions::CommitDrained(const std::string& worker, bool drained, WorkerDone done) {
  internal::Update update = NewUpdate(options_.clock->Now());
  update.mutable_set_drained()->set_worker(worker);
  update.mutable_set_drained()->set_drained(drained);
  options_.ledger->Commit(std::move(update),
                          [this, worker, done = std::move(done)](const absl::StatusOr<Applied>& applied) {
                            if (!applied.ok()) {
                              return done(applied.status());
                            }
                            done(FindView(worker));
                          });
}

void WorkerSessions::DrainWorker(const v1::DrainWorkerRequest& request, WorkerDone done) {
  CommitDrained(request.name(), true, std::move(done));
}

void WorkerSessions::UndrainWorker(const v1::UndrainWorkerRequest& request, WorkerDone done) {
  CommitDrained(request.name(), false, std::move(done));
}

void WorkerSessions::RemoveWorker(const v1::RemoveWorkerRequest& request, Done done) {
  internal::Update update = NewUpdate(options_.clock->Now());
  update.mutable_remove_worker()->set_worker(request.name());
  options_.ledger->Commit(std::move(update),
                          [done = std::move(done)](const absl::StatusOr<Applied>& applied) { done(applied.status()); });
}

}  // namespace ampd::server
