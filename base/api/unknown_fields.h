#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace ampd::server {

// Checks that this server knows every field that is set in `message`, so that it does not silently ignore a part of a
// request from a newer or faulty client. Returns INVALID_ARGUMENT with a violation for `message` and each message
// within it that has unknown fields; the violation names the fields' numbers and the message's type. Also checks
// messages in repeated fields and maps, but not messages packed in a google.protobuf.Any, which no request has.
absl::Status CheckFieldsAreKnown(const google::protobuf::Message& message);

// Clears the message and marks it as the result of bytes that could not be parsed.
void MarkUnreadable(google::protobuf::Message* message);

// Returns INVALID_ARGUMENT (reason UNREADABLE_MESSAGE) if MarkUnreadable marked the message, otherwise OK.
absl::Status CheckReadable(const google::protobuf::Message& message);

}  // namespace ampd::server
