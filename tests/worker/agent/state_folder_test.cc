#include "worker/agent/state_folder.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/text.h"

namespace ampd::agent {
namespace {

TEST(PlaceOf, Path_IsWithTheNameOfTheHost) { EXPECT_EQ(PlaceOf("h1", "/no/such/../folder"), "h1:/no/folder"); }

// The server can't read a report in which a text is not UTF-8.
TEST(PlaceOf, PathThatIsNotUtf8_HasQuestionMarks) { EXPECT_EQ(PlaceOf("h1", "/no/caf\xe9"), "h1:/no/caf?"); }

TEST(PlaceOf, LongPath_IsCutBetweenCharacters) {
  std::string path = "/no/";
  for (int i = 0; i < 400; ++i) {
    path += "\u4e2d";  // A Chinese character, which has three bytes.
  }
  for (const char* host : {"h", "h1", "h12"}) {
    const std::string place = PlaceOf(host, path);
    EXPECT_LE(place.size(), 512u);
    EXPECT_GT(place.size(), 506u);
    EXPECT_EQ(FirstInvalidUtf8(place), std::nullopt) << host;
  }
}

}  // namespace
}  // namespace ampd::agent
