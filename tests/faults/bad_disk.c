/* A disk or network file system that misbehaves, preloaded into a program. The calls BAD_CALLS (of open, read, write, fsync,
   rename and close, with commas between them) on a file whose path has BAD_FILE in it take BAD_MILLISECONDS and then, if
   BAD_ERRNO is given, fail with it; not the first BAD_AFTER of them, and then only BAD_TIMES, if these are given. With
   BAD_PER_SECOND no more than so many begin in a second, however many wait at once. A close that fails has closed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static atomic_int met;

static int number(const char *variable, int otherwise) {
  const char *value = getenv(variable);
  return value == NULL ? otherwise : atoi(value);
}

static void wait_for_a_turn(int per_second) {
  static _Atomic int64_t next; /* nanoseconds on the monotonic clock */
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
  int64_t turn = next, mine;
  do {
    mine = turn > now ? turn : now;
  } while (!atomic_compare_exchange_weak(&next, &turn, mine + 1000000000 / per_second));
  usleep((useconds_t)((mine - now) / 1000));
}

/* Returns the errno of a call on `path`; 0 if it goes on as usual. */
static int fault(const char *call, const char *path) {
  const char *file = getenv("BAD_FILE"), *calls = getenv("BAD_CALLS");
  if (file == NULL || calls == NULL || strstr(path, file) == NULL || strstr(calls, call) == NULL) return 0;
  const int count = atomic_fetch_add(&met, 1) - number("BAD_AFTER", 0);
  if (count < 0 || count >= number("BAD_TIMES", 1 << 30)) return 0;
  if (number("BAD_PER_SECOND", 0) > 0) wait_for_a_turn(number("BAD_PER_SECOND", 0));
  usleep(1000 * (useconds_t)number("BAD_MILLISECONDS", 0));
  return number("BAD_ERRNO", 0);
}

static int fault_of(const char *call, int descriptor) {
  if (getenv("BAD_FILE") == NULL) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return fault(call, path);
}

#define ORIGINAL(name)                                 \
  static __typeof__(&name) original;                   \
  if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, #name);
#define FAIL(call_fault)           \
  const int error = (call_fault);  \
  if (error != 0) {                \
    errno = error;                 \
    return -1;                     \
  }

int fsync(int descriptor) {
  ORIGINAL(fsync)
  FAIL(fault_of("fsync", descriptor))
  return original(descriptor);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  ORIGINAL(write)
  FAIL(fault_of("write", descriptor))
  return original(descriptor, bytes, count);
}

ssize_t read(int descriptor, void *bytes, size_t count) {
  ORIGINAL(read)
  FAIL(fault_of("read", descriptor))
  return original(descriptor, bytes, count);
}

int rename(const char *from, const char *to) {
  ORIGINAL(rename)
  FAIL(fault("rename", to))
  return original(from, to);
}

int close(int descriptor) {
  ORIGINAL(close)
  const int error = fault_of("close", descriptor), result = original(descriptor);
  if (error == 0) return result;
  errno = error;
  return -1;
}

#define BAD_OPEN(name)                                                                 \
  int name(const char *path, int flags, ...) {                                         \
    ORIGINAL(name)                                                                     \
    va_list arguments;                                                                 \
    va_start(arguments, flags);                                                        \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments);                                                                 \
    FAIL(fault("open", path))                                                          \
    return original(path, flags, mode);                                                \
  }

BAD_OPEN(open)
BAD_OPEN(open64)
