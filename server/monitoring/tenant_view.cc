#include "server/monitoring/tenant_view.h"

#include <algorithm>
#include <string>

namespace ampd::server {
namespace {

bool Serves(const v1::Worker& worker, const Tenants& tenants) {
  return worker.tenants().empty() || std::any_of(worker.tenants().begin(), worker.tenants().end(),
                                                 [&](const std::string& tenant) { return tenants.Has(tenant); });
}

bool IsOf(const prometheus::ClientMetric& metric, const Tenants& tenants) {
  return std::any_of(metric.label.begin(), metric.label.end(), [&](const prometheus::ClientMetric::Label& label) {
    return label.name == "tenant" && tenants.Has(label.value);
  });
}

const TenantFamily* Find(const std::string& name) {
  const std::vector<TenantFamily>& families = TenantFamilies();
  const auto found =
      std::find_if(families.begin(), families.end(), [&](const TenantFamily& family) { return family.name == name; });
  return found == families.end() ? nullptr : &*found;
}

}  // namespace

const std::vector<TenantFamily>& TenantFamilies() {
  using About = TenantFamily::About;
  static const auto* const kFamilies = new std::vector<TenantFamily>{
      {"ampd_build_info", About::kServer},
      {"ampd_job_allocator_retries_total", About::kTenant},
      {"ampd_job_checkpoint_bytes", About::kTenant},
      {"ampd_job_checkpoint_seconds", About::kTenant},
      {"ampd_job_device_utilization_ratio", About::kTenant},
      {"ampd_job_energy_joules_total", About::kTenant},
      {"ampd_job_gpu_info", About::kTenant},
      {"ampd_job_grad_norm", About::kTenant},
      {"ampd_job_info", About::kTenant},
      {"ampd_job_last_checkpoint_timestamp_seconds", About::kTenant},
      {"ampd_job_last_overflow_timestamp_seconds", About::kTenant},
      {"ampd_job_last_step_timestamp_seconds", About::kTenant},
      {"ampd_job_learning_rate", About::kTenant},
      {"ampd_job_loss", About::kTenant},
      {"ampd_job_loss_scale", About::kTenant},
      {"ampd_job_loss_scale_changes_total", About::kTenant},
      {"ampd_job_memory_allocated_bytes", About::kTenant},
      {"ampd_job_memory_peak_allocated_bytes", About::kTenant},
      {"ampd_job_memory_reserved_bytes", About::kTenant},
      {"ampd_job_mfu_ratio", About::kTenant},
      {"ampd_job_model_flops_per_second", About::kTenant},
      {"ampd_job_phase_loss", About::kTenant},
      {"ampd_job_phase_skipped_steps_total", About::kTenant},
      {"ampd_job_power_watts", About::kTenant},
      {"ampd_job_samples_total", About::kTenant},
      {"ampd_job_skipped_steps_total", About::kTenant},
      {"ampd_job_start_timestamp_seconds", About::kTenant},
      {"ampd_job_state", About::kTenant},
      {"ampd_job_step_seconds_total", About::kTenant},
      {"ampd_job_steps_planned", About::kTenant},
      {"ampd_job_steps_total", About::kTenant},
      {"ampd_job_tokens_total", About::kTenant},
      {"ampd_jobs", About::kTenant},
      {"ampd_queue_oldest_job_timestamp_seconds", About::kTenant},
      {"ampd_worker_last_heartbeat_timestamp_seconds", About::kWorkers},
      {"ampd_workers", About::kWorkers},
  };
  return *kFamilies;
}

FleetSnapshot OfTenants(const FleetSnapshot& snapshot, const Tenants& tenants) {
  FleetSnapshot view = snapshot;
  const auto is_foreign = [&](const v1::Job& job) { return !tenants.Has(TenantOrDefault(job.tenant())); };
  std::erase_if(view.jobs, [&](const auto& row) { return is_foreign(*row.job); });
  std::erase_if(view.seriesless, [&](const auto& job) { return is_foreign(*job); });
  std::erase_if(view.live_jobs, [&](const auto& entry) { return !tenants.Has(entry.first.first.tenant); });
  std::erase_if(view.oldest_queued_unix_seconds, [&](const auto& entry) { return !tenants.Has(entry.first.tenant); });
  std::erase_if(view.workers, [&](const v1::Worker& worker) { return !Serves(worker, tenants); });
  view.num_suppressed = static_cast<int64_t>(view.seriesless.size());
  return view;
}

void KeepOfTenants(const Tenants& tenants, std::vector<prometheus::MetricFamily>* families) {
  for (prometheus::MetricFamily& family : *families) {
    const TenantFamily* const found = Find(family.name);
    std::erase_if(family.metric, [&](const prometheus::ClientMetric& metric) {
      return found == nullptr || (found->about == TenantFamily::About::kTenant && !IsOf(metric, tenants));
    });
  }
  std::erase_if(*families, [](const prometheus::MetricFamily& family) { return family.metric.empty(); });
}

}  // namespace ampd::server
