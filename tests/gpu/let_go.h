// Streams of a failed call that the host has let go (runtime/gpu/stream/stream_watch.h): they move data that nobody
// trusts, and read what other ranks still write. While a test says that such streams run, ThreadSanitizer looks away
// from the data that streams move, but from nothing else.
#pragma once

#include <atomic>

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace fake {

inline std::atomic<bool> streams_are_let_go{false};

// Around what a thread moves for a stream.
class MovesData {
#if defined(__SANITIZE_THREAD__)
 public:
  MovesData() : unwatched_(streams_are_let_go) {
    if (!unwatched_) return;
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~MovesData() {
    if (!unwatched_) return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  MovesData(const MovesData&) = delete;
  MovesData& operator=(const MovesData&) = delete;

 private:
  bool unwatched_;
#else
 public:
  MovesData() {}  // not trivial: a variable of the type is used
#endif
};

}  // namespace fake
