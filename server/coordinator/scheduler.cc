#include "server/coordinator/scheduler.h"

#include <utility>
#include <vector>

#include "server/coordinator/updates.h"
#include "server/state/placement.h"
#include "server/state/pinned_loss_scale.h"

namespace ampd::server {
namespace {

constexpr int kTokenCharacters = 26;  // 130 random bits.

void FillAssignment(const Placement& placement, std::string token, internal::AssignAttempt* assign) {
  assign->set_job(placement.job->job().id());
  assign->set_attempt(placement.job->job().num_attempts() + 1);
  assign->set_token(std::move(token));
  assign->set_worker(placement.worker);
  assign->add_devices(placement.device);
  assign->set_precision(placement.precision.preset);
  assign->set_precision_reason(placement.precision.reason);
  assign->set_emulated(placement.precision.emulated);
  *assign->mutable_loss_scale() = LossScaleFor(*placement.job, placement.precision.preset);
  if (placement.start_from.has_value()) {
    *assign->mutable_start_from() = *placement.start_from;
  }
}

}  // namespace

void Scheduler::PlaceWaiting() {
  const absl::Time now = options_.clock->Now();
  const absl::Duration start = options_.clock->SinceBoot();
  const LiveWorkers live = options_.sessions->Live();
  size_t num_waiting = 0;
  const std::vector<Placement> placements = options_.ledger->Read([&](const ClusterState& state) {
    num_waiting = state.queue().size();
    return PlaceJobs(state, live, absl::ToUnixMicros(now));
  });
  options_.listener->OnPlacement(num_waiting, placements.size(), options_.clock->SinceBoot() - start);
  Updates updates;
  for (const Placement& placement : placements) {
    FillAssignment(placement, RandomId(*options_.random, kTokenCharacters),
                   updates.emplace_back(NewUpdate(options_.clock->Now())).mutable_assign_attempt());
  }
  CommitAll(options_.ledger, std::move(updates));
}

}  // namespace ampd::server
