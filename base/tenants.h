#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ampd {

// The tenant of jobs and files that were made without naming one.
inline constexpr std::string_view kDefaultTenant = "default";
// Stands for all tenants where a tenant is named.
inline constexpr std::string_view kAllTenants = "*";

// The tenant that a record names. Records of servers without tenants name none; they belong to the default tenant.
std::string TenantOrDefault(std::string_view recorded);

// INVALID_ARGUMENT naming `field` unless the name has 1 to 63 lower-case letters, digits and hyphens, of which the
// first is a letter.
absl::Status CheckTenantName(std::string_view field, std::string_view name);

// Some tenants, or all that there are and will be.
class Tenants {
 public:
  Tenants() = default;  // None.
  // These names; kAllTenants as one of them means all.
  explicit Tenants(std::set<std::string> names);
  static Tenants All() { return Tenants({std::string(kAllTenants)}); }

  void Add(const Tenants& more);

  bool all() const { return all_; }
  bool empty() const { return !all_ && names_.empty(); }
  bool Has(std::string_view tenant) const;
  // Whether each tenant of `others` is one of these.
  bool Contain(const Tenants& others) const;
  // In alphabetical order; empty if these are all tenants.
  const std::set<std::string>& names() const { return names_; }
  // "nlp and vision", or "all tenants".
  std::string ToString() const;

  bool operator==(const Tenants&) const = default;

 private:
  bool all_ = false;
  std::set<std::string> names_;
};

}  // namespace ampd
