#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/grpc_status.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Error, CarriesReasonAndMetadata) {
  const absl::Status status =
      ErrorWithMetadata(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", "no job j-1", {{"job", "j-1"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), "JOB_NOT_FOUND");
  EXPECT_THAT(MetadataOf(status), ElementsAre(Pair("job", "j-1")));
}

TEST(Error, InvalidFieldsKeepsAllAndNamesTheFirst) {
  const std::vector<FieldViolation> violations = {{"train.steps", "is -1; it must be at least 1"},
                                                  {"data.batch_size", "is missing"}};
  const absl::Status status = InvalidFields(violations);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "train.steps: is -1; it must be at least 1 (and 1 more)");
  EXPECT_EQ(ViolationsOf(status), violations);
}

TEST(Error, PlainStatusCarriesNothing) {
  const absl::Status status = absl::InternalError("x");
  EXPECT_EQ(ReasonOf(status), "");
  EXPECT_TRUE(MetadataOf(status).empty());
  EXPECT_TRUE(ViolationsOf(status).empty());
  EXPECT_FALSE(RetryDelayOf(status).has_value());
}

TEST(GrpcStatus, RoundTripKeepsCodeMessageAndEveryDetail) {
  const absl::Status original =
      WithRetryDelay(InvalidFields({{"a.b", "is wrong"}}), absl::Seconds(3) + absl::Milliseconds(250));
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(original));
  EXPECT_EQ(back, original);
  EXPECT_EQ(RetryDelayOf(back), absl::Milliseconds(3250));
}

TEST(GrpcStatus, EveryCanonicalCodeSurvives) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status original(static_cast<absl::StatusCode>(code), "m");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(original)).raw_code(), code);
  }
}

TEST(GrpcStatus, GarbageInDetailsIsIgnored) {
  const absl::Status status = FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "m", "\xff\xff not a proto"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), "");
}

absl::StatusOr<int> HalfOf(int value) {
  if (value % 2 != 0) {
    return absl::InvalidArgumentError("odd");
  }
  return value / 2;
}

absl::StatusOr<int> QuarterOf(int value) {
  AMPD_ASSIGN_OR_RETURN(const int half, HalfOf(value));
  AMPD_ASSIGN_OR_RETURN(const int quarter, HalfOf(half));
  return quarter;
}

TEST(StatusMacros, ReturnTheFirstError) {
  EXPECT_EQ(QuarterOf(8).value(), 2);
  EXPECT_EQ(QuarterOf(6).status().message(), "odd");
}

}  // namespace
}  // namespace ampd
