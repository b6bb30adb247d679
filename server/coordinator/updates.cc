#include "server/coordinator/updates.h"

#include <utility>

namespace ampd::server {

internal::Update NewUpdate(absl::Time now) {
  internal::Update update;
  update.set_time_unix_micros(absl::ToUnixMicros(now));
  return update;
}

void CommitAll(Ledger* ledger, Updates updates) {
  for (internal::Update& update : updates) {
    ledger->Commit(std::move(update), [](const absl::StatusOr<Applied>&) {});
  }
}

}  // namespace ampd::server
