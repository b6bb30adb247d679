#include "base/api/tenants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/text.h"

namespace ampd {
namespace {

constexpr size_t kMaxNameBytes = 63;

bool IsTenantName(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && name.size() <= kMaxNameBytes && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

}  // namespace

std::string TenantOrDefault(std::string_view recorded) {
  return std::string(recorded.empty() ? kDefaultTenant : recorded);
}

absl::Status CheckTenantName(std::string_view field, std::string_view name) {
  return IsTenantName(name)
             ? absl::OkStatus()
             : InvalidFields({{std::string(field),
                               absl::StrCat("is \"", Shortened(std::string(name), kMaxNameBytes),
                                            "\"; the name of a tenant has 1 to ", kMaxNameBytes,
                                            " lower-case letters, digits and hyphens, and begins with a letter")}});
}

Tenants::Tenants(std::set<std::string> names) : all_(names.contains(std::string(kAllTenants))) {
  if (!all_) {
    names_ = std::move(names);
  }
}

void Tenants::Add(const Tenants& more) {
  all_ = all_ || more.all_;
  names_.insert(more.names_.begin(), more.names_.end());
  if (all_) {
    names_.clear();
  }
}

bool Tenants::Has(std::string_view tenant) const { return all_ || names_.contains(std::string(tenant)); }

bool Tenants::Contain(const Tenants& others) const {
  return all_ ||
         (!others.all_ && std::includes(names_.begin(), names_.end(), others.names_.begin(), others.names_.end()));
}

std::string Tenants::ToString() const {
  if (all_) {
    return "all tenants";
  }
  std::string text;
  for (auto name = names_.begin(); name != names_.end(); ++name) {
    text += name == names_.begin() ? "" : std::next(name) == names_.end() ? " and " : ", ";
    text += *name;
  }
  return text.empty() ? "no tenant" : text;
}

}  // namespace ampd
