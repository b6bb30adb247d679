#include "server/coordinator/worker_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/version.h"

namespace ampd::server {
namespace {

void AddReport(const WorkerSession& session, v1::Worker* view) {
  view->mutable_last_report_time()->set_seconds(absl::ToUnixSeconds(session.report_time));
  for (v1::Device& device : *view->mutable_devices()) {
    for (const v1::Device& reported : session.report.devices()) {
      if (reported.id() == device.id()) {
        device.set_memory_free_bytes(reported.memory_free_bytes());
      }
    }
  }
}

bool IsBusy(const ClusterState& state, const v1::Worker& worker) {
  return std::all_of(worker.devices().begin(), worker.devices().end(),
                     [&](const v1::Device& device) { return state.DeviceIsHeld(worker.name(), device.id()); });
}

// Returns a sentence if the versions of the worker and of this server may not work together, otherwise an empty string.
std::string VersionTrouble(const v1::Worker& worker) {
  return worker.version().empty() || WorkTogether(worker.version(), Version())
             ? ""
             : absl::StrCat("it has ampd ", worker.version(), ", more than one minor version from the server's ",
                            Version(), "; upgrade the worker or the server, whichever is older");
}

}  // namespace

v1::Worker ViewOf(const ClusterState& state, const internal::WorkerRecord& record, const WorkerSession* session,
                  absl::Duration rivals_since, const Tenants& visible) {
  v1::Worker view = record.worker();
  for (const JobRecordPtr& job : state.JobsOn(view.name())) {
    if (visible.Has(job->job().tenant())) {
      view.add_job_ids(job->job().id());
    }
  }
  view.set_message(VersionTrouble(view));
  bool is_stopping = false;
  if (session != nullptr) {
    AddReport(*session, &view);
    is_stopping = session->report.stopping();
    if (is_stopping && !record.lost()) {
      view.set_message("its agent is stopping");
    }
    if (!session->rival.empty() && session->rival_since_boot >= rivals_since) {
      view.set_message(session->rival);
    }
  }
  view.set_state(record.lost()                              ? v1::Worker::LOST
                 : record.worker().drained() || is_stopping ? v1::Worker::DRAINING
                 : IsBusy(state, record.worker())           ? v1::Worker::BUSY
                                                            : v1::Worker::READY);
  return view;
}

}  // namespace ampd::server
