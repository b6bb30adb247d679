#pragma once

#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/journal.pb.h"
#include "server/ledger/ledger.h"

namespace ampd::server {

using Updates = std::vector<internal::Update>;

// Returns an update with the time `now`. The caller fills in its content.
internal::Update NewUpdate(absl::Time now);

// Commits updates whose result nobody waits for. If the state refuses an update, the next tick or report creates it
// again.
void CommitAll(Ledger* ledger, Updates updates);

}  // namespace ampd::server
