// Operations on workers by operators.
#include <utility>

#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"

namespace ampd::server {

void Coordinator::CommitDrained(const std::string& worker, bool drained, WorkerDone done) {
  internal::Update update = NewUpdate();
  update.mutable_set_drained()->set_worker(worker);
  update.mutable_set_drained()->set_drained(drained);
  options_.ledger->Commit(std::move(update),
                          [this, worker, done = std::move(done)](const absl::StatusOr<Applied>& applied) {
                            if (!applied.ok()) {
                              return done(applied.status());
                            }
                            v1::Worker view;
                            {
                              absl::MutexLock lock(&mutex_);
                              options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                view = ViewOf(state, *state.FindWorker(worker));
                              });
                            }
                            done(std::move(view));
                          });
}

void Coordinator::DrainWorker(const v1::DrainWorkerRequest& request, WorkerDone done) {
  CommitDrained(request.name(), true, std::move(done));
}

void Coordinator::UndrainWorker(const v1::UndrainWorkerRequest& request, WorkerDone done) {
  CommitDrained(request.name(), false, std::move(done));
}

void Coordinator::RemoveWorker(const v1::RemoveWorkerRequest& request, Done done) {
  internal::Update update = NewUpdate();
  update.mutable_remove_worker()->set_worker(request.name());
  options_.ledger->Commit(std::move(update),
                          [done = std::move(done)](const absl::StatusOr<Applied>& applied) { done(applied.status()); });
}

}  // namespace ampd::server
