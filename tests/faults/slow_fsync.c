/* A disk that stalls, preloaded into a program: the fsync of a file whose path has SLOW_FSYNC in it takes
   SLOW_FSYNC_MILLISECONDS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int descriptor) {
  static int (*original)(int);
  if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, "fsync");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  const char *slow = getenv("SLOW_FSYNC");
  if (length > 0 && slow != NULL) {
    path[length] = '\0';
    if (strstr(path, slow) != NULL) usleep(1000 * (useconds_t)atoi(getenv("SLOW_FSYNC_MILLISECONDS")));
  }
  return original(descriptor);
}
