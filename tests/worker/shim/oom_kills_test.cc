#include "worker/shim/oom_kills.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace ampd::shim {
namespace {

namespace fs = std::filesystem;
using Verdict = OomKills::Verdict;

constexpr pid_t kPid = 77;

// Tests with files that imitate procfs and the control group hierarchies.
class OomKillsTest : public testing::Test {
 protected:
  OomKillsTest() {
    Mounts(
        absl::StrCat("31 23 0:28 / ", folder_, "/tmp rw - tmpfs tmpfs rw\n", Mount("/", "/unified", "cgroup2", "rw")));
    Machine(5);
  }
  ~OomKillsTest() override { fs::remove_all(folder_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
  std::string Mount(const std::string& root, const std::string& point, const std::string& type,
                    const std::string& options) {
    return absl::StrCat("38 31 0:35 ", root, " ", folder_, point, " rw,relatime shared:9 - ", type, " ", type, " ",
                        options, "\n");
  }
  void Mounts(const std::string& text) { Write("/proc/self/mountinfo", text); }
  void Machine(int kills) { Write("/proc/vmstat", absl::StrCat("oom_kill_x 9\noom_kill ", kills, "\nnr_dirty 3\n")); }
  void Groups(const std::string& text) { Write(absl::StrCat("/proc/", kPid, "/cgroup"), text); }
  void Stat(const std::string& text) { Write(absl::StrCat("/proc/", kPid, "/stat"), text); }
  void Events(const std::string& group, const std::string& file, int kills) {
    Write(absl::StrCat("/unified", group, "/", file),
          absl::StrCat("low 0\nhigh 0\nmax 7\noom ", kills + 1, "\noom_kill ", kills, "\noom_group_kill 0\n"));
  }
  // Advances the clock by a second, and samples the counts of the process's control groups.
  void Sample() { kills_.Sample(kPid, now_ += absl::Seconds(1)); }
  Verdict VerdictAt() { return kills_.VerdictAt(now_); }

  static std::string MakeFolder() {
    std::string name = testing::TempDir() + "/ampd-oom-XXXXXX";
    return mkdtemp(name.data());
  }

  const std::string folder_ = MakeFolder();
  absl::Duration now_ = absl::Hours(1);
  OomKills kills_{folder_ + "/proc"};
};

TEST_F(OomKillsTest, EndInTheGroup_IsTheGroups) {
  Groups("0::/a/b\n");
  Events("/a/b", "memory.events.local", 3);
  Sample();
  EXPECT_EQ(VerdictAt(), Verdict::kNone);
  Machine(6);
  EXPECT_EQ(VerdictAt(), Verdict::kNone) << "another job's";
  Events("/a/b", "memory.events.local", 4);
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

TEST_F(OomKillsTest, EndsBelowAndBeside_AreNotTheGroups) {
  Groups("0::/a\n");
  for (const char* group : {"/a", "/a/child", "/b"}) {
    Events(group, "memory.events.local", 0);
    Events(group, "memory.events", 0);
  }
  Sample();
  Machine(8);
  for (const char* group : {"/a/child", "/b"}) {
    Events(group, "memory.events.local", 1);
    Events(group, "memory.events", 1);
  }
  Events("/a", "memory.events", 1);  // memory.events also counts kills in child groups
  EXPECT_EQ(VerdictAt(), Verdict::kNone);
}

TEST_F(OomKillsTest, GroupWithoutTheController_IsCountedInTheOneAboveIt) {
  Groups("0::/a/b/c\n");
  Events("/a", "memory.events.local", 0);
  fs::create_directories(folder_ + "/unified/a/b/c");
  Sample();
  Events("/a", "memory.events.local", 1);
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

TEST_F(OomKillsTest, OlderKernel_CountsInTheGroupItself) {
  Groups("0::/a\n");
  Events("/a", "memory.events", 0);
  Sample();
  Events("/a", "memory.events", 1);
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

TEST_F(OomKillsTest, ProcessThatIsMoved_IsLookedForWhereItIs) {
  Groups("0::/a\n");
  Events("/a", "memory.events.local", 0);
  Events("/b", "memory.events.local", 2);
  Sample();
  Groups("0::/b\n");
  Sample();
  Events("/a", "memory.events.local", 1);
  EXPECT_EQ(VerdictAt(), Verdict::kNone);
  Events("/b", "memory.events.local", 3);
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

// A process that has ended is no longer in any control group, so the verdict must use the last known group.
TEST_F(OomKillsTest, ProcessThatIsGone_WasWhereItWasLast) {
  Groups("0::/a\n");
  Events("/a", "memory.events.local", 0);
  Sample();
  fs::remove_all(folder_ + "/proc/" + std::to_string(kPid));
  Sample();
  Events("/a", "memory.events.local", 1);
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

// When a process begins to exit, the kernel already shows "/" as its version 1 control group. So the verdict must use
// the group before that.
TEST_F(OomKillsTest, ProcessThatEndsSlowly_IsInTheGroupWhereItWas) {
  Mounts(Mount("/", "/memory", "cgroup", "rw,memory"));
  Groups("4:memory:/jobs/a\n");
  Stat("77 (a b) c) S 1 77 77 0 -1 4194560 20");
  for (const char* group : {"", "/jobs/a"}) {
    Write(absl::StrCat("/memory", group, "/memory.oom_control"), "oom_kill 2\n");
  }
  Sample();
  Write("/memory/jobs/a/memory.oom_control", "oom_kill 3\n");
  Groups("4:memory:/\n");
  Stat("77 (a b) c) R 1 77 77 0 -1 4194564 20");
  Sample();
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

TEST_F(OomKillsTest, OldEnds_AreOfOthers) {
  Groups("0::/a\n");
  Events("/a", "memory.events.local", 0);
  Sample();
  Events("/a", "memory.events.local", 1);
  for (int second = 0; second < 20; ++second) {
    Sample();
  }
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup) << "a large process dies slowly";
  for (int second = 0; second < 20; ++second) {
    Sample();
  }
  EXPECT_EQ(VerdictAt(), Verdict::kNone);
  Events("/a", "memory.events.local", 2);
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

TEST_F(OomKillsTest, Version1_CountsInItsOwnFile) {
  Mounts(absl::StrCat(Mount("/", "/unified", "cgroup2", "rw"), Mount("/", "/cpu", "cgroup", "rw,cpu"),
                      Mount("/", "/memory", "cgroup", "rw,memory")));
  Groups("9:name=systemd:/\n5:cpu,cpuacct:/x\n4:memory:/jobs/a\n0::/\n");
  Write("/memory/jobs/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  Sample();
  Machine(6);
  EXPECT_EQ(VerdictAt(), Verdict::kNone);
  Write("/memory/jobs/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

TEST_F(OomKillsTest, MountOfAPartOfTheHierarchy_IsUnderstood) {
  Mounts(Mount("/pod", "/unified", "cgroup2", "rw"));
  Groups("0::/pod/a\n");
  Events("/a", "memory.events.local", 0);
  Sample();
  Events("/a", "memory.events.local", 1);
  EXPECT_EQ(VerdictAt(), Verdict::kOfTheGroup);
}

TEST_F(OomKillsTest, WithoutAGroupThatCounts_TheMachineIsAGuess) {
  for (const char* groups : {"0::/\n", "0::/../elsewhere\n", "", "9:name=systemd:/\n"}) {
    Groups(groups);
    OomKills kills(folder_ + "/proc");
    Machine(5);
    kills.Sample(kPid, now_);
    EXPECT_EQ(kills.VerdictAt(now_), Verdict::kNone) << groups;
    Machine(6);
    EXPECT_EQ(kills.VerdictAt(now_), Verdict::kOfTheMachine) << groups;
  }
}

}  // namespace
}  // namespace ampd::shim
