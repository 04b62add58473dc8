/* A process that may have only MOST_THREADS threads beside its first, preloaded: what `ulimit -u` does to everybody but root.
   pthread_create fails with EAGAIN beyond that. A forked rank counts anew. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct call {
  void *(*start)(void *);
  void *argument;
};

static atomic_int living;

static void count_anew(void) { atomic_store(&living, 0); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, count_anew); }

static void count_end(void *unused) {
  (void)unused;
  atomic_fetch_sub(&living, 1);
}

static void *counted(void *argument) {
  const struct call call = *(struct call *)argument;
  free(argument);
  void *result;
  pthread_cleanup_push(count_end, NULL);
  result = call.start(call.argument);
  pthread_cleanup_pop(1);
  return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*original)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, "pthread_create");
  const char *most = getenv("MOST_THREADS");
  if (most == NULL) return original(thread, attributes, start, argument);
  if (atomic_fetch_add(&living, 1) >= atoi(most)) {
    atomic_fetch_sub(&living, 1);
    return EAGAIN;
  }
  struct call *call = malloc(sizeof *call);
  *call = (struct call){start, argument};
  const int failure = original(thread, attributes, counted, call);
  if (failure != 0) {
    atomic_fetch_sub(&living, 1);
    free(call);
  }
  return failure;
}
