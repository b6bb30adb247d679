#pragma once

#include <prometheus/metric_family.h>

#include <string_view>
#include <vector>

#include "base/api/tenants.h"
#include "server/monitoring/fleet_snapshot.h"

namespace ampd::server {

// A metric family that is also shown to scrapers that may see only some of the tenants. All families that are not
// listed in TenantFamilies are hidden from these scrapers, because they are totals of the whole server or describe its
// process.
struct TenantFamily {
  std::string_view name;
  // The subject of the family's series.
  enum class About {
    kServer,   // The server; the series reveal nothing about tenants.
    kTenant,   // One tenant or one of its jobs; the label `tenant` names the tenant.
    kWorkers,  // The workers that serve one of the scraper's tenants.
  };
  About about = About::kTenant;
};
const std::vector<TenantFamily>& TenantFamilies();

// Returns the part of the snapshot that these tenants may see: their own jobs and queues, and the workers that serve at
// least one of these tenants.
FleetSnapshot OfTenants(const FleetSnapshot& snapshot, const Tenants& tenants);

// Keeps only the families in TenantFamilies. In families about tenants, keeps only the series of these tenants.
void KeepOfTenants(const Tenants& tenants, std::vector<prometheus::MetricFamily>* families);

}  // namespace ampd::server
