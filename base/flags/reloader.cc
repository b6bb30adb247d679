#include "base/flags/reloader.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "base/log.h"

namespace ampd {
namespace {

constexpr char kLogLevel[] = "log-level";

void LogChange(const SettingChange& change) {
  Log(change.is_applied ? spdlog::level::info : spdlog::level::warn, "configuration changed",
      {{"key", change.key},
       {"from", change.from},
       {"to", change.to},
       {"effect", change.is_applied ? "applied" : "needs a restart"}});
}

}  // namespace

void Reloader::Reload() {
  if (options_.config_file.empty()) {
    Log(spdlog::level::info, "SIGHUP is ignored: there is no configuration to reload, because --config was not given");
    return;
  }
  const absl::StatusOr<ReadConfig> next = options_.read();
  if (next.ok()) {
    Apply(*next);
  } else {
    Log(spdlog::level::err, "configuration not reloaded, because it is not valid; the one before stays",
        {{"detail", std::string(next.status().message())}});
  }
}

void Reloader::Apply(const ReadConfig& next) {
  std::set<std::string> reloadable = next.reloadable;
  reloadable.insert(kLogLevel);
  const std::vector<SettingChange> changes = running_.Reload(next.settings, reloadable);
  if (next.apply) {
    next.apply();
  }
  int64_t num_applied = 0;
  for (const SettingChange& change : changes) {
    LogChange(change);
    num_applied += change.is_applied ? 1 : 0;
  }
  Log(spdlog::level::info, "configuration reloaded",
      {{"file", options_.config_file},
       {"applied", num_applied},
       {"needs_restart", static_cast<int64_t>(changes.size()) - num_applied}});
  SetLogLevel(spdlog::level::from_str(next.log_level));  // Last, so that the old level applies to the lines above.
}

}  // namespace ampd
