#include "base/error.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "google/rpc/error_details.pb.h"

namespace ampd {
namespace {

constexpr std::string_view kErrorInfoUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr std::string_view kBadRequestUrl = "type.googleapis.com/google.rpc.BadRequest";
constexpr std::string_view kRetryInfoUrl = "type.googleapis.com/google.rpc.RetryInfo";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

template <typename Message>
void Attach(absl::Status& status, std::string_view url, const Message& message) {
  status.SetPayload(View(url), absl::Cord(message.SerializeAsString()));
}

template <typename Message>
std::optional<Message> Detail(const absl::Status& status, std::string_view url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(View(url));
  Message message;
  if (!payload || !message.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  return message;
}

void AttachViolations(const std::vector<FieldViolation>& violations, absl::Status* status) {
  google::rpc::BadRequest request;
  for (const FieldViolation& violation : violations) {
    auto* entry = request.add_field_violations();
    entry->set_field(ValidUtf8(violation.field));
    entry->set_description(ValidUtf8(violation.description));
  }
  Attach(*status, kBadRequestUrl, request);
}

// The most bytes that the message of a truncated error may have when it is percent-encoded. With this and the limits
// below, enough of kMaxErrorBytes is left for the violations.
constexpr size_t kMaxEncodedMessageBytes = 900;
constexpr size_t kMaxDetailBytes = 2300;  // About 3,070 bytes in base64.
constexpr size_t kMaxMetadataBytes = 700;
constexpr size_t kMaxFieldBytes = 160;
constexpr size_t kMaxDescriptionBytes = 400;
constexpr size_t kMoreBytes = 48;  // Bytes for the violation "and 37 more".

// The size of `text` in bytes when it is percent-encoded in the HTTP/2 trailer grpc-message.
size_t PercentEncodedBytes(std::string_view text) {
  size_t num_bytes = 0;
  for (const char c : text) {
    num_bytes += c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3;
  }
  return num_bytes;
}

std::string CutMessage(std::string_view text) {
  std::string message = Shortened(ValidUtf8(text), kMaxEncodedMessageBytes);
  while (PercentEncodedBytes(message) > kMaxEncodedMessageBytes) {
    message = Shortened(message, message.size() * 9 / 10);
  }
  return message;
}

// The size in bytes of the error's details, a serialized google.rpc.Status. This Status repeats the error's message.
size_t DetailBytes(const absl::Status& status) {
  constexpr size_t kTagsAndLengths = 12;
  size_t num_bytes = kTagsAndLengths + status.message().size();
  status.ForEachPayload([&num_bytes](absl::string_view url, const absl::Cord& payload) {
    num_bytes += kTagsAndLengths + url.size() + payload.size();
  });
  return num_bytes;
}

bool FitsInTrailers(const absl::Status& status) {
  const std::string_view message(status.message().data(), status.message().size());
  return PercentEncodedBytes(message) <= kMaxEncodedMessageBytes && DetailBytes(status) <= kMaxDetailBytes &&
         ValidUtf8(message) == message;
}

ErrorMetadata CutMetadata(const ErrorMetadata& metadata) {
  ErrorMetadata cut;
  size_t room = kMaxMetadataBytes;
  for (const auto& [key, value] : metadata) {
    constexpr size_t kLeast = 16;
    if (key.size() + kLeast > room) {
      break;
    }
    const std::string shown = Shortened(ValidUtf8(value), std::max(kLeast, (room - key.size()) / 2));
    room -= std::min(room, key.size() + shown.size() + 8);
    cut[key] = shown;
  }
  return cut;
}

// Keeps the first violations that fit into `room` bytes, with truncated texts. If some are left out, a last violation
// states their number.
std::vector<FieldViolation> CutViolations(const std::vector<FieldViolation>& violations, size_t room) {
  std::vector<FieldViolation> cut;
  for (const FieldViolation& violation : violations) {
    FieldViolation shown = {Shortened(ValidUtf8(violation.field), kMaxFieldBytes),
                            Shortened(ValidUtf8(violation.description), kMaxDescriptionBytes)};
    const size_t num_bytes = shown.field.size() + shown.description.size() + 12;
    const bool is_last = cut.size() + 1 == violations.size();
    if (num_bytes + (is_last ? 0 : kMoreBytes) > room) {
      cut.push_back({"", absl::StrCat("and ", violations.size() - cut.size(), " more")});
      return cut;
    }
    room -= num_bytes;
    cut.push_back(std::move(shown));
  }
  return cut;
}

}  // namespace

absl::Status FitToTrailers(const absl::Status& status) {
  if (status.ok() || FitsInTrailers(status)) {
    return status;
  }
  absl::Status cut(status.code(), View(CutMessage({status.message().data(), status.message().size()})));
  if (const std::string reason = ReasonOf(status); !reason.empty()) {
    cut = ErrorWithMetadata(cut.code(), reason, {cut.message().data(), cut.message().size()},
                            CutMetadata(MetadataOf(status)));
  }
  if (const auto delay = RetryDelayOf(status)) {
    cut = WithRetryDelay(std::move(cut), *delay);
  }
  if (const std::vector<FieldViolation> violations = ViolationsOf(status); !violations.empty()) {
    const size_t used = DetailBytes(cut) + kBadRequestUrl.size() + 12;
    AttachViolations(CutViolations(violations, kMaxDetailBytes - std::min(used, kMaxDetailBytes)), &cut);
  }
  return cut;
}

absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message) {
  return ErrorWithMetadata(code, reason, message, {});
}

absl::Status ErrorWithMetadata(absl::StatusCode code, std::string_view reason, std::string_view message,
                               const ErrorMetadata& metadata) {
  absl::Status status(code, View(message));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : metadata) {
    (*info.mutable_metadata())[key] = ValidUtf8(value);  // Invalid UTF-8 would make the details unreadable.
  }
  Attach(status, kErrorInfoUrl, info);
  return status;
}

absl::Status InvalidFields(const std::vector<FieldViolation>& violations) {
  std::string message = absl::StrCat(violations.front().field, ": ", violations.front().description);
  if (violations.size() > 1) {
    absl::StrAppend(&message, " (and ", violations.size() - 1, " more)");
  }
  absl::Status status = Error(absl::StatusCode::kInvalidArgument, "INVALID_FIELDS", message);
  AttachViolations(violations, &status);
  return status;
}

absl::Status UnsupportedField(std::string_view field, std::string_view why) {
  return UnsupportedFields({{std::string(field), std::string(why)}});
}

absl::Status UnsupportedFields(const std::vector<FieldViolation>& fields) {
  std::vector<FieldViolation> violations;
  for (const FieldViolation& field : fields) {
    const bool is_whole = absl::StartsWith(field.description, "is ");
    violations.push_back({field.field, absl::StrCat(is_whole ? "" : kNotSupported, field.description)});
  }
  std::string message = absl::StrCat(violations.front().field, " ", violations.front().description);
  if (violations.size() > 1) {
    absl::StrAppend(&message, " (and ", violations.size() - 1, " more)");
  }
  absl::Status status = ErrorWithMetadata(absl::StatusCode::kUnimplemented, "UNSUPPORTED_FIELD", message,
                                          {{"field", violations.front().field}});
  AttachViolations(violations, &status);
  return status;
}

absl::Status WithPrefix(std::string_view prefix, const absl::Status& status) {
  if (status.ok()) {
    return status;
  }
  absl::Status prefixed(status.code(), absl::StrCat(std::string(prefix), ": ", status.message()));
  status.ForEachPayload(
      [&prefixed](absl::string_view type, const absl::Cord& details) { prefixed.SetPayload(type, details); });
  return prefixed;
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  info.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  Attach(status, kRetryInfoUrl, info);
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto info = Detail<google::rpc::ErrorInfo>(status, kErrorInfoUrl);
  return info ? info->reason() : "";
}

ErrorMetadata MetadataOf(const absl::Status& status) {
  const auto info = Detail<google::rpc::ErrorInfo>(status, kErrorInfoUrl);
  return info ? ErrorMetadata(info->metadata().begin(), info->metadata().end()) : ErrorMetadata();
}

std::vector<FieldViolation> ViolationsOf(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  if (const auto request = Detail<google::rpc::BadRequest>(status, kBadRequestUrl)) {
    for (const auto& entry : request->field_violations()) {
      violations.push_back({entry.field(), entry.description()});
    }
  }
  return violations;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto info = Detail<google::rpc::RetryInfo>(status, kRetryInfoUrl);
  if (!info) {
    return std::nullopt;
  }
  return absl::Seconds(info->retry_delay().seconds()) + absl::Nanoseconds(info->retry_delay().nanos());
}

}  // namespace ampd
