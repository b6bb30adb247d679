#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

// Typed errors: an absl::Status that carries the google.rpc details which clients see. Every error that leaves its
// component has a reason, on which programs can rely: UPPER_SNAKE, at most 63 characters. The message is for people.
namespace ampd {

// The domain in the ErrorInfo of every error of ampd.
inline constexpr std::string_view kErrorDomain = "ampd";

// One thing wrong with a request. `field` is a path such as "precision.loss_scale.dynamic.initial"; `description` names
// the value and the limit.
struct FieldViolation {
  std::string field;
  std::string description;
  friend bool operator==(const FieldViolation&, const FieldViolation&) = default;
};

using ErrorMetadata = std::map<std::string, std::string>;

// Makes an error with a reason. REQUIRES: code is not OK.
absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message);
absl::Status ErrorWithMetadata(absl::StatusCode code, std::string_view reason, std::string_view message,
                               const ErrorMetadata& metadata);

// Makes an INVALID_ARGUMENT error with reason INVALID_FIELDS that carries every violation. The message holds the first
// violation and the number of further ones. REQUIRES: violations is not empty.
absl::Status InvalidFields(const std::vector<FieldViolation>& violations);

// UnsupportedField puts this before `why` in the description of its violation.
inline constexpr char kNotSupported[] = "is not supported: ";
// Makes an UNIMPLEMENTED error with reason UNSUPPORTED_FIELD: the API has the field, but this server does not support
// it. `why` gives the cause.
absl::Status UnsupportedField(std::string_view field, std::string_view why);
// Makes the error of UnsupportedField for several fields. The message and the metadata "field" name the first field;
// the violations name all. A description that begins with "is " already names the value that is not supported, and
// stays unchanged. Any other description only gives the cause, so kNotSupported is put in front of it. REQUIRES:
// `fields` is not empty.
absl::Status UnsupportedFields(const std::vector<FieldViolation>& fields);

// Returns the status with `prefix` and ": " before its message, and with the same details. OK stays OK.
absl::Status WithPrefix(std::string_view prefix, const absl::Status& status);

// Returns the status with a RetryInfo: the delay after which the client may retry the call.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// The maximum size of an error on the wire. It is sent in HTTP/2 trailers, the message percent-encoded and the details
// in base64. Peers accept trailers of 8 KiB; proxies between them often accept less.
inline constexpr size_t kMaxErrorBytes = 4096;
// Returns the error in a form that has at most kMaxErrorBytes. Texts that are too long are cut and end in "...". If
// there are too many violations, the rest is replaced by one violation with an empty field and the description "and 37
// more". All text in the result is UTF-8.
absl::Status FitToTrailers(const absl::Status& status);

// Each of these functions returns one detail of a status; the result is empty if the status has no such detail.
std::string ReasonOf(const absl::Status& status);
ErrorMetadata MetadataOf(const absl::Status& status);
std::vector<FieldViolation> ViolationsOf(const absl::Status& status);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace ampd
