// Loaded before the C library, has a program read a wall clock that is an hour ahead of the kernel's. What has the
// kernel wait for a time of the wall clock then waits an hour too long, as each such wait does over which a clock is
// set back.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  time->tv_sec += clock == CLOCK_REALTIME ? 3600 : 0;
  return static_cast<int>(result);
}

// By which Abseil's locks reckon a timeout.
extern "C" int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  const long result = syscall(SYS_gettimeofday, time, nullptr);
  time->tv_sec += 3600;
  return static_cast<int>(result);
}
