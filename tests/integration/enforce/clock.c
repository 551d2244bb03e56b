/* Shifts the wall clock of a process by CLOCK_AHEAD_SECONDS; to be preloaded. Clocks that only measure are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

static long ahead(void) {
  const char *seconds = getenv("CLOCK_AHEAD_SECONDS");
  return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(id, now);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
  int failed = real(now, zone);
  if (!failed) now->tv_sec += ahead();
  return failed;
}

time_t time(time_t *now) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  if (now) *now = at.tv_sec;
  return at.tv_sec;
}

/* Waits until a moment are the kernel's, which knows nothing of the shift. A wall clock counts from 1970, the others from
   the start of the machine. */
static struct timespec shifted_back(const struct timespec *until) {
  struct timespec real = *until;
  if (real.tv_sec > 1000000000) real.tv_sec -= ahead();
  return real;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"); /* an older one of that name knows other conditions */
  if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec then = shifted_back(until);
  return real(condition, mutex, &then);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
  int (*real)(cnd_t *, mtx_t *, const struct timespec *) = dlsym(RTLD_NEXT, "cnd_timedwait");
  struct timespec then = shifted_back(until);
  return real(condition, mutex, &then);
}
