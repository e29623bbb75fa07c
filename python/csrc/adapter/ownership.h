// Who holds a group last ends it, and its threads. That may be a call that the group's own thread has just run, or
// Python, whose lock those threads may need for a callback of a future.
#pragma once

#include <Python.h>

#include <memory>
#include <thread>

#include "../core/group.h"

namespace sccl_torch {

template <typename Body>
void without_python_lock(Body&& body) {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return body();
  PyThreadState* const state = PyEval_SaveThread();
  body();
  PyEval_RestoreThread(state);
}

inline void end_group(Group* group) {
  // A thread cannot wait for its own end.
  if (group->queue().is_own_thread() || group->messages().is_own_thread() || group->callbacks().is_own_thread())
    std::thread([group] { delete group; }).detach();
  else
    without_python_lock([group] { delete group; });
}

inline std::shared_ptr<Group> shared(std::unique_ptr<Group> group) {
  return std::shared_ptr<Group>(group.release(), end_group);
}

}  // namespace sccl_torch
