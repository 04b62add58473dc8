/* A wall clock that jumps, preloaded into a program: every fifth of a second it is right, an hour fast or an hour slow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static int (*original(void))(clockid_t, struct timespec *) {
  static int (*found)(clockid_t, struct timespec *);
  if (found == NULL) *(void **)&found = dlsym(RTLD_NEXT, "clock_gettime");
  return found;
}

int clock_gettime(clockid_t clock, struct timespec *told) {
  const int result = original()(clock, told);
  if (clock != CLOCK_REALTIME || result != 0) return result;
  struct timespec now;
  original()(CLOCK_MONOTONIC, &now);
  told->tv_sec += 3600 * ((5 * now.tv_sec + now.tv_nsec / 200000000) % 3 - 1);
  return 0;
}

int gettimeofday(struct timeval *restrict told, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *told = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *told) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (told != NULL) *told = now.tv_sec;
  return now.tv_sec;
}
