#include "base/formats/json.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/formats/safetensors_json.h"

namespace ampd {

std::string WhereJsonHasZero(std::string_view text) {
  const size_t zero = text.find('\0');
  return zero == std::string_view::npos
             ? ""
             : absl::StrCat("no JSON from byte ", zero + 1, " on: that byte has the value 0");
}

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text) {
  if (const std::string where = WhereJsonHasZero(text); !where.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("is ", where));
  }
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // The keys of each open object, outermost first.
  std::string twice;
  bool is_twice = false;
  const auto check = [&](int /*depth*/, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) {
      keys.emplace_back();
    } else if (event == Event::object_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second && !is_twice) {
      is_twice = true;
      twice = parsed.get<std::string>();
    }
    return true;
  };
  nlohmann::json json = nlohmann::json::parse(text, check, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError("is no JSON");
  }
  return is_twice ? absl::AlreadyExistsError(absl::StrCat("has the key ", Quoted(twice), " twice in an object"))
                  : absl::StatusOr<nlohmann::json>(std::move(json));
}

}  // namespace ampd
