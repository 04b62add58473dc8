/* A slow network file system, preloaded into a program: each open() of a file below SLOW_FILES_BELOW is answered after
   SLOW_FILES_MILLISECONDS, and no more than SLOW_FILES_PER_SECOND of them in a second, however many wait at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic int64_t next_slot; /* nanoseconds on the monotonic clock: when the next file may be answered */

static int64_t Now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void Delay(const char *path) {
  const char *below = getenv("SLOW_FILES_BELOW");
  if (below == NULL || strncmp(path, below, strlen(below)) != 0) return;
  const int64_t now = Now(), gap = 1000000000 / atoll(getenv("SLOW_FILES_PER_SECOND"));
  int64_t slot = next_slot, mine;
  do {
    mine = slot > now ? slot : now;
  } while (!__atomic_compare_exchange_n((int64_t *)&next_slot, &slot, mine + gap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  const int64_t until = mine + 1000000 * atoll(getenv("SLOW_FILES_MILLISECONDS"));
  const struct timespec time = {until / 1000000000, until % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

#define SLOW_OPEN(name)                                                  \
  int name(const char *path, int flags, ...) {                           \
    static int (*original)(const char *, int, ...);                      \
    if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, #name); \
    va_list arguments;                                                   \
    va_start(arguments, flags);                                          \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments);                                                   \
    Delay(path);                                                         \
    return original(path, flags, mode);                                  \
  }
SLOW_OPEN(open)
SLOW_OPEN(open64)
