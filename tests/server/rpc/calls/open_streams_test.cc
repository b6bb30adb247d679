#include "server/rpc/calls/open_streams.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ampd::server {
namespace {

constexpr char kWatch[] = "ampd.v1.JobService/WatchJob";

// A stream that remembers the status with which it was to end.
class FakeStream final : public OpenStream {
 public:
  void OnDenied(const absl::Status& status) override { denied_ = status; }
  const absl::Status& denied() const { return denied_; }

 private:
  absl::Status denied_;
};

// Calls EndDenied while the caller of every stream may call the method in these tenants, or has this error.
int EndDenied(OpenStreams* streams, const absl::StatusOr<Tenants>& tenants) {
  return streams->EndDenied([&tenants](const grpc::ServerContextBase&, std::string_view) { return tenants; });
}

TEST(OpenStreams, AStreamEndsWhenItsCallerLosesOneOfItsTenants) {
  OpenStreams streams;
  grpc::CallbackServerContext context;
  FakeStream stream;
  streams.Add(&context, kWatch, Tenants({"nlp", "vision"}), &stream);
  EXPECT_EQ(EndDenied(&streams, Tenants({"nlp", "vision"})), 0);
  EXPECT_EQ(EndDenied(&streams, Tenants({"nlp", "speech", "vision"})), 0);
  EXPECT_EQ(EndDenied(&streams, Tenants::All()), 0);
  EXPECT_TRUE(stream.denied().ok());
  EXPECT_EQ(EndDenied(&streams, Tenants({"nlp", "speech"})), 1);
  EXPECT_EQ(ReasonOf(stream.denied()), "RIGHTS_CHANGED");
  EXPECT_EQ(stream.denied().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RetryDelayOf(stream.denied()).has_value());
  streams.Remove(&context);
}

TEST(OpenStreams, AStreamOfAllTenantsEndsWhenItsCallerHasOnlySome) {
  OpenStreams streams;
  grpc::CallbackServerContext context;
  FakeStream stream;
  streams.Add(&context, kWatch, Tenants::All(), &stream);
  EXPECT_EQ(EndDenied(&streams, Tenants({"vision"})), 1);
  EXPECT_EQ(ReasonOf(stream.denied()), "RIGHTS_CHANGED");
  streams.Remove(&context);
}

TEST(OpenStreams, AStreamEndsWithTheErrorOfACallerThatMayNotCall) {
  OpenStreams streams;
  grpc::CallbackServerContext context;
  FakeStream stream;
  streams.Add(&context, kWatch, Tenants({"vision"}), &stream);
  EXPECT_EQ(EndDenied(&streams, absl::PermissionDeniedError("no")), 1);
  EXPECT_EQ(stream.denied(), absl::PermissionDeniedError("no"));
  streams.Remove(&context);
}

}  // namespace
}  // namespace ampd::server
