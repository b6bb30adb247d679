#include "tests/worker/train/checkpoint/trapped_process.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/io/file.h"

namespace ampd::train {
namespace {

struct Call {
  int number;
  const char* name;
};

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// All system calls that change files. Some exist only on x86-64. openat counts only if it may create a file.
constexpr Call kCalls[] = {
    {SYS_openat, "openat"},       {SYS_write, "write"},
    {SYS_writev, "writev"},       {SYS_pwrite64, "pwrite64"},
    {SYS_pwritev, "pwritev"},     {SYS_fallocate, "fallocate"},
    {SYS_ftruncate, "ftruncate"}, {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"}, {SYS_sync_file_range, "sync_file_range"},
    {SYS_renameat2, "renameat2"}, {SYS_mkdirat, "mkdirat"},
    {SYS_unlinkat, "unlinkat"},
#if defined(__x86_64__)
    {SYS_rename, "rename"},       {SYS_renameat, "renameat"},
    {SYS_mkdir, "mkdir"},         {SYS_unlink, "unlink"},
    {SYS_rmdir, "rmdir"},
#endif
};

std::string NameOf(int number) {
  for (const Call& call : kCalls) {
    if (call.number == number) {
      return call.name;
    }
  }
  return "?";
}

constexpr auto kNumberAt = static_cast<uint32_t>(offsetof(seccomp_data, nr));
constexpr auto kArchitectureAt = static_cast<uint32_t>(offsetof(seccomp_data, arch));
constexpr auto kThirdArgumentAt = static_cast<uint32_t>(offsetof(seccomp_data, args) + 2 * sizeof(uint64_t));

sock_filter Load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter Return(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
// Returns a BPF instruction: it skips the next `then` instructions if the loaded value equals `value`, and otherwise
// the next `otherwise` instructions.
sock_filter IfEqual(uint32_t value, uint8_t then, uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
}

std::vector<sock_filter> Filter() {
  // The filter allows system calls of other architectures (such as 32-bit ones), because this program makes none.
  std::vector<sock_filter> filter = {Load(kArchitectureAt), IfEqual(kArchitecture, 1, 0), Return(SECCOMP_RET_ALLOW),
                                     Load(kNumberAt)};
  for (const Call& call : kCalls) {
    if (call.number != SYS_openat) {
      filter.push_back(IfEqual(static_cast<uint32_t>(call.number), 0, 1));
      filter.push_back(Return(SECCOMP_RET_USER_NOTIF));
    }
  }
  filter.push_back(IfEqual(SYS_openat, 1, 0));
  filter.push_back(Return(SECCOMP_RET_ALLOW));
  filter.push_back(Load(kThirdArgumentAt));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1));
  filter.push_back(Return(SECCOMP_RET_USER_NOTIF));
  filter.push_back(Return(SECCOMP_RET_ALLOW));
  return filter;
}

// Installs the filter in this process. Returns a descriptor on which the kernel reports the filtered calls, or -1 if
// the kernel does not allow a filter.
int TrapMyself() {
  std::vector<sock_filter> filter = Filter();
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return -1;
  }
  return static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

// Sends one byte over the socket, together with the descriptor `fd` unless it is -1.
void SendDescriptor(int socket, int fd) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  sendmsg(socket, &message, 0);
}

UniqueFd ReceiveDescriptor(int socket) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const bool received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1;
  const cmsghdr* header = received ? CMSG_FIRSTHDR(&message) : nullptr;
  int fd = -1;
  if (header != nullptr) {
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  }
  return UniqueFd(fd);
}

// Counts the process's calls and lets each call proceed. Returns once the process has ended or has met its fault.
void Supervise(int listener, pid_t child, const Fate& fate, TrappedRun& run) {
  for (;;) {
    pollfd wait = {listener, POLLIN, 0};
    if (poll(&wait, 1, -1) < 0 && errno == EINTR) {
      continue;
    }
    if ((wait.revents & POLLIN) == 0) {
      return;  // The process is gone.
    }
    seccomp_notif call = {};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
      continue;
    }
    run.calls.push_back(NameOf(call.data.nr));
    seccomp_notif_resp answer = {};
    answer.id = call.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (static_cast<int>(run.calls.size()) == fate.at) {
      if (fate.error == 0) {
        kill(child, SIGKILL);
        return;
      }
      answer.flags = 0;
      answer.error = -fate.error;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

}  // namespace

TrappedRun RunTrapped(const Fate& fate, const std::function<int()>& body) {
  TrappedRun run;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return run;
  }
  UniqueFd mine(sockets[0]);
  UniqueFd childs(sockets[1]);
  const pid_t child = fork();
  if (child == 0) {
    const int listener = TrapMyself();
    SendDescriptor(childs.get(), listener);
    close(listener);
    _exit(listener >= 0 ? body() : 0);
  }
  childs.Reset();
  {
    const UniqueFd listener = ReceiveDescriptor(mine.get());
    run.supported = listener.ok();
    if (run.supported) {
      Supervise(listener.get(), child, fate, run);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  run.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

}  // namespace ampd::train
