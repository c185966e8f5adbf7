/* The clock of a server that can be moved: preloaded, it adds the microseconds in the file CLOCK_STEP to the time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *step;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_STEP");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) step = page;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  int64_t micros = now.tv_sec * 1000000LL + now.tv_nsec / 1000 + (step ? *step : 0);
  time->tv_sec = micros / 1000000;
  time->tv_usec = micros % 1000000;
  return 0;
}
