#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace ampd::server {

// INVALID_ARGUMENT, with a violation for each message within `message` that has fields which this server does not know.
// The violation names their numbers and the message's type. A newer or wrong client asked for something that would
// otherwise be ignored silently. Checks repeated messages and maps too. No request of ours has a google.protobuf.Any.
absl::Status CheckFieldsAreKnown(const google::protobuf::Message& message);

// Marks the message as standing for bytes that could not be parsed.
void MarkUnreadable(google::protobuf::Message* message);

// INVALID_ARGUMENT (reason UNREADABLE_MESSAGE) if MarkUnreadable marked the message.
absl::Status CheckReadable(const google::protobuf::Message& message);

}  // namespace ampd::server
