#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace ampd::server {

// INVALID_ARGUMENT with a violation for each message within `message` that has fields which this server does not know,
// naming their numbers and the message's type: a client that is newer, or wrong, asked for something that would be left
// out without a word. Looks into repeated messages and maps too. No request of ours has a google.protobuf.Any.
absl::Status CheckFieldsAreKnown(const google::protobuf::Message& message);

// Makes the message stand for bytes that could not be parsed as one.
void MarkUnreadable(google::protobuf::Message* message);

// INVALID_ARGUMENT (reason UNREADABLE_MESSAGE) when the message stands for such bytes.
absl::Status CheckReadable(const google::protobuf::Message& message);

}  // namespace ampd::server
