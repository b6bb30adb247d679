#include "server/monitoring/scrape_page.h"

#include <prometheus/text_serializer.h>

#include <iterator>
#include <utility>

#include "server/monitoring/tenant_view.h"
#include "server/monitoring/worker_targets.h"

namespace ampd::server {
namespace {

void Append(std::vector<prometheus::MetricFamily> more, std::vector<prometheus::MetricFamily>* families) {
  std::move(more.begin(), more.end(), std::back_inserter(*families));
}

}  // namespace

std::string ScrapePage::Render(absl::Time now, const Tenants& tenants) {
  std::vector<prometheus::MetricFamily> families;
  {
    absl::MutexLock lock(&mutex_);
    if (options_.update_metrics) {
      options_.update_metrics();
    }
    const std::shared_ptr<const FleetSnapshot> snapshot = options_.take_snapshot(now);
    collector_.Show(snapshot);
    // Collects the families of jobs and workers first, because that also updates totals in the registry.
    std::vector<prometheus::MetricFamily> fleet =
        tenants.all() ? collector_.Collect() : RenderFleet(OfTenants(*snapshot, tenants));
    families = options_.metrics->registry()->Collect();
    Append(std::move(fleet), &families);
  }
  for (const auto& collectable : options_.more) {
    if (collectable != nullptr) {
      Append(collectable->Collect(), &families);
    }
  }
  if (!tenants.all()) {
    KeepOfTenants(tenants, &families);
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string ScrapePage::RenderTargets(absl::Time now, const Tenants& tenants) {
  absl::MutexLock lock(&mutex_);
  const std::shared_ptr<const FleetSnapshot> snapshot = options_.take_snapshot(now);
  return WorkerTargets(tenants.all() ? snapshot->workers : OfTenants(*snapshot, tenants).workers);
}

void ScrapePage::Look(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  options_.take_snapshot(now);
}

void ScrapePage::Count(const std::function<void()>& change) {
  absl::MutexLock lock(&mutex_);
  change();
}

}  // namespace ampd::server
