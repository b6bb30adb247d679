#include "base/ipc/child_reaper.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "base/ipc/process.h"

namespace ampd {
namespace {

pid_t StartChild() {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  return pid;
}

// Kills the process and waits until it has ended. Does not reap the process, so that it is a zombie.
void MakeZombie(pid_t pid) {
  kill(pid, SIGKILL);
  siginfo_t ended = {};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
}

bool IsThere(pid_t pid) { return ReadProcess(pid).ok(); }

TEST(ChildReaper, TakesThoseThatHaveEnded_AndLeavesOthers) {
  ChildReaper reaper;
  const pid_t ended = StartChild();
  const pid_t living = StartChild();
  const pid_t foreign = StartChild();
  reaper.Add(ended);
  reaper.Add(living);
  MakeZombie(ended);
  MakeZombie(foreign);
  EXPECT_EQ(reaper.Descriptors().size(), 2u);
  reaper.Reap();
  EXPECT_FALSE(IsThere(ended));
  EXPECT_TRUE(IsThere(living));
  EXPECT_TRUE(IsThere(foreign)) << "it is not the reaper's to wait for";
  EXPECT_EQ(reaper.num_running(), 1u);
  MakeZombie(living);
  reaper.Reap();
  EXPECT_EQ(reaper.num_running(), 0u);
  EXPECT_EQ(waitpid(foreign, nullptr, 0), foreign);
}

TEST(ChildReaper, ADescriptorTellsOfTheEnd) {
  ChildReaper reaper;
  const pid_t child = StartChild();
  reaper.Add(child);
  pollfd ended = {reaper.Descriptors().at(0), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0);
  kill(child, SIGKILL);
  EXPECT_EQ(poll(&ended, 1, -1), 1);
  reaper.Reap();
  EXPECT_EQ(reaper.num_running(), 0u);
}

TEST(ChildReaper, WhereTheKernelReaps_NoneIsKept) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  ChildReaper reaper;
  const pid_t child = StartChild();
  reaper.Add(child);
  pollfd ended = {reaper.Descriptors().at(0), POLLIN, 0};
  kill(child, SIGKILL);
  EXPECT_EQ(poll(&ended, 1, -1), 1);
  reaper.Reap();
  EXPECT_EQ(reaper.num_running(), 0u);
  signal(SIGCHLD, before);
}

TEST(ReapAdopted, TakesAllButItsOwn_InWhicheverOrderTheyEnded) {
  for (const bool own_first : {true, false}) {
    const pid_t own = StartChild();
    const pid_t adopted = StartChild();
    const pid_t other = StartChild();
    for (const pid_t pid :
         own_first ? std::vector<pid_t>{own, adopted, other} : std::vector<pid_t>{adopted, other, own}) {
      MakeZombie(pid);
    }
    ReapAdopted([own](pid_t pid) { return pid == own; });
    EXPECT_FALSE(IsThere(adopted));
    EXPECT_FALSE(IsThere(other));
    EXPECT_EQ(waitpid(own, nullptr, 0), own);
  }
}

}  // namespace
}  // namespace ampd
