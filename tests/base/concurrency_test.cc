#include <fnmatch.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/bounded_queue.h"
#include "base/glob.h"
#include "base/ipc/signals.h"
#include "base/random.h"
#include "base/simulated_clock.h"
#include "base/wall_clock_watch.h"

namespace ampd {
namespace {

TEST(BoundedQueue, RefusesWhatDoesNotFitAndKeepsOrder) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.TryPush(4));
  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), 4);
  EXPECT_EQ(queue.Pop(absl::ZeroDuration()), std::nullopt);
}

TEST(BoundedQueue, AClosedQueueGivesWhatItHasAndTakesNothing) {
  BoundedQueue<int> queue(2);
  queue.TryPush(1);
  queue.Close();
  EXPECT_FALSE(queue.Push(2));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(BoundedQueue, AWaitingPushGoesOnWhenRoomAppears) {
  BoundedQueue<int> queue(1);
  queue.TryPush(0);
  std::thread producer([&] {
    for (int i = 1; i <= 1000; ++i) {
      EXPECT_TRUE(queue.Push(i));
    }
    queue.Close();
  });
  for (int expected = 0; expected <= 1000; ++expected) {
    EXPECT_EQ(queue.Pop(), expected);
  }
  EXPECT_EQ(queue.Pop(), std::nullopt);
  producer.join();
}

TEST(SignalThread, DeliversASignalToItsCallbackAndEndsCleanly) {
  SignalThread signals({SIGUSR1});
  absl::Notification seen;
  signals.Start([&](int signal) {
    EXPECT_EQ(signal, SIGUSR1);
    seen.Notify();
  });
  kill(getpid(), SIGUSR1);
  EXPECT_TRUE(seen.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

TEST(SimulatedClock, AWallClockJumpLeavesTheBootClockAlone) {
  SimulatedClock clock;
  const absl::Duration before = clock.SinceBoot();
  clock.SetNow(clock.Now() - absl::Hours(1));
  EXPECT_EQ(clock.SinceBoot(), before);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(clock.SinceBoot(), before + absl::Seconds(2));
}

TEST(WallClockWatch, IsNotSteadyForAnHourAfterALeapInEitherDirection) {
  for (const absl::Duration leap : {absl::Hours(24 * 60), -absl::Hours(3), absl::Minutes(6)}) {
    SimulatedClock clock;
    WallClockWatch watch(&clock);
    EXPECT_EQ(watch.Look(), std::nullopt);
    EXPECT_TRUE(watch.IsSteady());
    clock.SetNow(clock.Now() + leap);
    EXPECT_FALSE(watch.IsSteady()) << "before anybody looked";
    EXPECT_EQ(watch.Look(), leap);
    EXPECT_EQ(watch.Look(), std::nullopt) << "told once";
    clock.Advance(absl::Minutes(59));
    EXPECT_FALSE(watch.IsSteady()) << leap;
    clock.Advance(absl::Minutes(1));
    EXPECT_EQ(watch.Look(), std::nullopt);
    EXPECT_TRUE(watch.IsSteady()) << leap;
  }
}

TEST(WallClockWatch, AllowsForTimeThatPassesAndForSmallCorrections) {
  SimulatedClock clock;
  WallClockWatch watch(&clock);
  clock.Advance(absl::Hours(24 * 365));  // A year passes at once, as if the host had slept.
  clock.SetNow(clock.Now() + absl::Minutes(4));
  EXPECT_EQ(watch.Look(), std::nullopt);
  EXPECT_TRUE(watch.IsSteady());
}

TEST(WallClockWatch, ComparesTheStartWithTheNewestRecord) {
  SimulatedClock clock;
  const auto is_steady_after = [&clock](absl::Time newest) {
    WallClockWatch watch(&clock);
    watch.CompareWith(newest);
    return watch.IsSteady();
  };
  EXPECT_TRUE(is_steady_after(absl::InfinitePast()));
  EXPECT_TRUE(is_steady_after(clock.Now() - absl::Minutes(50)));
  EXPECT_TRUE(is_steady_after(clock.Now() + absl::Minutes(4)));
  EXPECT_FALSE(is_steady_after(clock.Now() - absl::Hours(2)));
  EXPECT_FALSE(is_steady_after(clock.Now() + absl::Minutes(6)));
}

TEST(RandomId, UsesItsAlphabetAndRepeatsForTheSameSeed) {
  SeededRandom first(7);
  SeededRandom second(7);
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = RandomId(first, 16);
    EXPECT_EQ(id, RandomId(second, 16));
    EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567"), std::string::npos);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_NE(RandomId(SystemRandom(), 26), RandomId(SystemRandom(), 26));
}

TEST(Glob, MatchesTheWholeText) {
  EXPECT_TRUE(GlobMatches("head.*", "head.weight"));
  EXPECT_FALSE(GlobMatches("head", "head.weight"));
  EXPECT_TRUE(GlobMatches("layers.[01].*", "layers.1.bias"));
}

TEST(Glob, AgreesWithThePosixFunction) {
  constexpr char kPattern[] = "ab*?[]!";
  constexpr char kText[] = "ab-[]";
  SeededRandom random(11);
  const auto draw = [&random](std::string_view alphabet, size_t max_length) {
    std::string text(random.Next() % (max_length + 1), ' ');
    for (char& character : text) {
      character = alphabet[random.Next() % alphabet.size()];
    }
    return text;
  };
  int num_matches = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::string pattern = draw(kPattern, 7);
    const std::string text = draw(kText, 5);
    const bool expected = fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
    EXPECT_EQ(GlobMatches(pattern, text), expected) << "pattern " << pattern << ", text " << text;
    num_matches += expected ? 1 : 0;
  }
  EXPECT_GT(num_matches, 1000);
}

TEST(Glob, ASetMayHaveRangesAndMayBeNegated) {
  for (const char* text : {"a", "b", "c"}) {
    EXPECT_TRUE(GlobMatches("[a-c]", text)) << text;
    EXPECT_FALSE(GlobMatches("[!a-c]", text)) << text;
    EXPECT_FALSE(GlobMatches("[^a-c]", text)) << text;
  }
  EXPECT_FALSE(GlobMatches("[a-c]", "d"));
  EXPECT_FALSE(GlobMatches("[a-c]", "-"));
  EXPECT_TRUE(GlobMatches("[a-]", "-")) << "no range, because nothing follows";
  EXPECT_TRUE(GlobMatches("[a", "[a")) << "no set, because it does not end";
}

TEST(Glob, APatternWithManyStars_TakesLittleTime) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) {
    pattern += "a*";
  }
  EXPECT_FALSE(GlobMatches(pattern + "b", std::string(2000, 'a')));
  EXPECT_TRUE(GlobMatches(pattern, std::string(2000, 'a')));
}

}  // namespace
}  // namespace ampd
