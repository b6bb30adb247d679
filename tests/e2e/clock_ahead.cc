// A library to load before the C library. It lets a program read a wall clock that is one hour ahead of the kernel's
// clock. A wait that reads the wall clock, and asks the kernel to wait until a time on it, then lasts one hour too
// long. The same happens if the clock is set back during a wait.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  time->tv_sec += clock == CLOCK_REALTIME ? 3600 : 0;
  return static_cast<int>(result);
}

// Replaces the C library's gettimeofday too, with which Abseil's locks compute timeouts.
extern "C" int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  const long result = syscall(SYS_gettimeofday, time, nullptr);
  time->tv_sec += 3600;
  return static_cast<int>(result);
}
