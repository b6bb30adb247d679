#pragma once

#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/journal.pb.h"
#include "server/ledger/ledger.h"

namespace ampd::server {

using Updates = std::vector<internal::Update>;

// An update without content that was asked for at `now`.
internal::Update NewUpdate(absl::Time now);

// Commits updates whose result nobody waits for. If one is refused, the next tick or report makes it again.
void CommitAll(Ledger* ledger, Updates updates);

}  // namespace ampd::server
