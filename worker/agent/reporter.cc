#include "worker/agent/reporter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/api/worker_protocol.h"
#include "worker/agent/attempts/reconcile.h"

namespace ampd::agent {
namespace {

constexpr int kIncarnationCharacters = 16;
constexpr int kReportsPerLease = 5;

}  // namespace

Reporter::Reporter(Options options)
    : options_(std::move(options)), incarnation_(RandomId(*options_.random, kIncarnationCharacters)) {}

void Reporter::OnStreamOpened() {
  is_attached_ = true;
  is_accepted_ = false;
  ReportSoon();
}

void Reporter::OnReplaced() {
  if (!std::exchange(yields_, true)) {
    options_.log(absl::StrCat("another agent took over as worker ", options_.name,
                              " with the id of this one's state folder ", options_.state_folder,
                              ", so the folder was copied. Start the copy with another --name and an empty "
                              "--state-dir. This agent waits until the other one is gone; its jobs are suspended"));
  }
  incarnation_ = RandomId(*options_.random, kIncarnationCharacters);
  sequence_ = 0;
}

bool Reporter::OnDirective(const v1::WorkerDirective& directive) {
  acknowledged_ = directive.acknowledged_report();
  if (const absl::Duration lease = ToDuration(directive.lease()); lease > absl::ZeroDuration()) {
    interval_ = lease / kReportsPerLease;
  }
  if (std::exchange(is_accepted_, true)) {
    return false;
  }
  yields_ = false;
  return true;
}

absl::Duration Reporter::NextReport(absl::Duration now) const {
  if (!is_attached_) {
    return absl::InfiniteDuration();
  }
  return is_due_ ? now : std::max(now, next_);
}

void Reporter::Send(v1::WorkerReport content, absl::Duration now) {
  is_due_ = false;
  next_ = now + interval_;
  content.set_worker(options_.name);
  content.set_incarnation(incarnation_);
  *content.mutable_agent() = options_.identity;
  content.set_sequence(++sequence_);
  content.set_yields(yields_);
  if (content.stopping() && first_stopping_ == 0) {
    first_stopping_ = sequence_;
  }
  content.set_version(options_.version);
  content.set_newest_protocol(kNewestWorkerProtocol);
  content.set_oldest_protocol(kOldestWorkerProtocol);
  content.set_metrics_address(options_.metrics_address);
  content.set_checkpoint_root_shared(options_.checkpoint_root_shared);
  content.mutable_tenants()->Assign(options_.tenants.begin(), options_.tenants.end());
  for (const auto& [name, root] : options_.data_roots) {
    content.add_data_roots(name);
    if (!root.tenants.all()) {
      v1::DataRootTenants& limit = *content.add_data_root_tenants();
      limit.set_data_root(name);
      limit.mutable_tenants()->Assign(root.tenants.names().begin(), root.tenants.names().end());
    }
  }
  // Set the send time last. The lease counts from this time, so it must be as late as possible, but before the report
  // is sent.
  last_send_boottime_nanos_ = absl::ToInt64Nanoseconds(options_.clock->SinceBoot());
  content.set_send_boottime_nanos(last_send_boottime_nanos_);
  options_.link->SendReport(content);
}

}  // namespace ampd::agent
