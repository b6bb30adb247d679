#pragma once

#include <prometheus/metric_family.h>

#include <string_view>
#include <vector>

#include "base/tenants.h"
#include "server/monitoring/fleet_snapshot.h"

namespace ampd::server {

// A family of metrics that a scraper of some tenants sees. It sees no other: those are totals of the whole server, or
// describe its process.
struct TenantFamily {
  std::string_view name;
  // What its series are about.
  enum class About {
    kServer,   // The server, without anything that a tenant does.
    kTenant,   // One tenant or one job, which the label `tenant` tells.
    kWorkers,  // The workers that serve one of the scraper's tenants.
  };
  About about = About::kTenant;
};
const std::vector<TenantFamily>& TenantFamilies();

// What these tenants see of the snapshot: their own jobs and queues, and the workers that serve one of them.
FleetSnapshot OfTenants(const FleetSnapshot& snapshot, const Tenants& tenants);

// Keeps the families in TenantFamilies and, of those about tenants, the series of these tenants.
void KeepOfTenants(const Tenants& tenants, std::vector<prometheus::MetricFamily>* families);

}  // namespace ampd::server
