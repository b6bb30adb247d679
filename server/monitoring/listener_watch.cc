#include "server/monitoring/listener_watch.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::server {

ListenerWatch::ListenerWatch(Options options) : options_(std::move(options)), states_(options_.listeners.size()) {}

absl::Status ListenerWatch::Look() {
  absl::Status result = absl::OkStatus();
  for (size_t i = 0; i < states_.size(); ++i) {
    result.Update(LookAt(options_.listeners[i], &states_[i]));
  }
  Publish();
  return result;
}

absl::Status ListenerWatch::LookAt(const WatchedListener& listener, State* state) {
  // If many clients connect at once, the probe may fail although the listener accepts connections. So other accepted
  // connections count as a success, too.
  const bool has_accepted_others = listener.num_accepts() > state->num_accepts;
  const ProbeResult result = listener.probe();
  state->num_accepts = listener.num_accepts();
  if (result == ProbeResult::kAccepted || result == ProbeResult::kOtherAccepted || has_accepted_others) {
    if (state->is_dead) {
      options_.log(true, absl::StrCat(listener.name, " accepts connections again"));
    }
    const bool gets_probes = state->gets_probes || result == ProbeResult::kAccepted;
    *state = {.num_accepts = state->num_accepts, .gets_probes = gets_probes};
    return absl::OkStatus();
  }
  if (result == ProbeResult::kUnknown || !options_.has_descriptors() || ++state->num_failed < kTries) {
    return absl::OkStatus();
  }
  if (!std::exchange(state->is_dead, true)) {
    options_.log(false, absl::StrCat(listener.name, " accepts no connections, not even those of the server itself"));
  }
  return Restart(listener, state);
}

absl::Status ListenerWatch::Restart(const WatchedListener& listener, State* state) {
  if (!state->gets_probes) {
    return absl::OkStatus();  // Perhaps a firewall blocks probes; a restart would not help.
  }
  state->num_failed = 0;
  const absl::Status restarted =
      state->num_restarts++ < kMaxRestarts
          ? listener.restart()
          : absl::UnavailableError(absl::StrCat("it was started again ", kMaxRestarts, " times in vain"));
  if (restarted.ok()) {
    options_.log(false, absl::StrCat(listener.name, " was started again"));
    return absl::OkStatus();
  }
  return Error(
      absl::StatusCode::kUnavailable, "LISTENER_IS_DEAD",
      absl::StrCat(listener.name, " accepts no connections and cannot be started again (",
                   std::string(restarted.message()), "), so the server ends; everything that it answered is on disk"));
}

void ListenerWatch::Publish() {
  std::string lines;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].is_dead) {
      absl::StrAppend(&lines, options_.listeners[i].name, " accepts no connections\n");
    }
  }
  all_accept_ = lines.empty();
  absl::MutexLock lock(&mutex_);
  what_fails_ = std::move(lines);
}

std::string ListenerWatch::WhatFails() const {
  absl::MutexLock lock(&mutex_);
  return what_fails_;
}

}  // namespace ampd::server
