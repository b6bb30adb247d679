#include "base/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
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
    entry->set_field(violation.field);
    entry->set_description(violation.description);
  }
  Attach(*status, kBadRequestUrl, request);
}

}  // namespace

absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message) {
  return ErrorWithMetadata(code, reason, message, {});
}

absl::Status ErrorWithMetadata(absl::StatusCode code, std::string_view reason, std::string_view message,
                               const ErrorMetadata& metadata) {
  absl::Status status(code, View(message));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  info.mutable_metadata()->insert(metadata.begin(), metadata.end());
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
    violations.push_back({field.field, absl::StrCat(kNotSupported, field.description)});
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
