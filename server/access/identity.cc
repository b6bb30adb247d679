#include "server/access/identity.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ampd::server {
namespace {

constexpr std::pair<Role, std::string_view> kRoleNames[] = {
    {Role::kViewer, "viewer"}, {Role::kSubmitter, "submitter"}, {Role::kOperator, "operator"},
    {Role::kAdmin, "admin"},   {Role::kAgent, "agent"},         {Role::kScraper, "scraper"}};

}  // namespace

std::string_view RoleName(Role role) {
  const auto* const found =
      std::find_if(std::begin(kRoleNames), std::end(kRoleNames), [&](const auto& one) { return one.first == role; });
  return found->second;
}

std::optional<Role> ParseRole(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kRoleNames), std::end(kRoleNames), [&](const auto& one) { return one.second == name; });
  return found == std::end(kRoleNames) ? std::nullopt : std::optional(found->first);
}

std::string RoleNames(const std::set<Role>& roles, std::string_view last_joint) {
  std::string text;
  for (auto role = roles.begin(); role != roles.end(); ++role) {
    const bool is_last = std::next(role) == roles.end();
    text += role == roles.begin() ? "" : is_last ? std::string(last_joint) : ", ";
    text += RoleName(*role);
  }
  return text;
}

std::string RoleNames() {
  std::set<Role> all;
  for (const auto& [role, name] : kRoleNames) {
    all.insert(role);
  }
  return RoleNames(all, " or ");
}

Tenants UsualTenants(Role role) {
  const bool is_member = role == Role::kViewer || role == Role::kSubmitter;
  return is_member ? Tenants({std::string(kDefaultTenant)}) : Tenants::All();
}

Identity Identity::InAllTenants(std::string name, Role role) {
  return {.name = std::move(name), .roles = {{role, Tenants::All()}}};
}

bool Identity::has(Right right) const { return right == Right::kNone || !TenantsWith(right).empty(); }

Tenants Identity::TenantsWith(Right right) const {
  Tenants tenants;
  for (const auto& [role, where] : roles) {
    if (Has(role, right)) {
      tenants.Add(where);
    }
  }
  return tenants;
}

std::set<Role> Identity::role_names() const {
  std::set<Role> names;
  for (const auto& [role, where] : roles) {
    names.insert(role);
  }
  return names;
}

bool Has(Role role, Right right) {
  if (right == Right::kNone || role == Role::kAdmin) {
    return true;
  }
  switch (role) {
    case Role::kViewer:
      return right == Right::kRead;
    case Role::kSubmitter:
      return right == Right::kRead || right == Right::kSubmit;
    case Role::kOperator:
      return right == Right::kRead || right == Right::kSubmit || right == Right::kOperate || right == Right::kScrape;
    case Role::kAgent:
      return right == Right::kWork;
    case Role::kScraper:
      return right == Right::kScrape;
    case Role::kAdmin:
      return true;
  }
  return false;
}

}  // namespace ampd::server
