#include "client/commands/server/versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/version.h"

namespace ampd::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Returns a version that is `minor` minor versions newer than ampctl's version.
std::string Newer(int minor) {
  const MinorVersion own = *ParseVersion(Version());
  return absl::StrCat(own.major, ".", own.minor + minor, ".7");
}

v1::Worker Worker(const std::string& name, const std::string& version, v1::Worker::State state = v1::Worker::READY) {
  v1::Worker worker;
  worker.set_name(name);
  worker.set_version(version);
  worker.set_state(state);
  return worker;
}

TEST(VersionWarnings, VersionsNextToEachOther_GiveNone) {
  EXPECT_THAT(VersionWarnings(Newer(0), {Worker("w1", Newer(1)), Worker("w2", Newer(0))}), IsEmpty());
  EXPECT_THAT(VersionWarnings(Newer(1), {Worker("w1", Newer(0)), Worker("w2", Newer(2))}), IsEmpty());
  EXPECT_THAT(VersionWarnings("", {Worker("w1", Newer(9))}), IsEmpty()) << "the server's version is not known";
}

TEST(VersionWarnings, NameTheProgramsThatAreTooFarFromTheServer) {
  EXPECT_THAT(VersionWarnings(Newer(2), {}),
              ElementsAre(absl::StrCat("ampctl ", Version(), " is more than one minor version away from the server's ",
                                       Newer(2), "; use an ampctl of the server's version")));
  EXPECT_THAT(
      VersionWarnings(Newer(0), {Worker("w1", Newer(2)), Worker("w2", Newer(1)), Worker("w3", Newer(2)),
                                 Worker("w4", Newer(3), v1::Worker::LOST), Worker("w5", "of the future\n")}),
      ElementsAre(absl::StrCat("w1, w3 have ampd ", Newer(2), ", more than one minor version away from the server's ",
                               Newer(0), "; upgrade the workers or the server, whichever is older"),
                  absl::StrCat("w5 has ampd of the future\\n, more than one minor version away from the server's ",
                               Newer(0), "; upgrade the worker or the server, whichever is older")));
}

TEST(WorkerVersionLines, NameTheWorkersOfEachVersion_TheNewestFirst) {
  std::vector<v1::Worker> workers = {Worker("old", Newer(0)), Worker("lost", Newer(0), v1::Worker::LOST)};
  for (int i = 1; i <= 10; ++i) {
    workers.push_back(Worker(absl::StrCat("w", i), Newer(1)));
  }
  EXPECT_THAT(WorkerVersionLines(workers),
              ElementsAre(absl::StrCat("ampd-worker ", Newer(1), ": w1, w2, w3, w4, w5, w6, w7, w8 and 2 more"),
                          absl::StrCat("ampd-worker ", Newer(0), ": old")));
}

}  // namespace
}  // namespace ampd::client
