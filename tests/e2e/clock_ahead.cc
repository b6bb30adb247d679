// A library to load before the C library. Programs then read a wall clock that is one hour ahead of the kernel's clock,
// as if the clock were set back by an hour just after the program read it. A wait that computes its end from the wall
// clock, and lets the kernel wait until then, lasts an hour too long.
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
