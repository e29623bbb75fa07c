/* A tuner plugin in C, written against NCCL's public headers: VERSION 2 to 6, or 1, which nobody knows. It writes what
 * it is asked into the file TEST_PLUGIN_LOG, and does what TEST_TUNER says:
 *
 *   ALGORITHM PROTOCOL   prefers that entry of the cost table (numbers)
 *   untouched            changes nothing
 *   nothing              makes every entry unavailable
 *   only A P             makes all but that entry unavailable
 *   error                fails at every question
 *   init-error           fails at init
 *   chunk BYTES          (version 6) wants chunks of so many bytes
 *
 * With NO_FUNCTIONS its table holds null pointers only. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
#define EXPORT __attribute__((visibility("default")))

#ifndef NO_FUNCTIONS
static void note(const char* what, size_t a, size_t b) {
  const char* path = getenv("TEST_PLUGIN_LOG");
  FILE* file = path ? fopen(path, "ae") : NULL;
  if (!file) return;
  fprintf(file, "%s %zu %zu\n", what, a, b);
  fclose(file);
}

static int begin(size_t ranks, size_t hosts, Logger log, void** context) {
  const char* way = getenv("TEST_TUNER");
  note("init", ranks, hosts);
  if (log) log(2, ~0ul, __FILE__, __LINE__, "tuner of %zu ranks", ranks);
  *context = malloc(1);
  if (way && strcmp(way, "init-error") == 0) {
    free(*context);
    *context = NULL;
    return 3;
  }
  return 0;
}

static int end(void* context) {
  note("finalize", context != NULL, 0);
  free(context);
  return 0;
}

__attribute__((unused)) static int ask(int function, size_t bytes, float* costs, int algorithms, int protocols) {
  const char* way = getenv("TEST_TUNER");
  int algorithm = -1, protocol = -1, i;
  note("ask", (size_t)function, bytes);
  if (algorithms != 7 || protocols != 3) return 4;
  if (!way) return 0;
  if (strcmp(way, "error") == 0) {
    for (i = 0; i < algorithms * protocols; ++i) costs[i] = 0; /* must not count */
    return 2;
  }
  if (strcmp(way, "nothing") == 0)
    for (i = 0; i < algorithms * protocols; ++i) costs[i] = -1.0f;
  if (sscanf(way, "only %d %d", &algorithm, &protocol) == 2)
    for (i = 0; i < algorithms * protocols; ++i)
      if (i != algorithm * protocols + protocol) costs[i] = -1.0f;
  /* Whether or not it is available: the library has to look. */
  if (sscanf(way, "%d %d", &algorithm, &protocol) == 2) costs[algorithm * protocols + protocol] = 0.0f;
  return 0;
}
#endif

#if VERSION <= 4
struct Table {
  const char* name;
  int (*init)(size_t, size_t, Logger, void**);
#if VERSION <= 2
  int (*ask)(void*, int, size_t, int, int, int, int*, int*, int*);
#elif VERSION == 3
  int (*ask)(void*, int, size_t, int, float**, int, int, int*);
#else
  int (*ask)(void*, int, size_t, int, float**, int, int, int, int*);
#endif
  int (*destroy)(void*);
};
#ifndef NO_FUNCTIONS
#if VERSION <= 2
static int ask_it(void* context, int function, size_t bytes, int collnet, int nvls, int operations, int* algorithm,
                  int* protocol, int* channels) {
  const char* way = getenv("TEST_TUNER");
  (void)context, (void)collnet, (void)nvls, (void)operations, (void)channels;
  note("ask", (size_t)function, bytes);
  if (way && strcmp(way, "error") == 0) return 2;
  if (way) sscanf(way, "%d %d", algorithm, protocol);
  return 0;
}
#elif VERSION == 3
static int ask_it(void* context, int function, size_t bytes, int operations, float** costs, int algorithms,
                  int protocols, int* channels) {
  (void)context, (void)operations, (void)channels;
  return ask(function, bytes, (float*)costs, algorithms, protocols);
}
#else
static int ask_it(void* context, int function, size_t bytes, int operations, float** costs, int algorithms,
                  int protocols, int registered, int* channels) {
  (void)context, (void)operations, (void)channels, (void)registered;
  return ask(function, bytes, (float*)costs, algorithms, protocols);
}
#endif
#endif
#else
struct Domains {
  int count, least, most;
};
struct Constants {
  double base[7][3], hardware[3][7][3], bandwidths[5][4][3];
};
struct Table {
  const char* name;
  int (*init)(void**, uint64_t, size_t, size_t, Logger, struct Domains*, struct Constants*);
  int (*ask)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*finalize)(void*);
#if VERSION >= 6
  int (*chunk)(void*, int, size_t, int, int, int, size_t*);
#endif
};
#ifndef NO_FUNCTIONS
static int begin_it(void** context, uint64_t communicator, size_t ranks, size_t hosts, Logger log,
                    struct Domains* domains, struct Constants* constants) {
  if (communicator == 0 || !domains || domains->count != (int)hosts ||
      domains->least + domains->most != (int)(hosts == 2 ? ranks : 2 * ranks) || !constants)
    return 4;
  constants->bandwidths[4][3][2] = 1; /* the last one: writing it must be allowed */
  return begin(ranks, hosts, log, context);
}
static int ask_it(void* context, int function, size_t bytes, int operations, float** costs, int algorithms,
                  int protocols, int registered, int* channels) {
  (void)context, (void)operations, (void)channels, (void)registered;
  return ask(function, bytes, (float*)costs, algorithms, protocols);
}
#if VERSION >= 6
static int chunk_it(void* context, int function, size_t bytes, int algorithm, int protocol, int channels,
                    size_t* chunk) {
  const char* way = getenv("TEST_TUNER");
  size_t wanted;
  (void)context, (void)function, (void)bytes, (void)algorithm, (void)protocol, (void)channels;
  if (way && sscanf(way, "chunk %zu", &wanted) == 1) *chunk = wanted;
  return 0;
}
#endif
#endif
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#ifdef NO_FUNCTIONS
EXPORT const struct Table JOIN(ncclTunerPlugin_v, VERSION) = {0};
#elif VERSION <= 4
EXPORT const struct Table JOIN(ncclTunerPlugin_v, VERSION) = {"test", begin, ask_it, end};
#elif VERSION == 5
EXPORT const struct Table JOIN(ncclTunerPlugin_v, VERSION) = {"test", begin_it, ask_it, end};
#else
EXPORT const struct Table JOIN(ncclTunerPlugin_v, VERSION) = {"test", begin_it, ask_it, end, chunk_it};
#endif
