#include "base/log_json.h"

#include <nlohmann/json.hpp>

namespace ampd {

std::string JsonLine(const std::string& time, const std::string& level, std::string_view message,
                     const LogFields& fields) {
  nlohmann::ordered_json line = {{"time", time}, {"level", level}, {"message", std::string(message)}};
  for (const auto& [name, value] : fields) {
    const std::string key = line.contains(name) ? "field_" + name : name;
    std::visit([&](const auto& shown) { line[key] = shown; }, value);
  }
  // Write the line in ASCII only, because some readers also split lines at Unicode's line separators.
  return line.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ampd
