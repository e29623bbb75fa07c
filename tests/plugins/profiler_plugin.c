/* A profiler plugin in C, written against NCCL's public headers: VERSION 1 to 6, or 9, which nobody knows. It numbers
 * events and writes them into the file TEST_PLUGIN_LOG:
 *
 *   RANK start ID KIND parent KIND [FUNCTION COUNT]    RANK state ID STATE    RANK stop ID
 *
 * TEST_PROFILER_MASK: the kinds it wants (default: all). TEST_PROFILER: start-error, stop-error, init-error,
 * no-handles. With NO_FUNCTIONS its table holds null pointers only. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct Descriptor {
#if VERSION <= 4
  uint8_t type;
#else
  uint64_t type;
#endif
  void* parent;
  int rank;
  union {
    struct {
#if VERSION <= 3
      const char* name;
      uint64_t identity;
#endif
      uint64_t sequence;
#if VERSION == 1
      uint8_t func;
#else
      const char* func;
#endif
      const void* send;
      void* recv;
      size_t count;
    } coll;
    struct {
#if VERSION <= 3
      const char* name;
      uint64_t identity;
#endif
#if VERSION == 1
      uint8_t func;
      void* buffer;
      uint8_t type;
#else
      const char* func;
      void* buffer;
      const char* type;
#endif
      size_t count;
      int peer;
    } p2p;
    struct {
      const char* func;
      size_t count;
      const char* type;
    } api;
    struct {
      uint8_t channel;
      uint64_t time;
    } kernel;
    struct {
      int process;
      uint8_t channel;
      int peer;
      int steps;
      int chunk_bytes;
      int sends;
    } proxy;
  } of;
};

struct Table {
  const char* name;
#if VERSION <= 3
  int (*init)(void**, int*);
#elif VERSION == 4
  int (*init)(void**, int*, const char*, uint64_t, int, int, int, Logger);
#else
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, Logger);
#endif
  int (*start)(void*, void**, struct Descriptor*);
  int (*stop)(void*);
  int (*state)(void*, int, void*);
  int (*finalize)(void*);
};

#ifndef NO_FUNCTIONS
struct Event {
  int number, rank, type;
  struct Event* earlier; /* in the list of all */
};
static int events;
static struct Event* newest;

__attribute__((destructor)) static void free_events(void) {
  for (struct Event* event = newest; event;) {
    struct Event* const freed = event;
    event = event->earlier;
    free(freed);
  }
}

static int way(const char* name) {
  const char* is = getenv("TEST_PROFILER");
  return is && strcmp(is, name) == 0;
}
static FILE* out(void) {
  const char* path = getenv("TEST_PLUGIN_LOG");
  return path ? fopen(path, "ae") : NULL;
}

static int begin(void** context, int* mask, uint64_t identity, int ranks, int rank) {
  const char* wanted = getenv("TEST_PROFILER_MASK");
  FILE* file = out();
  if (file) {
    fprintf(file, "%d init %d %s\n", rank, ranks, identity ? "known" : "unknown");
    fclose(file);
  }
  if (way("init-error")) return 5;
  *mask = wanted ? atoi(wanted) : 0x7fff;
  *context = malloc(1);
  return 0;
}
#if VERSION <= 3
static int init(void** context, int* mask) { return begin(context, mask, 0, 0, -1); }
#elif VERSION == 4
static int init(void** context, int* mask, const char* name, uint64_t identity, int hosts, int ranks, int rank,
                Logger log) {
  (void)name, (void)hosts, (void)log;
  return begin(context, mask, identity, ranks, rank);
}
#else
static int init(void** context, uint64_t identity, int* mask, const char* name, int hosts, int ranks, int rank,
                Logger log) {
  (void)name, (void)hosts, (void)log;
  return begin(context, mask, identity, ranks, rank);
}
#endif

static int start(void* context, void** handle, struct Descriptor* about) {
  FILE* file = out();
  struct Event* event;
  struct Event* parent = about->parent;
  if (!context || way("start-error")) return 2;
  if (way("no-handles")) return 0;
  event = malloc(sizeof *event);
  event->number = __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
  event->rank = about->rank;
  event->type = (int)about->type;
  event->earlier = __atomic_load_n(&newest, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&newest, &event->earlier, event, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  if (file) {
    fprintf(file, "%d start %d kind %d parent %d", event->rank, event->number, event->type, parent ? parent->type : 0);
#if VERSION == 1
    if (event->type == 2) fprintf(file, " %d %zu", about->of.coll.func, about->of.coll.count);
    if (event->type == 4) fprintf(file, " %d %zu", about->of.p2p.func, about->of.p2p.count);
#else
    if (event->type == 2) fprintf(file, " %s %zu", about->of.coll.func, about->of.coll.count);
    if (event->type == 4) fprintf(file, " %s %zu", about->of.p2p.func, about->of.p2p.count);
#endif
    if (event->type == 8)
      fprintf(file, " %s %d %s", about->of.proxy.sends ? "to" : "from", about->of.proxy.peer,
              about->of.proxy.process == getpid() && about->of.proxy.steps > 0 && about->of.proxy.chunk_bytes > 0
                  ? "complete"
                  : "incomplete");
    if (event->type == 512 || event->type == 1024)
      fprintf(file, " %s %zu %s", about->of.api.func, about->of.api.count, about->of.api.type);
    fprintf(file, "\n");
    fclose(file);
  }
  *handle = event;
  return 0;
}

static int stop(void* handle) {
  struct Event* event = handle;
  FILE* file = out();
  if (file) {
    fprintf(file, "%d stop %d kind %d\n", event->rank, event->number, event->type);
    fclose(file);
  }
  return way("stop-error") ? 1 : 0; /* the event is kept: children may still name it as their parent */
}

static int state(void* handle, int which, void* arguments) {
  struct Event* event = handle;
  FILE* file = out();
  if (file) {
    fprintf(file, "%d state %d kind %d is %d%s\n", event->rank, event->number, event->type, which,
            which == 22 && *(uint64_t*)arguments != 0 ? " timed" : "");
    fclose(file);
  }
  return 0;
}

static int finalize(void* context) {
  FILE* file = out();
  if (file) {
    fprintf(file, "finalize\n");
    fclose(file);
  }
  free(context);
  return 0;
}
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#ifdef NO_FUNCTIONS
__attribute__((visibility("default"))) const struct Table JOIN(ncclProfiler_v, VERSION) = {0};
#else
__attribute__((visibility("default")))
const struct Table JOIN(ncclProfiler_v, VERSION) = {"test", init, start, stop, state, finalize};
#endif
