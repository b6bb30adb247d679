#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ampd {

// The tenant of jobs and files that were created without the name of a tenant.
inline constexpr std::string_view kDefaultTenant = "default";
// This name in place of a tenant's name means all tenants.
inline constexpr std::string_view kAllTenants = "*";

// Returns the tenant that a stored record names. A record that was written before ampd had tenants names none; it
// belongs to the default tenant.
std::string TenantOrDefault(std::string_view recorded);

// Checks that a tenant's name has 1 to 63 lower-case letters, digits and hyphens, and begins with a letter. If not,
// returns INVALID_ARGUMENT with a violation that names `field`.
absl::Status CheckTenantName(std::string_view field, std::string_view name);

// A set of tenants: some tenants by name, or all tenants, including those that are added in future.
class Tenants {
 public:
  Tenants() = default;  // The empty set.
  // A set of these names. If kAllTenants is among them, the set of all tenants.
  explicit Tenants(std::set<std::string> names);
  static Tenants All() { return Tenants({std::string(kAllTenants)}); }

  void Add(const Tenants& more);

  bool all() const { return all_; }
  bool empty() const { return !all_ && names_.empty(); }
  bool Has(std::string_view tenant) const;
  // Whether every tenant of `others` is in this set.
  bool Contain(const Tenants& others) const;
  // The names in alphabetical order; empty if this is the set of all tenants.
  const std::set<std::string>& names() const { return names_; }
  // The set in words, for messages: "nlp and vision", or "all tenants".
  std::string ToString() const;

  bool operator==(const Tenants&) const = default;

 private:
  bool all_ = false;
  std::set<std::string> names_;
};

}  // namespace ampd
