/* A process that may start only so many threads, preloaded: the NO_THREAD_ATth call of pthread_create fails as it does at
   the limit of `ulimit -u`, which does not hold for root. The next ones succeed: each thread is refused once. What a
   process has asked for by then is inherited by nobody: a forked rank counts anew. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_int calls;

static void count_anew(void) { atomic_store(&calls, 0); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, count_anew); }

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*original)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, "pthread_create");
  const char *at = getenv("NO_THREAD_AT");
  if (at != NULL && atomic_fetch_add(&calls, 1) + 1 == atoi(at)) return EAGAIN;
  return original(thread, attributes, start, argument);
}
