// A library to load before the C library (LD_PRELOAD). It imitates a wall clock that is set back by an hour just after
// a program has read it: the program reads a time that is one hour ahead of the kernel's clock. If a program computes
// the end of a wait from that time, and lets the kernel wait until then, the wait lasts an hour too long.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  time->tv_sec += clock == CLOCK_REALTIME ? 3600 : 0;
  return static_cast<int>(result);
}

// Replaces the C library's gettimeofday too, because Abseil's locks compute timeouts from it.
extern "C" int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  const long result = syscall(SYS_gettimeofday, time, nullptr);
  time->tv_sec += 3600;
  return static_cast<int>(result);
}
